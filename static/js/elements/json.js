import { LitElement, html, nothing } from "../../vendor/lit.js";
import { css } from "../css.js";
import { copy, iconHref, json } from "../dom.js";

const PAGE = 200; // children built at once: a huge value never freezes the page
const LONG = 300; // characters of a string shown before it is opened

const isBranch = (v) => v !== null && typeof v === "object";
const plainKey = /^[A-Za-z_$][\w$]*$/;
/** The path of a child in JavaScript's notation: a.b[0]["odd key"]. */
const step = (path, key, list) => (list ? `${path}[${key}]` : plainKey.test(key) ? (path ? `${path}.${key}` : key) : `${path}[${JSON.stringify(key)}]`);

/**
 * <wm-json data-src="id" open="2">: read-only JSON tree (a WAI-ARIA tree: arrows, Home, End, Enter). Property: value.
 * `open` is the depth that is unfolded at first. The line above the tree copies the path and value of the chosen row.
 */
class JsonTree extends LitElement {
  static properties = { value: { attribute: false }, open: { type: Number }, chosen: { state: true } };
  #folded = new Map(); // path -> unfolded by hand?
  #shown = new Map(); // path -> children or characters shown
  #rows = [];
  createRenderRoot() { return this; }
  connectedCallback() {
    super.connectedCallback();
    if (this.value === undefined) this.value = json(this.dataset.src);
  }
  willUpdate(changed) {
    if (!changed.has("value")) return;
    this.#folded.clear();
    this.#shown.clear();
    this.chosen = "";
  }
  #isOpen(path, depth) { return this.#folded.get(path) ?? depth < (this.open ?? 1); }

  /** The rows in view order; children of folded branches are not visited. */
  #flatten() {
    const rows = [];
    const visit = (value, key, path, depth) => {
      const branch = isBranch(value), keys = branch ? Object.keys(value) : [];
      const open = branch && keys.length > 0 && this.#isOpen(path, depth);
      rows.push({ value, key, path, depth, branch, size: keys.length, open });
      if (!open) return;
      const list = Array.isArray(value), shown = this.#shown.get(path) ?? PAGE;
      for (const k of keys.slice(0, shown)) visit(value[k], k, step(path, k, list), depth + 1);
      if (keys.length > shown) rows.push({ more: path, left: keys.length - shown, depth: depth + 1, path: `${path} more` });
    };
    visit(this.value, null, "", 0);
    return rows;
  }

  render() {
    if (this.value === undefined) return nothing;
    this.#rows = this.#flatten();
    if (!this.#rows.some((r) => r.path === this.chosen)) this.chosen = "";
    const row = this.#rows.find((r) => r.path === this.chosen);
    return html`<div class="js-bar"><code class="clip" title=${row.path || "the whole value"}>${row.more !== undefined ? "" : row.path || "the whole value"}</code>
        <button class="btn ghost sm" type="button" ?hidden=${!row.path || row.more !== undefined} @click=${() => copy(row.path, "Path copied")}>Copy path</button>
        <button class="btn ghost sm" type="button" ?hidden=${row.more !== undefined} @click=${() => copy(typeof row.value === "string" ? row.value : JSON.stringify(row.value, null, 2), "Value copied")}><svg class="i" aria-hidden="true"><use href=${iconHref("copy")}></use></svg>Copy value</button></div>
      <div class="js-tree" role="tree" aria-label=${this.getAttribute("label") || "JSON"} @keydown=${this.#key} @click=${this.#click}>${this.#rows.map((r) => this.#row(r))}</div>`;
  }
  #row(r) {
    const on = r.path === this.chosen, indent = css({ "--depth": r.depth });
    if (r.more !== undefined) return html`<div class="js-row js-more" role="treeitem" aria-level=${r.depth + 1} aria-selected=${on} tabindex=${on ? 0 : -1} data-path=${r.path} ${indent}>Show ${Math.min(PAGE, r.left)} more of ${r.left}</div>`;
    const key = r.key === null ? nothing : html`<span class="k">${r.key}</span><span class="m">: </span>`;
    return html`<div class="js-row" role="treeitem" aria-level=${r.depth + 1} aria-selected=${on} aria-expanded=${r.branch && r.size ? r.open : nothing} tabindex=${on ? 0 : -1} data-path=${r.path} ${indent}>${key}${r.branch ? this.#branch(r) : this.#leaf(r)}</div>`;
  }
  #branch({ value, size, open }) {
    const list = Array.isArray(value);
    if (!size) return html`<span class="m">${list ? "[]" : "{}"}</span>`;
    const count = `${size} ${list ? (size === 1 ? "item" : "items") : size === 1 ? "key" : "keys"}`;
    return html`<span class="m">${list ? "[" : "{"}${open ? "" : list ? "…]" : "…}"} ${count}</span>`;
  }
  #leaf({ value, path }) {
    if (value === null) return html`<span class="b">null</span>`;
    if (typeof value === "number") return html`<span class="n">${value}</span>`;
    if (typeof value !== "string") return html`<span class="b">${String(value)}</span>`;
    const shown = this.#shown.get(path) ?? LONG;
    return value.length <= shown ? html`<span class="s">${JSON.stringify(value)}</span>`
      : html`<span class="s">${JSON.stringify(value.slice(0, shown)).slice(0, -1)}…"</span> <span class="m">Enter shows more of ${value.length} characters</span>`;
  }

  #choose(path, focus = true) {
    this.chosen = path;
    if (focus) this.updateComplete.then(() => {
      const row = this.querySelector('[role="treeitem"][tabindex="0"]');
      row?.focus({ preventScroll: true });
      row?.scrollIntoView({ block: "nearest" });
    });
  }
  #activate(row) {
    if (row.more !== undefined) {
      this.#shown.set(row.more, (this.#shown.get(row.more) ?? PAGE) + PAGE);
      this.#choose(row.more);
    } else if (row.branch) this.#folded.set(row.path, !row.open);
    else if (typeof row.value === "string" && row.value.length > (this.#shown.get(row.path) ?? LONG)) this.#shown.set(row.path, (this.#shown.get(row.path) ?? LONG) + 20000);
    this.requestUpdate();
  }
  #click = (e) => {
    const at = e.target.closest("[role=treeitem]");
    if (!at || String(getSelection()) !== "") return; // selecting text is not a click
    const row = this.#rows.find((r) => r.path === at.dataset.path);
    this.#choose(row.path);
    this.#activate(row);
  };
  #key = (e) => {
    const at = this.#rows.findIndex((r) => r.path === this.chosen), row = this.#rows[at], go = (i) => this.#rows[i] && this.#choose(this.#rows[i].path);
    const keys = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(this.#rows.length - 1),
      Enter: () => this.#activate(row),
      " ": () => this.#activate(row),
      ArrowRight: () => (row.branch && row.size && !row.open ? this.#activate(row) : row.open && go(at + 1)),
      ArrowLeft: () => (row.open ? this.#activate(row) : go(this.#rows.findLastIndex((r, i) => i < at && r.depth < row.depth))),
    };
    if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    keys[e.key]();
  };
}
customElements.define("wm-json", JsonTree);
