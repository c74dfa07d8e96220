import { LitElement, html, nothing, repeat } from "../../vendor/lit.js";
import { css } from "../css.js";
import { duration } from "../format.js";
import { statusWord } from "../status.js";

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400]; // seconds between two ticks
const tick = (s) => (s < 1 ? `${Math.round(s * 1000)} ms` : s < 60 ? `${Math.round(s * 10) / 10} s` : s < 3600 ? `${Math.floor(s / 60)} min${s % 60 ? ` ${s % 60} s` : ""}` : `${Math.floor(s / 3600)} h${s % 3600 ? ` ${Math.floor((s % 3600) / 60)} min` : ""}`);

/**
 * <wm-gantt>: when the steps of a flow ran. Properties: data {rows: [{id, bars: [{job, n, status, from, to}]}], now, is_over,
 * left_out} (seconds since the start; `to` null while it runs), titles {step id: words}, selected.
 * Events: wm-select {id, n?, job?}. While the flow runs the picture moves on by itself, once a second.
 */
class Gantt extends LitElement {
  static properties = { data: { attribute: false }, titles: { attribute: false }, selected: {}, extra: { state: true } };
  #timer = 0;
  createRenderRoot() { return this; }
  connectedCallback() {
    super.connectedCallback();
    this.extra = 0;
    this.#timer = setInterval(() => { if (this.data && !this.data.is_over && !document.hidden && this.offsetParent) this.extra = (performance.now() - this.since) / 1000; }, 1000);
  }
  disconnectedCallback() { super.disconnectedCallback(); clearInterval(this.#timer); }
  willUpdate(changed) {
    if (changed.has("data")) { this.since = performance.now(); this.extra = 0; }
  }
  render() {
    if (!this.data) return html`<p class="ga-none skeleton"></p>`;
    const { rows, is_over: over } = this.data;
    if (!rows.length) return html`<p class="ga-none dim">No step has started yet.</p>`;
    const now = this.data.now + (over ? 0 : this.extra), span = Math.max(now * 1.02, 0.05), pc = (s) => `${(s / span) * 100}%`;
    const step = STEPS.find((x) => span / x <= 8) ?? span / 6, ticks = Array.from({ length: Math.floor(span / step) }, (_, i) => (i + 1) * step).filter((t) => t < span * 0.97);
    return html`<div class="ga" role="group" aria-label=${this.getAttribute("label") || "Timeline"}><div class="ga-corner"></div><div class="ga-axis" aria-hidden="true">${ticks.map((t) => html`<span ${css({ left: pc(t) })}>${tick(t)}</span>`)}</div>
      ${repeat(rows, (r) => r.id, (r) => html`<button type="button" class="ga-label" aria-current=${r.id === this.selected ? "true" : nothing} @click=${() => this.#tell({ id: r.id })}><b class="sid">${r.id}</b><span class="clip">${this.titles?.[r.id] ?? ""}</span></button>
        <div class="ga-lane" ${css({ backgroundSize: `${(step / span) * 100}% 100%` })}>${r.bars.map((b) => this.#bar(r, b, now, pc))}${over ? nothing : html`<i class="ga-now" ${css({ left: pc(now) })}></i>`}</div>`)}</div>
      ${this.data.left_out ? html`<p class="ga-none dim">Of a step the first 200 runs are drawn. All iterations are listed at their loop.</p>` : nothing}`;
  }
  #bar(r, b, now, pc) {
    const to = b.to ?? now, words = `${b.n == null ? "" : `${b.n + 1}: `}${statusWord(b.status)}, ${duration((to - b.from) * 1000)}`;
    return html`<button type="button" tabindex="-1" class="ga-bar" data-status=${b.status} aria-label="${r.id}, ${words}" title=${words} ${css({ left: pc(b.from), width: pc(Math.max(0, to - b.from)) })} @click=${() => this.#tell({ id: r.id, n: b.n, job: b.job })}></button>`;
  }
  #tell(detail) { this.dispatchEvent(new CustomEvent("wm-select", { bubbles: true, detail })); }
}
customElements.define("wm-gantt", Gantt);
