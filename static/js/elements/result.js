import { LitElement, html, nothing } from "../../vendor/lit.js";
import { bytes as size } from "../format.js";
import { copy, download, iconHref, json } from "../dom.js";
import { tabulate } from "./table.js";
import "./json.js";

const BIG = 256 * 1024; // bytes above which a result is loaded only when asked
const LONG = 200_000; // characters of text drawn
const ico = (name) => html`<svg class="i" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
/** Rich values are a string, or {content, filename?}. */
const content = (v) => (isObject(v) ? v.content ?? v.base64 ?? "" : v ?? "");
const KEYS = ["table-col", "table-row", "table-row-object", "html", "markdown", "md", "png", "jpeg", "jpg", "gif", "webp", "svg", "file", "pdf", "map", "error", "s3object", "render_all", "approval"];

/** Which viewer shows `value`, by Windmill's conventions: an object with one key that names the form. */
export function kindOf(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "string") return "text";
  if (typeof value !== "object") return "scalar";
  if (Array.isArray(value)) return value.length && value.every(isObject) && value.some((r) => Object.keys(r).length) ? "rows" : "json";
  const keys = Object.keys(value);
  if (isObject(value.error) && (value.error.message !== undefined || value.error.name !== undefined)) return "error";
  if (typeof value.resume === "string" && typeof value.cancel === "string") return "approval";
  if (typeof value.s3 === "string") return "s3object";
  if (keys.length === 1 && KEYS.includes(keys[0]) && value[keys[0]] !== null) {
    const key = keys[0];
    if (key.startsWith("table-")) return tabulate(value[key]) ? "table" : "json";
    if (key === "render_all") return Array.isArray(value[key]) ? key : "json";
    if (["png", "jpeg", "jpg", "gif", "webp", "svg"].includes(key)) return typeof content(value[key]) === "string" ? "image" : "json";
    if (key === "md") return "markdown";
    if (key === "file") return isObject(value.file) && typeof content(value.file) === "string" ? "file" : "json";
    if (key === "map") return isObject(value.map) ? "map" : "json";
    return ["error", "approval", "s3object"].includes(key) ? "json" : key;
  }
  return "json";
}

/** The line of the script that an error speaks of: the last frame in the script's own file; null when it names none. */
export function errorLine(error) {
  const stack = Array.isArray(error.stack) ? error.stack.join("\n") : String(error.stack || "");
  const own = [...stack.matchAll(/File "([^"]+)", line (\d+)/g)].filter(([, file]) => !/site-packages|\/lib\/python|wrapper\.py|^</.test(file));
  if (own.length) return +own.at(-1)[2];
  const other = /(?:main|inner|script)\.(?:ts|js|go|sh|bash|php|rs):(\d+)/.exec(stack) || /(?:^|\s)line (\d+):/m.exec(`${stack}\n${error.message || ""}`) || /main\.py:(\d+)/.exec(stack);
  return other ? +other[1] : null;
}

const toBytes = (base64) => Uint8Array.from(atob(base64.replace(/^data:[^,]*,/, "").replace(/\s/g, "")), (c) => c.charCodeAt(0));

/**
 * <wm-result data-src="id" frame="/w/acme/runs/<id>/result.html" download="/w/.../result" file-name="result">
 * Shows what a job returned in the form it asked for, with a switch to the raw JSON. `frame` is the page that renders
 * html and markdown under its own sandbox policy (?at= names the place inside render_all, "0" or "1/0"). Instead of
 * data-src: property `value`, or `src` (address of the JSON) with `size` in bytes: over 256 KB it waits for a click.
 * Event: "wm-goto-line" (detail {line}) when the reader asks for the line of an error; without `lines` no such button.
 */
class Result extends LitElement {
  static properties = { value: { attribute: false }, raw: { state: true }, phase: { state: true }, at: { type: String } };
  #urls = [];
  #picture = ""; // blob address of the image, made once for each value
  createRenderRoot() { return this; }
  connectedCallback() {
    super.connectedCallback();
    this.raw ??= false;
    if (this.value === undefined && this.dataset.src) this.value = json(this.dataset.src) ?? null;
    if (this.value === undefined && this.getAttribute("src")) {
      if (+this.getAttribute("size") > BIG) this.phase = "big";
      else this.load();
    }
  }
  disconnectedCallback() { super.disconnectedCallback(); this.#forget(); }
  #forget() { this.#urls.forEach((u) => URL.revokeObjectURL(u)); this.#urls = []; this.#picture = ""; }
  #blob(data, type) { const u = URL.createObjectURL(new Blob([data], { type })); this.#urls.push(u); return u; }
  willUpdate(changed) { if (changed.has("value")) { this.#forget(); this.raw = false; } }

  /** Fetches `src`. */
  async load() {
    this.phase = "loading";
    try {
      const answer = await fetch(this.getAttribute("src"));
      if (!answer.ok) throw new Error((await answer.text()).slice(0, 300));
      this.value = await answer.json();
      this.phase = "";
    } catch (error) {
      this.reason = error.message;
      this.phase = "failed";
    }
  }

  render() {
    if (this.phase === "loading") return html`<div class="rs-wait" role="status"><span class="vh">Loading the result</span><span class="skeleton"></span><span class="skeleton"></span><span class="skeleton"></span></div>`;
    if (this.phase === "big") return html`<div class="empty-state">${ico("file-down")}<h3>The result is ${size(+this.getAttribute("size"))}</h3><p>It is not loaded until you ask.</p><div class="row"><button class="btn" type="button" @click=${this.load}>Show it</button>${this.#download()}</div></div>`;
    if (this.phase === "failed") return html`<div class="notice fail" role="alert">${ico("triangle-alert")}<div><strong>The result could not be loaded</strong><p>${this.reason}</p></div><button class="btn sm" type="button" @click=${this.load}>Try again</button></div>`;
    if (this.value === undefined) return nothing;
    const kind = kindOf(this.value), switchable = !["json", "null", "text", "scalar"].includes(kind);
    const raw = this.raw && switchable;
    return html`<div class="rs-bar">${switchable ? html`<div class="seg" role="group" aria-label="Show as"><button type="button" aria-pressed=${!raw} @click=${() => { this.raw = false; }}>${{ rows: "Table", table: "Table", error: "Error" }[kind] || "Preview"}</button><button type="button" aria-pressed=${raw} @click=${() => { this.raw = true; }}>JSON</button></div>` : nothing}<span class="grow"></span>${kind === "null" ? nothing : html`<button class="btn ghost sm" type="button" @click=${() => copy(typeof this.value === "string" ? this.value : JSON.stringify(this.value, null, 2), "Result copied")}>${ico("copy")}Copy</button>`}${this.at ? nothing : this.#download("ghost sm")}</div>
      <div class="rs-body" data-kind=${raw ? "json" : kind}>${raw ? this.#tree() : this.#show(kind)}</div>`;
  }
  #download(style = "") {
    const url = this.getAttribute("download");
    if (url) return html`<a class="btn ${style}" href=${url} download>${ico("download")}Download</a>`;
    return this.value === undefined || this.value === null ? nothing : html`<button class="btn ${style}" type="button" @click=${() => download(JSON.stringify(this.value, null, 2), `${this.#name()}.json`, "application/json")}>${ico("download")}Download</button>`;
  }
  #name() { return this.getAttribute("file-name") || "result"; }
  #tree() { return html`<wm-json open="2" label="Result" .value=${this.value}></wm-json>`; }

  #show(kind) {
    const v = this.value;
    switch (kind) {
      case "null": return html`<p class="dim">The run returned nothing (null).</p>`;
      case "scalar": return html`<p class="rs-scalar mono">${String(v)}</p>`;
      case "text": return this.#text(v);
      case "rows": case "table": {
        import("./table.js");
        return html`<wm-table file-name=${this.#name()} label="Result" .value=${kind === "rows" ? v : Object.values(v)[0]}></wm-table>`;
      }
      case "error": return this.#error(v.error);
      case "html": case "markdown": return this.#frame(kind, v);
      case "image": return this.#image(v);
      case "file": return this.#file(content(v.file), v.file.filename || "file", "application/octet-stream");
      case "pdf": return this.#file(content(v.pdf), (isObject(v.pdf) && v.pdf.filename) || `${this.#name()}.pdf`, "application/pdf");
      case "map": return html`<dl class="kv"><dt>Latitude</dt><dd class="num">${v.map.lat}</dd><dt>Longitude</dt><dd class="num">${v.map.lon}</dd>${(v.map.markers || []).map((m) => html`<dt>${m.title || "Marker"}</dt><dd class="num">${m.lat}, ${m.lon}</dd>`)}</dl>`;
      case "approval": return html`<div class="row"><a class="btn primary" href=${link(v.resume)}>${ico("check")}Approve</a><a class="btn danger" href=${link(v.cancel)}>${ico("x")}Deny</a>${v.approvalPage ? html`<a class="btn" href=${link(v.approvalPage)}>${ico("external-link")}Approval page</a>` : nothing}</div>`;
      case "s3object": return html`<p class="row">${ico("database")}<span>Object <code>${v.s3}</code>${v.storage ? html` in storage <code>${v.storage}</code>` : nothing}</span></p>`;
      case "render_all": return html`<div class="stack">${v.render_all.map((item, i) => html`<wm-result class="rs-part" at=${this.at ? `${this.at}/${i}` : `${i}`} frame=${this.getAttribute("frame") || nothing} file-name="${this.#name()}-${i + 1}" ?lines=${this.hasAttribute("lines")} .value=${item}></wm-result>`)}</div>`;
      default: return this.#tree();
    }
  }
  #text(text) {
    return html`<pre class="rs-text" tabindex="0" role="region" aria-label="Result text">${text.slice(0, LONG)}</pre>${text.length > LONG ? html`<p class="help">${text.length - LONG} more characters: copy or download to see them.</p>` : nothing}`;
  }
  #error(e) {
    const stack = Array.isArray(e.stack) ? e.stack.join("\n") : e.stack, line = this.hasAttribute("lines") ? errorLine(e) : null;
    return html`<div class="notice fail" role="alert">${ico("triangle-alert")}<div><strong>${e.name && e.name !== "Error" ? `${e.name}: ` : ""}${e.message ?? ""}</strong>${e.step_id ? html`<p>Step <code>${e.step_id}</code></p>` : nothing}${stack ? html`<pre tabindex="0" role="region" aria-label="Stack">${stack}</pre>` : nothing}</div>${line ? html`<button class="btn sm" type="button" @click=${() => this.dispatchEvent(new CustomEvent("wm-goto-line", { bubbles: true, detail: { line } }))}>Show line ${line}</button>` : nothing}</div>
      ${isObject(e.extra) && Object.keys(e.extra).length ? html`<wm-json open="1" label="More about the error" .value=${e.extra}></wm-json>` : nothing}`;
  }
  #frame(kind, v) {
    const frame = this.getAttribute("frame"), source = String(content(v[kind] ?? v.md));
    if (!frame) return this.#text(source);
    const url = new URL(frame, location.href);
    if (this.at) url.searchParams.set("at", this.at);
    url.searchParams.set("theme", document.documentElement.dataset.theme || "auto");
    return html`<iframe class="rs-frame" sandbox src=${url.href} title=${kind === "html" ? "HTML result" : "Markdown result"} loading="lazy"></iframe>`;
  }
  #image(v) {
    const [kind] = Object.keys(v), data = String(content(v[kind])).trim();
    try {
      const markup = kind === "svg" && data.startsWith("<");
      const url = this.#picture ||= this.#blob(markup ? data : toBytes(data), kind === "svg" ? "image/svg+xml" : `image/${kind === "jpg" ? "jpeg" : kind}`);
      return html`<figure class="rs-image"><img src=${url} alt="Result as an image" @error=${(e) => { e.target.replaceWith(Object.assign(document.createElement("p"), { className: "err", textContent: `The result is not a valid ${kind} image.` })); }}></figure>`;
    } catch {
      return html`<p class="err">The value of “${kind}” is not base64.</p>`;
    }
  }
  #file(base64, name, type) {
    try {
      const data = toBytes(base64);
      return html`<div class="rs-file">${ico(type === "application/pdf" ? "file-text" : "file-down")}<div><strong>${name}</strong><p class="help">${size(data.length)}</p></div><button class="btn" type="button" @click=${() => download(new Blob([data], { type }), name)}>${ico("download")}Save</button></div>`;
    } catch {
      return html`<p class="err">The file “${name}” is not base64.</p>`;
    }
  }
}
/** Only web addresses may become links: a script's result must not hold javascript:. */
const link = (url) => (/^(https?:\/\/|\/)/.test(String(url)) ? url : "#");
customElements.define("wm-result", Result);
