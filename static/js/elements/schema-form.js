import { LitElement, html, live, nothing } from "../../vendor/lit.js";
import { iconHref, json } from "../dom.js";
import { bytes } from "../format.js";
import { adapt, check, control, initial, isObject, isReference, names, resourceType, tagOf, tagValue, typeOf, variantOf } from "../schema.js";

const MOST = 10 * 1024 * 1024; // bytes of an uploaded file, which travels as base64 inside the arguments
const ico = (name) => html`<svg class="i" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
const KIND_WORDS = { choice: "choice", switch: "boolean", textarea: "text", chips: "list", choices: "list", list: "list", file: "file", json: "json", variant: "one of", password: "secret", uri: "address", text: "text" };
let serial = 0;

/**
 * <wm-schema-form name="args" data-schema="schema" data-value="args" data-errors="errors"
 *                 resources-url="/api/w/acme/resources/list?resource_type=">
 * The form of a JSON Schema, and a form field: its value is one JSON string, its faults block the submit.
 * Properties: schema, value (object; setting it keeps nothing), errors ({path: sentence} from the server), resources
 * ({type: [path, …]}; fetched from `resources-url` when missing). Setting `schema` again keeps what was typed where the
 * name remains and the type fits; untouched fields take the new defaults. Methods: validate() (shows every fault,
 * focuses the first, returns whether there is none). Event: "wm-input" (detail {value}) on every change.
 */
class SchemaForm extends LitElement {
  static formAssociated = true;
  static properties = { schema: { attribute: false }, value: { attribute: false, noAccessor: true }, errors: { attribute: false }, resources: { attribute: false }, asJson: { state: true } };
  #inner = this.attachInternals();
  #value = {}; #given = null; #typed = new Set(); #touched = new Set(); #all = false; #faults = {}; #drafts = new Map(); #broken = new Map(); #stash = {}; #asked = new Map();
  #id = `sf${++serial}`;
  createRenderRoot() { return this; }

  connectedCallback() {
    super.connectedCallback();
    this.resources ??= {};
    this.errors ??= json(this.dataset.errors) || {};
    this.asJson ??= false;
    if (!this.#given) this.#given = json(this.dataset.value) || {};
    this.schema ??= json(this.dataset.schema) || { type: "object", properties: {} };
    this.addEventListener("invalid", this.#refused);
  }
  disconnectedCallback() { super.disconnectedCallback(); this.removeEventListener("invalid", this.#refused); }
  formResetCallback() { this.value = this.#given; }

  get name() { return this.getAttribute("name"); }
  get form() { return this.#inner.form; }
  get value() { return this.#value; }
  set value(v) {
    this.#given = isObject(v) ? structuredClone(v) : {};
    this.#typed = new Set(Object.keys(this.#given));
    this.#drafts.clear(); this.#broken.clear(); this.#touched.clear(); this.#stash = {}; this.#all = false;
    this.#value = this.schema ? this.#fill(this.schema, this.#given) : this.#given;
    this.#sync();
    this.requestUpdate();
  }
  willUpdate(changed) {
    if (!changed.has("schema")) return;
    // Remember values of fields that vanish: while code is being typed they often come back.
    const before = changed.get("schema") ? { ...this.#stash, ...this.#value } : this.#given;
    if (!changed.get("schema")) this.#typed = new Set(Object.keys(this.#given));
    this.#stash = before;
    const emptied = new Set([...this.#typed].filter((k) => !(k in before)));
    this.#value = this.#fill(this.schema, Object.fromEntries(Object.entries(before).filter(([k]) => this.#typed.has(k))), emptied);
    this.#sync();
  }
  /** Defaults under what was given, except where the reader `emptied` a field; unknown names go unless any is allowed. */
  #fill(schema, given, emptied = new Set()) {
    const out = {};
    for (const k of names(schema)) {
      const s = schema.properties[k], kept = adapt(s, given[k]);
      const v = kept === undefined && !emptied.has(k) ? initial(s, (schema.required || []).includes(k)) : kept;
      if (v !== undefined) out[k] = v;
    }
    if (!names(schema).length || schema.additionalProperties === true) for (const k of Object.keys(given)) out[k] ??= given[k];
    return out;
  }

  #set(path, v) {
    const next = structuredClone(this.#value);
    let at = next;
    path.slice(0, -1).forEach((k, i) => { at = at[k] ??= typeof path[i + 1] === "number" ? [] : {}; });
    if (v === undefined && path.length === 1) delete this.#stash[path[0]];
    if (v === undefined && !Array.isArray(at)) delete at[path.at(-1)];
    else at[path.at(-1)] = v === undefined ? null : v;
    this.#value = next;
    this.#typed.add(path[0]);
    this.#touched.add(path.join("."));
    if (this.errors?.[path.join(".")]) this.errors = Object.fromEntries(Object.entries(this.errors).filter(([k]) => k !== path.join(".")));
    this.#tell();
  }
  #tell() {
    this.#sync();
    this.requestUpdate();
    this.dispatchEvent(new CustomEvent("wm-input", { bubbles: true, detail: { value: this.#value } }));
  }
  #sync() {
    this.#inner.setFormValue(JSON.stringify(this.#value));
    this.#faults = { ...check(this.schema || {}, this.#value), ...Object.fromEntries(this.#broken) };
    const first = Object.values(this.#faults)[0];
    const at = first && this.#field(Object.keys(this.#faults)[0]);
    first ? this.#inner.setValidity({ customError: true }, first, at || undefined) : this.#inner.setValidity({});
  }
  updated() { this.#sync(); }
  #field(path) { return [...this.querySelectorAll("[data-path]")].find((el) => el.dataset.path === path) || null; }
  #fault(name) { return this.errors?.[name] || (this.#all || this.#touched.has(name) ? this.#faults[name] : "") || ""; }

  /** The browser is about to refuse a submit: say it beside the fields instead of in a bubble. */
  #refused = (e) => {
    if (e.target !== this) return;
    e.preventDefault();
    this.validate();
  };
  validate() {
    this.#all = true;
    this.requestUpdate();
    const faults = Object.keys({ ...this.#faults, ...this.errors });
    if (!faults.length) return true;
    this.updateComplete.then(() => {
      const bad = this.querySelector('[aria-invalid="true"], [data-path][data-bad]');
      (bad?.matches("input, select, textarea, button") ? bad : bad?.querySelector("input, select, textarea, button"))?.focus();
    });
    return false;
  }

  render() {
    const schema = this.schema || {}, empty = !names(schema).length;
    return html`<div class="sf-bar"><div class="seg" role="group" aria-label="Edit as"><button type="button" aria-pressed=${!this.asJson} @click=${() => { this.asJson = false; }}>Form</button><button type="button" aria-pressed=${this.asJson} @click=${() => { this.#drafts.delete(""); this.asJson = true; }}>JSON</button></div></div>
      ${this.asJson ? this.#whole() : empty ? html`<p class="help">No arguments.</p>` : html`<div class="form-grid">${this.#group(schema, this.#value, [])}</div>`}`;
  }
  #whole() {
    const id = `${this.#id}-json`, fault = this.#broken.get("") || "", list = Object.entries(this.#faults).filter(([k]) => k);
    return html`<div class="field"><label for=${id}>Arguments as JSON</label><textarea class="input mono" rows="12" id=${id} data-path="" spellcheck="false" aria-invalid=${fault ? "true" : "false"} aria-describedby="${id}-e" .value=${live(this.#drafts.get("") ?? JSON.stringify(this.#value, null, 2))} @input=${(e) => this.#parse([], e.target.value, (v) => {
      if (!isObject(v)) throw new Error("Must be an object: { … }");
      this.#value = v;
      this.#typed = new Set(Object.keys(v));
    })}></textarea><div id="${id}-e">${fault ? html`<p class="err">${fault}</p>` : list.map(([k, m]) => html`<p class="err"><code>${k}</code> ${m}</p>`)}</div></div>`;
  }
  /** Text that must become JSON: kept as typed while it is not. */
  #parse(path, text, take) {
    const name = path.join(".");
    this.#drafts.set(name, text);
    this.#touched.add(name);
    try {
      const v = text.trim() ? JSON.parse(text) : undefined;
      this.#broken.delete(name);
      take(v);
      this.#tell();
    } catch (e) {
      this.#broken.set(name, e instanceof SyntaxError ? `Not valid JSON: ${e.message.replace(/^.*?JSON(\.parse)?:? ?/, "")}` : e.message);
      this.#sync();
      this.requestUpdate();
    }
  }

  #group(schema, value, base, skip) {
    return names(schema).filter((k) => k !== skip).map((k) => this.#property(k, schema.properties[k], value?.[k], [...base, k], (schema.required || []).includes(k)));
  }
  #property(key, s, v, path, required) {
    const f = { id: `${this.#id}-${path.join("-").replace(/[^\w-]/g, "_")}`, name: path.join("."), label: s.title || key, s, v, path, required, kind: control(s) };
    f.error = this.#fault(f.name);
    f.describedBy = f.error ? `${f.id}-e` : s.description ? `${f.id}-h` : nothing;
    const hint = f.error ? html`<p class="err" id="${f.id}-e">${f.error}</p>` : s.description ? html`<p class="help" id="${f.id}-h">${s.description}</p>` : nothing;
    if (isReference(v) && f.kind !== "resource" && f.kind !== "text") return this.#boxed(f, this.#input(f, { type: "text" }), hint);
    if (f.kind === "switch") return html`<div class="field" data-path=${f.name}><label class="switch" for=${f.id}><input type="checkbox" role="switch" id=${f.id} .checked=${live(v === true)} aria-describedby=${f.describedBy} @change=${(e) => this.#set(path, e.target.checked)}><b>${f.label}</b></label>${hint}</div>`;
    if (f.kind === "group" || f.kind === "variant") {
      const one = f.kind === "variant" ? variantOf(s, v) : s, tag = f.kind === "variant" ? tagOf(s) : undefined;
      return html`<fieldset class="field wide sf-set" data-path=${f.name} ?data-bad=${!!f.error}><legend class="legend">${f.label}${this.#star(f)}</legend>${hint}${tag ? html`<select class="input" aria-label="${f.label}: which" @change=${(e) => this.#vary(f, s.oneOf[+e.target.value], tag)}>${s.oneOf.map((o, i) => html`<option value=${i} ?selected=${o === one}>${o.title || tagValue(o, tag)}</option>`)}</select>` : nothing}<div class="form-grid">${this.#group(one, v, path, tag)}</div></fieldset>`;
    }
    if (f.kind === "list") return html`<fieldset class="field wide sf-set" data-path=${f.name} ?data-bad=${!!f.error}><legend class="legend">${f.label}${this.#star(f)}<span class="type">list</span></legend>${hint}${(Array.isArray(v) ? v : []).map((x, i) => html`<div class="sf-item"><div class="form-grid">${this.#property(i, { ...s.items, title: `${f.label} ${i + 1}` }, x ?? undefined, [...path, i], true)}</div><button class="btn ghost icon sm" type="button" aria-label="Remove ${f.label} ${i + 1}" @click=${() => this.#remove(path, v, i)}>${ico("x")}</button></div>`)}<div><button class="btn sm" type="button" @click=${() => this.#set(path, [...(Array.isArray(v) ? v : []), initial(s.items, true) ?? null])}>${ico("plus")}Add</button></div></fieldset>`;
    if (f.kind === "choices") return html`<fieldset class="field wide sf-set" data-path=${f.name} ?data-bad=${!!f.error}><legend class="legend">${f.label}${this.#star(f)}</legend>${hint}<div class="row">${s.items.enum.map((o) => html`<label class="check"><input type="checkbox" .checked=${live((v || []).includes(o))} @change=${(e) => this.#set(path, s.items.enum.filter((x) => (x === o ? e.target.checked : (v || []).includes(x))))}>${o}</label>`)}</div></fieldset>`;
    return this.#boxed(f, this.#control(f), hint);
  }
  #star(f) { return f.required ? html`<span class="req" aria-hidden="true">*</span><span class="vh"> (required)</span>` : nothing; }
  #boxed(f, inner, hint) {
    const wide = ["chips", "json", "textarea", "file"].includes(f.kind), word = f.kind === "resource" ? resourceType(f.s) : KIND_WORDS[f.kind] || (f.kind === "number" ? typeOf(f.s) : f.kind);
    return html`<div class="field ${wide ? "wide" : ""}"><label for=${f.id}>${f.label}${this.#star(f)}<span class="type" aria-hidden="true">${word}</span></label>${inner}${hint}</div>`;
  }

  #control(f) {
    const { s, v, path, id, name, required } = f, set = (x) => this.#set(path, x);
    switch (f.kind) {
      case "choice": return html`<select class="input" id=${id} data-path=${name} aria-invalid=${!!f.error} aria-describedby=${f.describedBy} aria-required=${required} @change=${(e) => set(e.target.value === "" ? undefined : s.enum[+e.target.value])}>${!required || v === undefined ? html`<option value="" ?selected=${v === undefined}>${required ? "Choose…" : "None"}</option>` : nothing}${s.enum.map((o, i) => html`<option value=${i} ?selected=${v === o}>${s.enumLabels?.[o] ?? o}</option>`)}</select>`;
      case "resource": return this.#resource(f);
      case "chips": return this.#chips(f);
      case "file": return this.#file(f);
      case "json": return html`<textarea class="input mono" rows="3" id=${id} data-path=${name} spellcheck="false" aria-invalid=${!!f.error} aria-describedby=${f.describedBy} aria-required=${required} placeholder="JSON" .value=${live(this.#drafts.get(name) ?? (v === undefined ? "" : JSON.stringify(v, null, 2)))} @input=${(e) => this.#parse(path, e.target.value, (x) => this.#set(path, x))}></textarea>`;
      case "textarea": return html`<textarea class="input ${s.format && s.format !== "textarea" ? "mono" : ""}" rows=${s.minRows || 4} id=${id} data-path=${name} aria-invalid=${!!f.error} aria-describedby=${f.describedBy} aria-required=${required} placeholder=${s.placeholder || nothing} .value=${live(v ?? "")} @input=${(e) => set(e.target.value === "" && !required ? undefined : e.target.value)}></textarea>`;
      case "number": return this.#input(f, { type: "text", mode: "decimal", read: (x) => (x.trim() !== "" && !isNaN(x) ? Number(x) : x) });
      case "date-time": return this.#input(f, { type: "datetime-local", shown: local(v), read: (x) => (isNaN(Date.parse(x)) ? undefined : new Date(x).toISOString()) });
      default: return this.#input(f, { type: { date: "date", time: "time", email: "email", uri: "url", password: "password" }[f.kind] || "text" });
    }
  }
  #input(f, { type, mode, shown, read = (x) => x }) {
    const { s, v, path, required } = f;
    return html`<input class="input ${mode ? "num" : ""}" id=${f.id} data-path=${f.name} type=${type} inputmode=${mode || nothing} step=${type.startsWith("datetime") ? 1 : nothing} autocomplete=${type === "password" ? "new-password" : "off"} spellcheck="false" aria-required=${required} aria-invalid=${!!f.error} aria-describedby=${f.describedBy} placeholder=${s.placeholder || (s.default != null && v === undefined && typeof s.default !== "object" ? `${s.default}` : nothing)} .value=${live(shown ?? (v == null ? "" : String(v)))} @input=${(e) => { const x = e.target.value; this.#set(path, x === "" && !(required && f.kind === "text") ? undefined : read(x)); }}>`;
  }
  #vary(f, one, tag) {
    const kept = isObject(f.v) ? f.v : {};
    const fields = names(one).filter((k) => k !== tag).map((k) => [k, adapt(one.properties[k], kept[k]) ?? initial(one.properties[k], (one.required || []).includes(k))]);
    this.#set(f.path, { [tag]: tagValue(one, tag), ...Object.fromEntries(fields.filter(([, v]) => v !== undefined)) });
  }
  #remove(path, list, i) {
    for (const k of [...this.#drafts.keys()]) if (k.startsWith(`${path.join(".")}.`)) { this.#drafts.delete(k); this.#broken.delete(k); }
    this.#set(path, list.filter((_, j) => j !== i));
  }
  #chips(f) {
    const list = Array.isArray(f.v) ? f.v : [], add = (input) => { const t = input.value.trim(); input.value = ""; if (t) this.#set(f.path, [...list, t]); };
    return html`<div class="chips">${list.map((x, i) => html`<span class="chip">${x}<button type="button" aria-label="Remove ${x}" @click=${() => this.#set(f.path, list.filter((_, j) => j !== i))}>${ico("x")}</button></span>`)}<input id=${f.id} data-path=${f.name} placeholder=${list.length ? "" : "Type and press Enter"} aria-invalid=${!!f.error} aria-describedby=${f.describedBy} autocomplete="off" @keydown=${(e) => {
      if (e.key === "Enter" && !e.ctrlKey && !e.metaKey && e.target.value.trim()) { e.preventDefault(); add(e.target); }
      if (e.key === "Backspace" && !e.target.value && list.length) this.#set(f.path, list.slice(0, -1));
    }} @change=${(e) => add(e.target)}></div>`;
  }
  #file(f) {
    const filled = typeof f.v === "string" && f.v;
    return html`<div class="input-row"><input class="input" type="file" id=${f.id} data-path=${f.name} aria-invalid=${!!f.error} aria-describedby=${f.describedBy} @change=${async (e) => {
      const file = e.target.files[0];
      if (!file) return this.#set(f.path, undefined);
      if (file.size > MOST) { this.#broken.set(f.name, `The file has ${bytes(file.size)}; ${bytes(MOST)} is the most`); this.#touched.add(f.name); this.#sync(); return this.requestUpdate(); }
      this.#broken.delete(f.name);
      this.#set(f.path, await base64(file));
    }}>${filled ? html`<button class="btn icon" type="button" aria-label="Remove the file of ${f.label}" @click=${() => { const input = this.#field(f.name); if (input) input.value = ""; this.#set(f.path, undefined); }}>${ico("x")}</button>` : nothing}</div>${filled ? html`<p class="help">${bytes(Math.floor((f.v.length * 3) / 4))} held</p>` : nothing}`;
  }
  #resource(f) {
    const type = resourceType(f.s), found = this.#offered(type), current = typeof f.v === "string" && f.v.startsWith("$res:") ? f.v.slice(5) : "";
    if (f.v !== undefined && !current) return html`<textarea class="input mono" rows="3" id=${f.id} data-path=${f.name} spellcheck="false" aria-invalid=${!!f.error} .value=${live(this.#drafts.get(f.name) ?? (typeof f.v === "string" ? f.v : JSON.stringify(f.v, null, 2)))} @input=${(e) => this.#parse(f.path, e.target.value, (x) => this.#set(f.path, x))}></textarea>`;
    const list = found.includes(current) || !current ? found : [current, ...found];
    return html`<select class="input" id=${f.id} data-path=${f.name} aria-invalid=${!!f.error} aria-describedby=${f.describedBy} aria-required=${f.required} @change=${(e) => this.#set(f.path, e.target.value ? `$res:${e.target.value}` : undefined)}><option value="" ?selected=${!current}>${list.length ? (f.required ? "Choose…" : "None") : `No resource of type ${type} yet`}</option>${list.map((p) => html`<option value=${p} ?selected=${p === current}>${p}</option>`)}</select>`;
  }
  /** Paths of resources of a type; asks the server once for each type. */
  #offered(type) {
    const url = this.getAttribute("resources-url");
    if (!this.resources[type] && url && !this.#asked.has(type)) {
      this.#asked.set(type, fetch(url + encodeURIComponent(type)).then((r) => (r.ok ? r.json() : [])).then((rows) => {
        this.resources = { ...this.resources, [type]: rows.map((r) => r.path ?? r) };
      }).catch(() => this.#asked.delete(type)));
    }
    return this.resources[type] || [];
  }
}
/** A moment as <input type=datetime-local> wants it: local, without zone. */
function local(iso) {
  const d = new Date(iso);
  return iso && !isNaN(d) ? new Date(d - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19) : "";
}
const base64 = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});
customElements.define("wm-schema-form", SchemaForm);
