// Fields of the flow editor's panels. `on` is what they edit: {key (unique in the page), get(path), set(path, value,
// options), resourcesUrl, completions}. A value that is emptied is taken out.
import { html, live, nothing } from "../vendor/lit.js";
import "./elements/code.js";
import "./elements/flow-transform.js";
import { iconHref } from "./dom.js";

export const ico = (name, cls = "") => html`<svg class="i ${cls}" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
const idOf = (on, path) => `${on.key}-${path.join("-")}`.replace(/[^\w-]/g, "_");
const help = (id, text) => (text ? html`<p class="help" id="${id}-h">${text}</p>` : nothing);

export function text(on, path, label, { hint, mono = false, placeholder, list, wide = false, max = 1000 } = {}) {
  const id = idOf(on, path);
  return html`<div class="field ${wide ? "wide" : ""}"><label for=${id}>${label}</label><input class="input ${mono ? "mono" : ""}" id=${id} maxlength=${max} autocomplete="off" spellcheck=${!mono} placeholder=${placeholder || nothing} list=${list ? `${id}-l` : nothing} aria-describedby=${hint ? `${id}-h` : nothing} .value=${live(on.get(path) ?? "")} @input=${(e) => on.set(path, e.target.value, { typing: true })}>${list ? html`<datalist id="${id}-l">${list.map((x) => html`<option value=${x}></option>`)}</datalist>` : nothing}${help(id, hint)}</div>`;
}
export function area(on, path, label, { hint, rows = 4, mono = false } = {}) {
  const id = idOf(on, path);
  return html`<div class="field wide"><label for=${id}>${label}</label><textarea class="input ${mono ? "mono" : ""}" id=${id} rows=${rows} aria-describedby=${hint ? `${id}-h` : nothing} .value=${live(on.get(path) ?? "")} @input=${(e) => on.set(path, e.target.value, { typing: true })}></textarea>${help(id, hint)}</div>`;
}
export function number(on, path, label, { unit, min = 0, max, step = 1, hint, placeholder } = {}) {
  const id = idOf(on, path);
  return html`<div class="field"><label for=${id}>${label}${unit ? html`<span class="type" aria-hidden="true">${unit}</span><span class="vh"> in ${unit}</span>` : nothing}</label><input class="input num" type="number" id=${id} min=${min} max=${max ?? nothing} step=${step} placeholder=${placeholder ?? nothing} aria-describedby=${hint ? `${id}-h` : nothing} .value=${live(String(on.get(path) ?? ""))} @input=${(e) => { if (e.target.validity.badInput) return; on.set(path, e.target.value === "" ? undefined : Number(e.target.value), { typing: true }); }}>${help(id, hint)}</div>`;
}
/** A switch. Off takes the value out, unless `keepFalse`. */
export function toggle(on, path, label, { hint, keepFalse = false } = {}) {
  const id = idOf(on, path);
  return html`<div class="field"><label class="switch" for=${id}><input type="checkbox" role="switch" id=${id} aria-describedby=${hint ? `${id}-h` : nothing} .checked=${live(on.get(path) === true)} @change=${(e) => on.set(path, e.target.checked || (keepFalse ? false : undefined))}><b>${label}</b></label>${help(id, hint)}</div>`;
}
export function choice(on, path, label, options, { hint, empty = "None" } = {}) {
  const id = idOf(on, path), now = on.get(path) ?? "";
  const all = now && !options.some(([v]) => v === now) ? [...options, [now, now]] : options;
  return html`<div class="field"><label for=${id}>${label}</label><select class="input" id=${id} aria-describedby=${hint ? `${id}-h` : nothing} @change=${(e) => on.set(path, e.target.value || undefined)}><option value="" ?selected=${!now}>${empty}</option>${all.map(([v, words]) => html`<option value=${v} ?selected=${v === now}>${words}</option>`)}</select>${help(id, hint)}</div>`;
}
/** JavaScript as plain text in the flow (a condition). */
export function expression(on, path, label, { hint, placeholder = "results.a > 3" } = {}) {
  const value = on.get(path) ?? "", id = idOf(on, path);
  return html`<div class="field wide fx" data-field=${id}><div class="ft-head"><span class="ft-name">${label}</span><span class="type">expression</span><button type="button" class="btn ghost icon sm" aria-label="Insert a value into ${label}" title="Insert an input or the result of a step" @click=${(e) => e.target.closest(".fx").dispatchEvent(new CustomEvent("wm-pick", { bubbles: true, detail: { into: { insert: (t) => inserted(document.querySelector(`[data-field="${CSS.escape(id)}"] wm-code`), t) } } }))}>${ico("link")}</button></div>
    <div class="code-frame"><wm-code small language="javascript" label=${label} placeholder=${placeholder} .value=${value} .completions=${on.completions || []} @input=${(e) => { e.stopPropagation(); if (e.target.value !== (on.get(path) ?? "")) on.set(path, e.target.value, { typing: true, keepEmpty: true }); }}><pre>${value}</pre></wm-code></div>${hint ? html`<p class="help">${hint}</p>` : nothing}</div>`;
}
function inserted(code, text) {
  if (["", "false", "true"].includes(code.value.trim())) { code.value = text; code.focus(); } else code.insert(text);
}
/** An InputTransform (a plain number counts as a fixed one). */
export function transform(on, path, label, schema, { hint, plain = false } = {}) {
  const now = on.get(path), value = now === undefined || (now !== null && typeof now === "object") ? now : { type: "static", value: now };
  return html`<wm-flow-transform class="wide" .key=${idOf(on, path)} .name=${String(path.at(-1))} .label=${label} .schema=${schema} .value=${value} .note=${hint} .plain=${plain} .resourcesUrl=${on.resourcesUrl} .completions=${on.completions || []} @wm-transform=${(e) => { const v = e.detail.value; on.set(path, v?.type === "static" && v.value === undefined ? undefined : v, { typing: true }); }}></wm-flow-transform>`;
}
/** Any JSON value. */
export function json(on, path, label, { hint } = {}) {
  const value = on.get(path), id = idOf(on, path);
  return html`<div class="field wide"><label for=${id}>${label}<span class="type" aria-hidden="true">JSON</span></label><textarea class="input mono" rows="4" id=${id} spellcheck="false" .value=${live(value === undefined ? "" : JSON.stringify(value, null, 2))} @change=${(e) => {
    const field = e.target;
    try { on.set(path, field.value.trim() ? JSON.parse(field.value) : undefined, { keepEmpty: true }); field.setCustomValidity(""); field.removeAttribute("aria-invalid"); }
    catch (error) { field.setCustomValidity(`This is not JSON: ${error.message}`); field.setAttribute("aria-invalid", "true"); field.reportValidity(); }
  }}></textarea>${help(id, hint)}</div>`;
}
/** A group of options that opens, with a mark while it is used. */
export function section(name, isUsed, body, { hint = "", open = isUsed, remove } = {}) {
  return html`<details class="fi-section" ?open=${open}><summary>${ico("chevron-right", "fi-turn")}<span>${name}</span>${isUsed ? html`<span class="tag accent">on</span>` : nothing}</summary><div class="fi-fields">${hint ? html`<p class="help wide">${hint}</p>` : nothing}${body}${remove && isUsed ? html`<div class="wide"><button type="button" class="btn ghost sm" @click=${remove}>${ico("x")}Take ${name.toLowerCase()} out</button></div>` : nothing}</div></details>`;
}
