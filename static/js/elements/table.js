import { LitElement, html, nothing } from "../../vendor/lit.js";
import { download, iconHref, json } from "../dom.js";

const PAGE = 100; // rows in the DOM
const WIDEST = 300; // characters of a cell; the rest is in its tooltip and the download
const ico = (name) => html`<svg class="i" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
const text = (v) => (v == null ? "" : typeof v === "object" ? JSON.stringify(v) : String(v));
const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);

/** Brings what scripts return as tables into {columns, rows of cells}; null when `value` is not a table. */
export function tabulate(value) {
  if (isObject(value)) {
    const names = Object.keys(value), columns = Object.values(value);
    if (!names.length || !columns.every(Array.isArray)) return null;
    const height = Math.max(...columns.map((c) => c.length));
    return { columns: names, rows: Array.from({ length: height }, (_, i) => columns.map((c) => c[i])) };
  }
  if (!Array.isArray(value) || !value.length) return null;
  if (value.every(Array.isArray)) {
    const [head, ...rows] = value;
    const width = Math.max(...value.slice(0, 1000).map((r) => r.length));
    if (head.length === width && head.every((h) => typeof h === "string")) return { columns: head, rows };
    return { columns: Array.from({ length: width }, (_, i) => String(i + 1)), rows: value };
  }
  const order = Array.isArray(value[0]) ? value[0].map(String) : null, rows = order ? value.slice(1) : value;
  if (!rows.every(isObject)) return null;
  const columns = new Set(order || []);
  if (!order) for (const row of rows.slice(0, 1000)) for (const key of Object.keys(row)) columns.add(key);
  const names = [...columns];
  return names.length ? { columns: names, rows: rows.map((r) => names.map((n) => r[n])) } : null;
}

const quoted = (v) => { const s = text(v); return /[",\n\r]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s; };
/** RFC 4180. */
export const csv = ({ columns, rows }) => [columns, ...rows].map((r) => r.map(quoted).join(",")).join("\r\n") + "\r\n";

/**
 * <wm-table data-src="id" file-name="result" label="Result">: rows as a table that sorts, filters, pages and downloads.
 * Property `value`: an array of objects, an array of arrays (a first row of strings names the columns), an array whose
 * first item lists the columns of the objects after it, or an object of columns.
 */
class Table extends LitElement {
  static properties = { value: { attribute: false }, table: { state: true }, page: { state: true }, sorted: { state: true }, query: { state: true } };
  #view = [];
  createRenderRoot() { return this; }
  connectedCallback() {
    super.connectedCallback();
    if (this.value === undefined) this.value = json(this.dataset.src);
  }
  willUpdate(changed) {
    if (changed.has("value")) {
      this.table = tabulate(this.value) || { columns: [], rows: [] };
      this.page = 0; this.sorted = null; this.query = "";
    }
    if (["value", "sorted", "query"].some((k) => changed.has(k))) this.#arrange();
  }
  #arrange() {
    const q = this.query.toLowerCase();
    this.#view = q ? this.table.rows.filter((r) => r.some((c) => text(c).toLowerCase().includes(q))) : [...this.table.rows];
    if (this.sorted) {
      const { column, down } = this.sorted, sign = down ? -1 : 1, words = new Intl.Collator(undefined, { numeric: true });
      this.#view.sort((a, b) => {
        const x = a[column], y = b[column];
        if (x == null || y == null) return x == null ? (y == null ? 0 : 1) : -1; // empty cells last, both ways
        return sign * (typeof x === "number" && typeof y === "number" ? x - y : words.compare(text(x), text(y)));
      });
    }
  }
  #sort(column) {
    this.sorted = this.sorted?.column !== column ? { column, down: false } : this.sorted.down ? null : { column, down: true };
    this.page = 0;
  }
  #save(kind) {
    const name = this.getAttribute("file-name") || "table", shown = { columns: this.table.columns, rows: this.#view };
    if (kind === "csv") download(csv(shown), `${name}.csv`, "text/csv;charset=utf-8");
    else download(JSON.stringify(this.#view.map((r) => Object.fromEntries(this.table.columns.map((c, i) => [c, r[i]]))), null, 2), `${name}.json`, "application/json");
  }
  render() {
    const { columns, rows } = this.table, pages = Math.ceil(this.#view.length / PAGE), first = this.page * PAGE;
    const shown = this.#view.slice(first, first + PAGE);
    const count = this.query ? `${this.#view.length} of ${rows.length} rows` : `${rows.length} row${rows.length === 1 ? "" : "s"}`;
    return html`<div class="tb-bar">${rows.length > 8 ? html`<input class="input" type="text" placeholder="Filter rows" aria-label="Filter rows" autocomplete="off" spellcheck="false" .value=${this.query} @input=${(e) => { this.query = e.target.value; this.page = 0; }}>` : nothing}
        <span class="help" aria-live="polite">${count}</span><span class="grow"></span>
        <button class="btn ghost sm" type="button" @click=${() => this.#save("csv")}>${ico("download")}CSV</button><button class="btn ghost sm" type="button" @click=${() => this.#save("json")}>${ico("download")}JSON</button></div>
      <div class="tb-scroll" tabindex="0" role="region" aria-label=${this.getAttribute("label") || "Table"}><table class="table tb">
        <thead><tr>${columns.map((c, i) => this.#head(c, i))}</tr></thead>
        <tbody>${shown.map((r) => html`<tr>${columns.map((_, i) => this.#cell(r[i]))}</tr>`)}${shown.length ? nothing : html`<tr><td class="none" colspan=${columns.length || 1}>${this.query ? `No row holds “${this.query}”.` : "No rows."}</td></tr>`}</tbody></table></div>
      ${pages > 1 ? html`<div class="pager"><button class="btn sm" type="button" ?disabled=${!this.page} @click=${() => this.#turn(-1)}>Previous</button><span class="num">${first + 1}–${Math.min(first + PAGE, this.#view.length)} of ${this.#view.length}</span><button class="btn sm" type="button" ?disabled=${this.page >= pages - 1} @click=${() => this.#turn(1)}>Next</button></div>` : nothing}`;
  }
  #turn(by) { this.page += by; this.updateComplete.then(() => { this.querySelector(".tb-scroll").scrollTop = 0; }); }
  #head(name, i) {
    const on = this.sorted?.column === i, numeric = this.table.rows.slice(0, 50).some((r) => typeof r[i] === "number");
    return html`<th scope="col" class=${numeric ? "r" : ""} aria-sort=${on ? (this.sorted.down ? "descending" : "ascending") : nothing}><button type="button" class="tb-sort" @click=${() => this.#sort(i)}>${name}${on ? ico(this.sorted.down ? "arrow-down" : "arrow-up") : html`<span class="tb-gap"></span>`}</button></th>`;
  }
  #cell(v) {
    if (v == null) return html`<td class="dim">${v === null ? "null" : ""}</td>`;
    if (typeof v === "number") return html`<td class="r num">${v}</td>`;
    const s = text(v), short = s.length > WIDEST ? `${s.slice(0, WIDEST)}…` : s;
    if (typeof v === "string" && /^https?:\/\/\S+$/.test(v)) return html`<td title=${s}><a class="link" href=${v} target="_blank" rel="noopener noreferrer">${short}</a></td>`;
    return html`<td title=${s.length > 40 ? s.slice(0, 2000) : nothing} class=${typeof v === "string" ? "" : "mono"}>${short}</td>`;
  }
}
customElements.define("wm-table", Table);
