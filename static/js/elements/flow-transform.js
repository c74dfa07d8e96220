import { LitElement, html, nothing } from "../../vendor/lit.js";
import "./code.js";
import "./schema-form.js";
import { iconHref } from "../dom.js";
import { control, initial, resourceType, typeOf } from "../schema.js";

const ico = (name) => html`<svg class="i" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
const stash = new Map(); // key of a field -> {static, javascript}: what it was before it was switched
const BLANK = new Set(["", "[]", "null", '""']); // expressions that stand for nothing yet
const WORDS = { choice: "choice", switch: "boolean", textarea: "text", chips: "list", choices: "list", list: "list", json: "json", variant: "one of", password: "secret", group: "object" };

/**
 * <wm-flow-transform>: one input of a step: a fixed value (the field of its schema) or an expression. Switching keeps
 * the other one. Properties: key (unique in the page: remembers the other side), name, label, schema (of the property),
 * required, note, value (an InputTransform, may be undefined), resourcesUrl, completions, plain (no picker).
 * Methods: insert(text) (into the expression, which it becomes if needed), focus().
 * Events (bubble): "wm-transform" {value}, "wm-pick" {into: this element}.
 */
class FlowTransform extends LitElement {
  static properties = { key: { attribute: false }, name: { attribute: false }, label: { attribute: false }, schema: { attribute: false }, required: { attribute: false }, note: { attribute: false }, value: { attribute: false }, resourcesUrl: { attribute: false }, completions: { attribute: false }, plain: { attribute: false } };
  #form = null; // the schema of the form, kept while the property's is the same
  #last; // the value as this element told it: it comes back unchanged
  createRenderRoot() { return this; }

  get #isCode() { return this.value?.type === "javascript"; }
  #tell(value) {
    this.value = this.#last = value;
    this.dispatchEvent(new CustomEvent("wm-transform", { bubbles: true, detail: { value } }));
  }
  #become(type) {
    if (this.#isCode === (type === "javascript")) return;
    const other = stash.get(this.key) || {};
    stash.set(this.key, { ...other, [this.#isCode ? "javascript" : "static"]: this.value });
    const kept = other[type];
    if (type === "javascript") this.#tell(kept || { type, expr: this.value?.value === undefined || this.value?.value === "" ? "" : JSON.stringify(this.value.value) });
    else this.#tell(kept || { type, value: literal(this.value?.expr) ?? initial(this.schema || {}, this.required) });
  }
  /** Puts text where the cursor is; a fixed value becomes this expression. */
  async insert(text) {
    if (/^\$(var|res):/.test(text)) return this.#tell({ type: "static", value: text });
    const code = this.querySelector("wm-code");
    if (this.#isCode && code?.hasAttribute("ready") && !BLANK.has(this.value.expr.trim())) return code.insert(text);
    stash.set(this.key, { ...stash.get(this.key), ...(this.#isCode ? {} : { static: this.value }) });
    this.#tell({ type: "javascript", expr: text });
    await this.updateComplete;
    this.focus();
  }
  focus() { (this.querySelector("wm-code, input, select, textarea, .seg button"))?.focus(); }

  #word() {
    const s = this.schema || {}, kind = control(s);
    return kind === "resource" ? resourceType(s) : WORDS[kind] || typeOf(s) || kind;
  }
  render() {
    const label = this.label || this.name, code = this.#isCode, ai = this.value?.type === "ai";
    return html`<div class="ft-head"><span class="ft-name">${label}${this.required ? html`<span class="req" aria-hidden="true">*</span><span class="vh"> (required)</span>` : nothing}</span><span class="type">${this.#word()}</span>
        <span class="seg" role="group" aria-label="How ${label} is given"><button type="button" aria-pressed=${!code && !ai} @click=${() => this.#become("static")}>Value</button><button type="button" aria-pressed=${code} @click=${() => this.#become("javascript")}>Expression</button></span>
        ${this.plain ? nothing : html`<button type="button" class="btn ghost icon sm" aria-label="Connect ${label}" title="Connect to an input or an earlier step" @click=${() => this.dispatchEvent(new CustomEvent("wm-pick", { bubbles: true, detail: { into: this } }))}>${ico("link")}</button>`}</div>
      ${code ? html`<div class="code-frame"><wm-code small language="javascript" label="Expression of ${label}" placeholder="results.a.name" .value=${this.value.expr ?? ""} .completions=${this.completions || []} @input=${(e) => { e.stopPropagation(); if (e.target.value !== this.value.expr) this.#tell({ type: "javascript", expr: e.target.value }); }}><pre>${this.value.expr ?? ""}</pre></wm-code></div>`
        : ai ? html`<p class="help">The agent fills this in.</p>`
        : html`<wm-schema-form no-json resources-url=${this.resourcesUrl || nothing} @wm-input=${(e) => { e.stopPropagation(); this.#tell({ type: "static", value: e.detail.value[this.name] }); }}></wm-schema-form>`}
      ${this.note ? html`<p class="help">${this.note}</p>` : nothing}`;
  }
  updated() {
    const form = this.querySelector("wm-schema-form");
    if (!form) { this.#form = null; return; }
    const { title: _, ...rest } = this.schema || {}, key = JSON.stringify([this.name, rest, this.required]);
    if (this.#form?.key !== key || this.#form.form !== form) {
      this.#form = { key, form };
      form.value = this.value?.value === undefined ? {} : { [this.name]: this.value.value };
      form.schema = { type: "object", properties: { [this.name]: { ...rest, title: this.label || this.name } }, required: this.required ? [this.name] : [] };
    } else if (this.value !== this.#last && JSON.stringify(this.value?.value) !== JSON.stringify(form.value[this.name])) {
      form.value = this.value?.value === undefined ? {} : { [this.name]: this.value.value };
    }
    this.#last = this.value;
  }
}
/** The value of an expression that is a literal; undefined otherwise. */
function literal(expr) {
  try { return JSON.parse(expr); } catch { return undefined; }
}
customElements.define("wm-flow-transform", FlowTransform);
