import { LitElement, html, nothing } from "../../vendor/lit.js";
import { css } from "../css.js";
import { iconHref } from "../dom.js";

const ico = (name) => html`<svg class="i" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
const NAME = /^[A-Za-z_$][\w$]*$/;
/** `base` and one more key, as JavaScript writes it. */
export const member = (base, key) => (typeof key === "number" ? `${base}[${key}]` : NAME.test(key) ? `${base}.${key}` : `${base}[${JSON.stringify(key)}]`);

/**
 * <wm-flow-picker>: what an expression can name, as a tree whose branches are fetched when they are opened.
 * Property: roots, a list of {expr, label, note?, icon?, open?, level: async (way, offset) => {items, more} | null,
 * items?: [{key, type, preview, size}]}. Property: filter (text in names of the first level).
 * Event: "wm-picked" {expr}, bubbles. Keys: up and down move, right opens, left closes, Enter picks.
 */
class FlowPicker extends LitElement {
  static properties = { roots: { attribute: false }, filter: { attribute: false }, branches: { state: true } };
  createRenderRoot() { return this; }
  constructor() { super(); this.branches = new Map(); this.roots = []; this.filter = ""; }

  willUpdate(changed) {
    if (!changed.has("roots")) return;
    this.branches = new Map();
    for (const [i, root] of (this.roots || []).entries()) if (root.open) this.#open(`${i}`, root, [], true);
  }
  async #open(id, root, way, quiet = false) {
    if (this.branches.get(id)?.items) { this.branches = new Map(this.branches).set(id, { ...this.branches.get(id), shut: false }); return; }
    this.branches = new Map(this.branches).set(id, { waiting: true });
    let found;
    try { found = root.items && !way.length ? { items: root.items, more: false } : await root.level(way, 0); } catch (error) { found = { items: [], more: false, problem: error.message }; }
    if (!this.branches.has(id)) return;
    this.branches = new Map(this.branches).set(id, { ...found, items: found?.items || [], shut: quiet && !found?.items?.length });
  }
  async #more(id, root, way) {
    const before = this.branches.get(id), next = await root.level(way, before.items.length);
    this.branches = new Map(this.branches).set(id, { ...before, items: [...before.items, ...next.items], more: next.more });
  }
  #toggle(id, root, way) {
    const branch = this.branches.get(id);
    if (branch && !branch.shut) this.branches = new Map(this.branches).set(id, { ...branch, shut: true });
    else this.#open(id, root, way);
  }
  #pick(expr) { this.dispatchEvent(new CustomEvent("wm-picked", { bubbles: true, detail: { expr } })); }

  render() {
    const text = (this.filter || "").toLowerCase();
    const all = (this.roots || []).map((root, i) => [root, i]).filter(([r]) => !text || `${r.expr ?? ""} ${r.label} ${r.note ?? ""} ${(r.items || []).map((x) => x.key).join(" ")}`.toLowerCase().includes(text));
    if (!all.length) return html`<p class="dim pad">Nothing is called so.</p>`;
    return html`<div class="fp-tree" role="tree" aria-label="Values" @keydown=${this.#keys}>${all.map(([root, i], n) => this.#node({ id: `${i}`, root, way: [], expr: root.expr, name: root.label, note: root.note, icon: root.icon, depth: 0, first: n === 0, opens: Boolean(root.level || root.items) }))}</div>`;
  }
  #node({ id, root, way, expr, name, note, icon, preview, depth, opens, first = false }) {
    const branch = this.branches.get(id), open = Boolean(branch && !branch.shut), text = (this.filter || "").toLowerCase();
    return html`<div class="fp-row" role="treeitem" aria-level=${depth + 1} aria-expanded=${opens ? String(open) : nothing} aria-selected="false" tabindex=${first ? 0 : -1} data-id=${id} data-expr=${expr ?? nothing} ${css({ "--depth": depth })} @click=${(e) => { if (e.target.closest(".fp-arrow") || expr == null) { if (opens) this.#toggle(id, root, way); } else this.#pick(expr); }}>
        <span class="fp-arrow">${opens ? ico(open ? "chevron-down" : "chevron-right") : nothing}</span>${icon ? ico(icon) : nothing}<span class="fp-name ${expr == null ? "" : "mono"}">${name}</span>${preview ? html`<span class="fp-value clip">${preview}</span>` : nothing}${note ? html`<span class="fp-note clip">${note}</span>` : nothing}</div>
      ${open ? html`<div role="group">${branch.waiting ? html`<p class="fp-wait" ${css({ "--depth": depth + 1 })}>Loading…</p>` : nothing}${branch.problem ? html`<p class="fp-wait" ${css({ "--depth": depth + 1 })}>${branch.problem}</p>` : nothing}
        ${(branch.items || []).filter((item) => depth > 0 || !text || !root.searchable || String(item.key).toLowerCase().includes(text)).map((item) => this.#node({
          id: `${id}/${JSON.stringify(item.key)}`, root, way: [...way, item.key], name: String(item.label ?? item.key), preview: item.preview || (item.type === "missing" ? "no result" : item.type === "large" ? "large" : ""), note: item.note, depth: depth + 1,
          expr: root.write ? root.write([...way, item.key]) : [...way, item.key].reduce(member, root.expr), opens: Boolean(root.level) && (item.type === "object" || item.type === "array" || item.type === "large") && item.size !== 0,
        }))}
        ${branch.items && !branch.items.length && !branch.problem && !branch.waiting ? html`<p class="fp-wait" ${css({ "--depth": depth + 1 })}>Empty</p>` : nothing}
        ${branch.more ? html`<button type="button" class="fp-wait link" ${css({ "--depth": depth + 1 })} @click=${() => this.#more(id, root, way)}>Show more</button>` : nothing}</div>` : nothing}`;
  }
  #keys = (e) => {
    const row = e.target.closest(".fp-row");
    if (!row) return;
    const rows = [...this.querySelectorAll(".fp-row")], at = rows.indexOf(row), open = row.ariaExpanded === "true";
    const go = (to) => { if (!to) return; for (const r of rows) r.tabIndex = r === to ? 0 : -1; to.focus(); };
    const press = () => row.querySelector(".fp-arrow").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    const keys = {
      ArrowDown: () => go(rows[at + 1]), ArrowUp: () => go(rows[at - 1]), Home: () => go(rows[0]), End: () => go(rows.at(-1)),
      ArrowRight: () => (row.ariaExpanded === "false" ? press() : open && go(rows[at + 1])),
      ArrowLeft: () => (open ? press() : go(rows.slice(0, at).findLast((r) => +r.ariaLevel < +row.ariaLevel))),
      Enter: () => row.click(), " ": () => row.click(),
    };
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  };
}
customElements.define("wm-flow-picker", FlowPicker);
