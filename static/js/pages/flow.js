// The overview of a flow: its graph and outline show the same step, whose details stand below; YAML is loaded when asked for.
import "../elements/code.js";
import "../elements/flow-graph.js";
import "../elements/flow-outline.js";
import { LitElement, html, nothing } from "../../vendor/lit.js";
import { everyModule } from "../flow-layout.js";
import { LANGUAGE, kindName, marks, moduleIcon, subtitle, title } from "../flow-module.js";
import { iconHref, json } from "../dom.js";

const value = json("flow-value"), base = location.pathname.match(/^\/w\/[^/]+\//)[0];
const graph = document.getElementById("graph"), outline = document.getElementById("outline"), panel = document.getElementById("step");
const modules = new Map([...everyModule(value)].map(({ module }) => [module.id, module]));
outline.value = value;

const ico = (name) => html`<svg class="i" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
const plain = (transform) => (transform?.type === "javascript" ? transform.expr : transform?.type === "ai" ? "chosen by the agent" : JSON.stringify(transform?.value) ?? "");

function callee({ type, path, hash }) {
  if ((type !== "script" && type !== "flow") || !path) return nothing;
  const where = path.startsWith("hub/") ? html`<span class="mono">${path}</span>` : html`<a class="link mono" href="${base}${type}s/${path}/">${path}</a>`;
  return html`<div><dt>Runs</dt><dd>${where}${hash ? html` <span class="dim">version ${hash.slice(0, 8)}</span>` : nothing}</dd></div>`;
}
function inputs(transforms) {
  const names = Object.keys(transforms ?? {});
  if (!names.length) return nothing;
  return html`<div class="table-card"><table class="table"><caption class="vh">Inputs of the step</caption><thead><tr><th scope="col">Input</th><th scope="col">Value</th></tr></thead><tbody>
    ${names.map((name) => html`<tr><td class="mono">${name}</td><td class="mono wrap">${plain(transforms[name])}</td></tr>`)}</tbody></table></div>`;
}
function code({ type, content, language }) {
  if (type !== "rawscript") return nothing;
  // A new element for every step: a wm-code keeps what it was given first.
  const editor = Object.assign(document.createElement("wm-code"), { value: content ?? "" });
  editor.setAttribute("language", language ?? "");
  editor.setAttribute("label", "Code of the step");
  editor.toggleAttribute("readonly", true);
  return html`<div class="flow-overview-code">${editor}</div>`;
}
/** <wm-flow-step>: what the chosen step of the overview is. Property: module. */
class FlowStep extends LitElement {
  static properties = { module: { attribute: false } };
  createRenderRoot() { return this; }
  render() {
    const module = this.module, inner = module?.value ?? {};
    if (!module) return nothing;
    const options = marks(module), isCode = inner.type === "rawscript", calls = inner.type === "script" || inner.type === "flow";
    return html`<div class="card-head">${ico(moduleIcon(module))}<h2 class="clip">${title(module)}</h2>${isCode ? html`<span class="lang">${LANGUAGE[inner.language]?.[1] ?? inner.language}</span>` : nothing}<span class="sid">${module.id}</span></div>
      <div class="pad stack"><dl class="facts"><div><dt>Kind</dt><dd>${kindName(module)}</dd></div>${callee(inner)}${calls || isCode ? nothing : html`<div><dt class="vh">How</dt><dd>${subtitle(module)}</dd></div>`}</dl>
        ${options.length ? html`<ul class="flow-overview-marks">${options.map(([name, words]) => html`<li>${ico(name)}<span>${words}</span></li>`)}</ul>` : nothing}</div>
      ${inputs(inner.input_transforms)}${code(inner)}`;
  }
}
customElements.define("wm-flow-step", FlowStep);

function show(id) {
  const module = modules.get(id);
  if (!module) return;
  graph.selected = outline.selected = id;
  panel.hidden = false;
  panel.querySelector("wm-flow-step").module = module;
}
document.addEventListener("wm-select", (e) => show(e.detail.id));
document.addEventListener("wm-open", () => panel.scrollIntoView({ block: "nearest" }));

// #step-b of the address opens with that step.
const wanted = decodeURIComponent(location.hash).match(/^#step-(.+)$/)?.[1];
if (wanted) show(wanted);

const yaml = document.getElementById("p-yaml");
yaml.addEventListener("wm-show", async () => {
  if (yaml.firstChild) return;
  const answer = await fetch(yaml.dataset.src), text = await answer.text();
  const editor = Object.assign(document.createElement("wm-code"), { value: text });
  editor.setAttribute("language", "yaml");
  editor.setAttribute("label", "The flow as YAML");
  editor.toggleAttribute("readonly", true);
  yaml.replaceChildren(editor);
});
