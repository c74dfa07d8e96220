import { LitElement, html, live, nothing, repeat } from "../../vendor/lit.js";
import "./schema-form.js";
import { iconHref } from "../dom.js";
import { isObject, names, resourceType, typeOf } from "../schema.js";

const ico = (name) => html`<svg class="i" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
// What a field can be: word -> its schema. The reverse is `kindOf`.
const KINDS = {
  text: { type: "string" }, textarea: { type: "string", format: "textarea" }, password: { type: "string", password: true }, choice: { type: "string", enum: [] },
  integer: { type: "integer" }, number: { type: "number" }, boolean: { type: "boolean" }, date: { type: "string", format: "date" }, "date-time": { type: "string", format: "date-time" },
  email: { type: "string", format: "email" }, file: { type: "string", contentEncoding: "base64" }, texts: { type: "array", items: { type: "string" } }, numbers: { type: "array", items: { type: "number" } },
  list: { type: "array", items: { type: "object" } }, resource: { type: "object", format: "resource-" }, object: { type: "object" }, any: {},
};
const WORDS = { text: "Text", textarea: "Long text", password: "Secret", choice: "Choice", integer: "Whole number", number: "Number", boolean: "Yes or no", date: "Date", "date-time": "Date and time", email: "E-mail", file: "File", texts: "List of texts", numbers: "List of numbers", list: "List of objects", resource: "Resource", object: "Object", any: "Any JSON", other: "Written as JSON" };
const OWN = new Set(["type", "format", "enum", "items", "password", "contentEncoding", "description", "default", "title"]); // keywords that the form edits; others make a field "other"

/** The word for a property's schema; "other" when the form would lose something. */
export function kindOf(s) {
  const type = typeOf(s);
  if (!isObject(s) || Array.isArray(s.type)) return "other";
  if (s.format?.startsWith("resource-") || type === "resource") return "resource";
  if (isObject(s.properties) || s.oneOf) return "other";
  if (Array.isArray(s.enum)) return type === "string" || type === undefined ? "choice" : "other";
  if (type === "array") return { string: s.items?.enum ? "other" : "texts", number: "numbers", object: s.items?.properties ? "other" : "list" }[typeOf(s.items || {})] || "other";
  if (type === "string") return s.contentEncoding === "base64" ? "file" : s.password ? "password" : s.format === undefined || s.format === "" ? "text" : KINDS[s.format]?.type === "string" ? s.format : "other";
  return { integer: "integer", number: "number", boolean: "boolean", object: "object", undefined: "any" }[type] || "other";
}
let serial = 0;

/**
 * <wm-schema-edit label="Inputs">: a JSON Schema of an object as a list of fields: name, type, required, default,
 * description, choices, order. What it does not know it keeps, and offers as JSON.
 * Property: schema (never changed; every edit makes a new one). Event: "wm-schema" (detail {schema}), bubbles.
 */
class SchemaEdit extends LitElement {
  static properties = { schema: { attribute: false }, open: { state: true }, faults: { state: true } };
  #id = `se${++serial}`;
  #new = null; // the field whose name is to be focused
  createRenderRoot() { return this; }
  constructor() { super(); this.open = new Set(); this.faults = {}; }

  #tell(schema) {
    this.schema = schema;
    this.dispatchEvent(new CustomEvent("wm-schema", { bubbles: true, detail: { schema } }));
  }
  #property(name, edit) {
    this.#tell({ ...this.schema, properties: { ...this.schema.properties, [name]: edit(this.schema.properties[name]) } });
  }
  #add = () => {
    const all = names(this.schema || {});
    let name = "input";
    for (let n = 2; all.includes(name); n++) name = `input_${n}`;
    this.open = new Set([name]);
    this.#new = name;
    this.#tell({ type: "object", ...this.schema, properties: { ...this.schema?.properties, [name]: { type: "string" } }, order: [...all, name] });
  };
  #remove(name) {
    const { [name]: _, ...properties } = this.schema.properties;
    this.#tell({ ...this.schema, properties, order: names(this.schema).filter((n) => n !== name), required: (this.schema.required || []).filter((n) => n !== name) });
  }
  #rename(name, input) {
    const to = input.value.trim();
    if (to === name) return this.#fault(name, "");
    if (!to || names(this.schema).includes(to)) return this.#fault(name, to ? `Another input is called ${to}` : "A name is needed");
    this.#fault(name, "");
    const swap = (n) => (n === name ? to : n);
    if (this.open.has(name)) this.open = new Set([...this.open].map(swap));
    this.dispatchEvent(new CustomEvent("wm-schema-rename", { bubbles: true, detail: { from: name, to } }));
    this.#tell({ ...this.schema, properties: Object.fromEntries(Object.entries(this.schema.properties).map(([k, v]) => [swap(k), v])), order: names(this.schema).map(swap), required: (this.schema.required || []).map(swap) });
  }
  #fault(name, text) { this.faults = { ...this.faults, [name]: text }; }
  #move(name, by) {
    const order = names(this.schema), at = order.indexOf(name);
    [order[at], order[at + by]] = [order[at + by], order[at]];
    this.#tell({ ...this.schema, order });
  }
  #require(name, on) {
    const rest = (this.schema.required || []).filter((n) => n !== name);
    this.#tell({ ...this.schema, required: on ? [...rest, name] : rest });
  }
  #retype(name, kind) {
    this.#property(name, (s) => ({ ...KINDS[kind], ...(s.description ? { description: s.description } : {}), ...(s.title ? { title: s.title } : {}), ...(kind === "choice" ? { enum: Array.isArray(s.enum) ? s.enum : [] } : {}) }));
    if (kind === "choice" || kind === "resource") this.open = new Set([...this.open, name]);
  }
  #toggle(name) {
    const next = new Set(this.open);
    if (!next.delete(name)) next.add(name);
    this.open = next;
  }

  render() {
    const schema = this.schema || {}, all = names(schema);
    return html`${all.length ? html`<ol class="se-list" aria-label=${this.getAttribute("label") || "Inputs"}>${repeat(all, (n) => n, (n, i) => this.#row(n, schema.properties[n], i, all.length))}</ol>` : html`<p class="help se-none">${this.getAttribute("empty") || "No inputs yet."}</p>`}
      <div><button class="btn sm" type="button" @click=${this.#add}>${ico("plus")}Add ${this.getAttribute("noun") || "an input"}</button></div>`;
  }
  #row(name, s, i, count) {
    const id = `${this.#id}-${i}`, kind = kindOf(s), open = this.open.has(name), fault = this.faults[name];
    return html`<li class="se-row" data-name=${name}>
      <div class="se-main">
        <input class="input mono" aria-label="Name of input ${i + 1}" .value=${live(name)} spellcheck="false" autocomplete="off" maxlength="200" aria-invalid=${fault ? "true" : "false"} @change=${(e) => this.#rename(name, e.target)}>
        <select class="input" aria-label="Type of ${name}" @change=${(e) => this.#retype(name, e.target.value)}>${Object.keys(KINDS).concat(kind === "other" ? ["other"] : []).map((k) => html`<option value=${k} ?selected=${k === kind}>${WORDS[k]}</option>`)}</select>
        <label class="check" title="Required"><input type="checkbox" aria-label="${name} is required" .checked=${live((this.schema.required || []).includes(name))} @change=${(e) => this.#require(name, e.target.checked)}><span class="se-req">Required</span></label>
        <button class="btn ghost icon sm" type="button" aria-label="Move ${name} up" ?disabled=${i === 0} @click=${() => this.#move(name, -1)}>${ico("arrow-up")}</button>
        <button class="btn ghost icon sm" type="button" aria-label="Move ${name} down" ?disabled=${i === count - 1} @click=${() => this.#move(name, 1)}>${ico("arrow-down")}</button>
        <button class="btn ghost icon sm" type="button" aria-label="Remove ${name}" @click=${() => this.#remove(name)}>${ico("trash-2")}</button>
        <button class="btn ghost icon sm" type="button" aria-label="More about ${name}" aria-expanded=${open} @click=${() => this.#toggle(name)}>${ico(open ? "chevron-down" : "chevron-right")}</button>
      </div>
      ${fault ? html`<p class="err">${fault}</p>` : nothing}
      ${open ? this.#more(name, s, kind, id) : nothing}</li>`;
  }
  #more(name, s, kind, id) {
    const keep = (key, v) => this.#property(name, (p) => { const next = { ...p }; if (v === undefined || v === "") delete next[key]; else next[key] = v; return next; });
    const extra = Object.keys(s).some((k) => !OWN.has(k));
    return html`<div class="se-more">
      <div class="field"><label for="${id}-d">Description</label><input class="input" id="${id}-d" .value=${live(s.description ?? "")} @change=${(e) => keep("description", e.target.value)}></div>
      ${kind === "choice" ? html`<div class="field"><label for="${id}-c">Choices</label><textarea class="input" rows="3" id="${id}-c" .value=${live((s.enum || []).join("\n"))} @change=${(e) => this.#property(name, (p) => ({ ...p, enum: e.target.value.split("\n").map((x) => x.trim()).filter(Boolean) }))}></textarea><p class="help">One in each line.</p></div>` : nothing}
      ${kind === "resource" ? html`<div class="field"><label for="${id}-r">Resource type</label><input class="input mono" id="${id}-r" .value=${live(resourceType(s))} spellcheck="false" @change=${(e) => this.#property(name, (p) => ({ ...p, type: "object", format: `resource-${e.target.value.trim()}` }))}></div>` : nothing}
      ${kind === "other" || extra ? html`<div class="field"><label for="${id}-j">Schema<span class="type" aria-hidden="true">JSON</span></label><textarea class="input mono" rows="6" id="${id}-j" spellcheck="false" .value=${live(JSON.stringify(s, null, 2))} @change=${(e) => { try { const v = JSON.parse(e.target.value); if (!isObject(v)) throw new Error("an object is needed: { … }"); this.#fault(name, ""); this.#property(name, () => v); } catch (error) { this.#fault(name, `Not a schema: ${error.message}`); } }}></textarea></div>`
        : kind === "file" || kind === "resource" ? nothing
        : html`<wm-schema-form no-json .schema=${this.#defaults(name, s)} .value=${this.#given(name, s)} @wm-input=${(e) => { e.stopPropagation(); keep("default", e.detail.value.default); }}></wm-schema-form>`}
    </div>`;
  }
  #forms = new Map(); // name -> [schema of the property, the form's schema]: the same object as long as nothing changed
  #defaults(name, s) {
    const { default: _, description: __, title: ___, ...rest } = s, key = JSON.stringify(rest);
    if (this.#forms.get(name)?.[0] !== key) this.#forms.set(name, [key, { type: "object", properties: { default: { ...rest, title: "Default" } } }]);
    return this.#forms.get(name)[1];
  }
  #values = new Map(); // name -> [default as JSON, value of the form]
  /** The form's value: the same object as long as the form shows the default already, since setting it resets what is being typed. */
  #given(name, s) {
    const text = JSON.stringify(s.default), field = this.querySelector(`[data-name="${CSS.escape(name)}"] wm-schema-form`), last = this.#values.get(name);
    if (!last || (last[0] !== text && JSON.stringify(field?.value?.default) !== text)) this.#values.set(name, [text, s.default === undefined ? {} : { default: s.default }]);
    else last[0] = text;
    return this.#values.get(name)[1];
  }
  updated() {
    if (this.#new) {
      const input = this.querySelector(`[data-name="${CSS.escape(this.#new)}"] input`);
      this.#new = null;
      input?.focus();
      input?.select();
    }
  }
}
customElements.define("wm-schema-edit", SchemaEdit);
