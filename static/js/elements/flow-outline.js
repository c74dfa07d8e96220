import { LitElement, html, nothing } from "../../vendor/lit.js";
import { iconHref } from "../dom.js";
import { bodies } from "../flow-layout.js";
import { title, subtitle, nodeIcon } from "../flow-module.js";
import { statusWord } from "../status.js";
import { duration } from "../format.js";

const ico = (name, cls = "") => html`<svg class="i ${cls}" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;

/**
 * <wm-flow-outline>: the graph of a flow as a nested list, with the same properties (value, states, selected, errors) and the
 * same event wm-select {id}. What the picture says by place, the list says by nesting.
 */
class FlowOutline extends LitElement {
  static properties = { value: { attribute: false }, states: { attribute: false }, errors: { attribute: false }, selected: {} };
  createRenderRoot() { return this; }
  render() {
    const value = this.value;
    if (!value) return nothing;
    return html`<ol class="fo" aria-label="Steps of the flow">
      ${value.preprocessor_module ? html`<li class="fo-part"><span class="fo-label">Before the inputs</span><ol>${this.#step(value.preprocessor_module)}</ol></li>` : nothing}
      ${(value.modules ?? []).map((m) => this.#step(m))}
      ${value.failure_module ? html`<li class="fo-part"><span class="fo-label">If a step fails</span><ol>${this.#step(value.failure_module)}</ol></li>` : nothing}</ol>`;
  }
  #step(m) {
    const state = this.states?.[m.id] ?? { status: "pending" }, inside = bodies(m), its = state.iterations, error = this.errors?.[m.id];
    return html`<li><button type="button" class="fo-step" data-id=${m.id} data-status=${state.status} aria-current=${m.id === this.selected ? "true" : nothing}
      @click=${() => { this.selected = m.id; this.dispatchEvent(new CustomEvent("wm-select", { bubbles: true, detail: { id: m.id } })); }}>
      <span class="fg-ico">${ico(nodeIcon(m, state.status), state.status === "running" ? "spin" : "")}</span><span class="fo-txt"><b>${title(m)}</b> <span>${subtitle(m)}</span>${error ? html`<span class="err">${error}</span>` : nothing}</span>
      <span class="fo-state">${its?.total ? `${its.done} of ${its.total}${its.failed ? `, ${its.failed} failed` : ""} · ` : ""}${statusWord(state.status)}${state.duration_ms != null ? ` · ${duration(state.duration_ms)}` : ""}</span><span class="sid">${m.id}</span></button>
      ${inside.map((b) => (b.label ? html`<div class="fo-part"><span class="fo-label">${b.label}${state.branch === b.branch && b.branch !== null ? " · chosen" : ""}</span>${this.#list(b.modules)}</div>` : this.#list(b.modules)))}</li>`;
  }
  #list(modules) { return modules.length ? html`<ol>${modules.map((m) => this.#step(m))}</ol>` : html`<p class="fo-none">No steps</p>`; }
}
customElements.define("wm-flow-outline", FlowOutline);
