import { LitElement, html, keyed, live, nothing } from "../../vendor/lit.js";
import "./code.js";
import "./language-picker.js";
import "./schema-form.js";
import "./flow-transform.js";
import { advanced } from "../flow-advanced.js";
import { area, choice, expression, ico, section, text, toggle, transform } from "../flow-fields.js";
import * as model from "../flow-model.js";
import { LANGUAGE, kindName, moduleIcon, title } from "../flow-module.js";
import { around, inputs, settings } from "../flow-settings.js";
import { canInsert } from "../insert-call.js";
import { names } from "../schema.js";

const LIST = { type: "array", items: {} }, NUMBER = { type: "integer", minimum: 1 };
// What an AI agent takes; expressions may stand for each.
const AGENT = {
  provider: { schema: { type: "object", description: "kind, model and the resource with the key" }, required: true }, user_message: { schema: { type: "string", format: "textarea" }, required: true }, system_prompt: { schema: { type: "string", format: "textarea" } },
  output_type: { schema: { type: "string", enum: ["text", "image"] } }, output_schema: { schema: { type: "object", description: "JSON Schema of the answer" } }, temperature: { schema: { type: "number", minimum: 0, maximum: 2 } },
  max_completion_tokens: { schema: NUMBER }, max_iterations: { schema: NUMBER }, streaming: { schema: { type: "boolean" } }, memory: { schema: { type: "object" } }, user_attachments: { schema: LIST },
};

/**
 * <wm-flow-inspector>: the panel of the chosen step, or of the flow when none is. Property: editor, the page's model:
 *   doc, value, selected, problems ([{id, message, level}]), known ({groups, tags, resourcesUrl, isNew, path, setPath}),
 *   change(FlowValue, {tag}), set(path of the document, value, {tag}), select(id), act(name, id),
 *   callee(module) -> {state: "loading" | "ready" | "missing", schema, …}, schemaOf(module), completions,
 *   testOf(id) -> {args, note}.
 * The page calls refresh() after each change. Events: "wm-pick" (of fields), "wm-test" {what: "step" | "upto", id, args}.
 */
class FlowInspector extends LitElement {
  static properties = { editor: { attribute: false }, tab: { state: true } };
  #chosen = { step: "code", flow: "inputs" };
  #tests = new Map(); // id -> arguments typed in for testing the step alone
  createRenderRoot() { return this; }
  refresh() { this.requestUpdate(); }
  /** Shows a tab of the chosen step, by name: code, inputs, advanced or test. */
  show(tab) {
    this.#chosen.step = tab;
    this.requestUpdate();
  }
  get #module() { return this.editor?.selected ? model.find(this.editor.value, this.editor.selected)?.module : null; }

  // --- what fields edit ---
  /** The step `id` for flow-fields.js. */
  #on(id) {
    const e = this.editor;
    return {
      key: `s-${id}`, resourcesUrl: e.known.resourcesUrl, completions: e.completions,
      get: (path) => model.at(model.find(e.value, id)?.module, path),
      set: (path, v, { typing = false, keepEmpty = false } = {}) => e.change(model.setModule(e.value, id, (m) => put(m, path, v, keepEmpty)), { tag: typing ? `${id}:${path.join(".")}` : null }),
    };
  }
  #onFlow() {
    const e = this.editor;
    return { key: "flow", resourcesUrl: e.known.resourcesUrl, completions: e.completions, get: (path) => model.at(e.doc, path), set: (path, v, { typing = false } = {}) => e.set(path, v, { tag: typing ? path.join(".") : null }) };
  }

  render() {
    if (!this.editor) return nothing;
    const m = this.#module;
    return m ? this.#step(m) : this.#flow();
  }
  #tabs(all, now, kind) {
    return html`<div class="tabs line fi-tabs" role="tablist" aria-label=${kind === "step" ? "Step" : "Flow"}>${all.map(([key, words, mark]) => html`<button type="button" role="tab" aria-selected=${key === now} tabindex=${key === now ? 0 : -1} data-tab=${key} @click=${(e) => { e.stopPropagation(); this.#chosen[kind] = key; this.requestUpdate(); }} @keydown=${(e) => {
      const i = all.findIndex(([k]) => k === key), to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: all.length - 1 }[e.key];
      if (to === undefined || !all[to]) return;
      e.preventDefault();
      this.#chosen[kind] = all[to][0];
      this.requestUpdate();
      this.updateComplete.then(() => this.querySelector(`[data-tab="${all[to][0]}"]`).focus());
    }}>${words}${mark ? html`<b class="count ${mark.kind}">${mark.text}</b>` : nothing}</button>`)}</div>`;
  }

  // --- the flow ---
  #flow() {
    const e = this.editor, now = this.#chosen.flow, count = names(e.doc.schema || {}).length;
    return html`<div class="fi-head"><span class="fg-ico">${ico("workflow")}</span><div class="fi-title"><h2>Flow</h2></div></div>
      ${this.#tabs([["inputs", "Inputs", count ? { text: count, kind: "" } : null], ["settings", "Settings"], ["around", "Error handler and trigger"]], now, "flow")}
      <div class="grow fi-panel" role="tabpanel" tabindex="-1">${now === "inputs" ? inputs(e.doc.schema || {}, (schema) => e.set(["schema"], schema, { tag: "schema" })) : now === "settings" ? settings(this.#onFlow(), e.doc, e.known) : around(e.value, (name, id) => e.act(name, id))}</div>`;
  }

  // --- a step ---
  #step(m) {
    const e = this.editor, type = m.value?.type, faults = e.problems.filter((p) => p.id === m.id);
    const code = type === "rawscript" || type === "script" || type === "flow", special = m.id === "failure" || m.id === "preprocessor";
    const loop = type === "forloopflow" || type === "whileloopflow", branch = type === "branchone" || type === "branchall";
    const all = [
      code ? ["code", type === "flow" ? "Flow" : "Code"] : loop ? ["code", "Loop"] : branch ? ["code", "Branches"] : type === "aiagent" ? ["code", "Agent"] : ["code", "Step"],
      ...(code && m.id !== "preprocessor" ? [["inputs", "Inputs", missing(m, e.schemaOf(m)).length ? { text: missing(m, e.schemaOf(m)).length, kind: "fail" } : null]] : []),
      ...(m.id === "preprocessor" ? [] : [["advanced", "Advanced"]]),
      ["test", "Test"],
    ];
    const now = all.some(([k]) => k === this.#chosen.step) ? this.#chosen.step : "code";
    return html`<div class="fi-head"><span class="fg-ico">${ico(moduleIcon(m))}</span>
        <div class="fi-title"><h2 class="vh">Step ${m.id}</h2><input class="fi-summary" aria-label="Summary of step ${m.id}" placeholder=${title({ ...m, summary: "" })} maxlength="1000" .value=${live(m.summary ?? "")} @input=${(ev) => this.#on(m.id).set(["summary"], ev.target.value, { typing: true })}><span class="dim">${kindName(m)}</span></div>
        ${special ? html`<span class="sid">${m.id}</span>` : html`<input class="sid fi-id" aria-label="Id of the step" title="Id: others read its result as results.${m.id}" size=${Math.max(2, m.id.length)} .value=${live(m.id)} spellcheck="false" maxlength="60" @change=${(ev) => this.#rename(m.id, ev.target)} @keydown=${(ev) => { if (ev.key === "Enter") ev.target.blur(); if (ev.key === "Escape") { ev.target.value = m.id; ev.target.blur(); } }}>`}
        <button type="button" class="btn ghost icon sm" popovertarget="fi-menu" aria-label="More for step ${m.id}">${ico("ellipsis")}</button>
        <menu class="pop" id="fi-menu" popover>${(special ? [["remove", "trash-2", "Remove", "Del"]] : [["up", "arrow-up", "Move up", "Alt ↑"], ["down", "arrow-down", "Move down", "Alt ↓"], ["duplicate", "copy-plus", "Duplicate", ""], ["copy", "copy", "Copy", "Ctrl C"], ["remove", "trash-2", "Remove", "Del"]]).map(([name, icon, words, key]) => html`<li><button type="button" @click=${() => e.act(name, m.id)}>${ico(icon)}<span>${words}</span>${key ? html`<kbd>${key}</kbd>` : nothing}</button></li>`)}</menu></div>
      ${faults.length ? html`<ul class="fi-faults">${faults.map((p) => html`<li class=${p.level}>${ico(p.level === "error" ? "circle-x" : "triangle-alert")}<span>${p.message}</span></li>`)}</ul>` : nothing}
      ${this.#tabs(all, now, "step")}
      <div class="grow fi-panel ${now === "code" && type === "rawscript" ? "flush" : ""}" role="tabpanel" tabindex="-1">${keyed(m.id, now === "inputs" ? this.#inputs(m) : now === "advanced" ? advanced(this.#on(m.id), m, e.known) : now === "test" ? this.#test(m, code) : this.#main(m))}</div>`;
  }
  #rename(id, field) {
    const to = field.value.trim(), problem = model.idProblem(this.editor.value, to, id);
    field.setCustomValidity(problem);
    if (problem) { field.reportValidity(); field.value = id; field.setCustomValidity(""); return; }
    if (to === id) return;
    this.editor.rename(id, to);
  }

  #main(m) {
    const on = this.#on(m.id), v = m.value;
    switch (v.type) {
      case "rawscript": return this.#code(m);
      case "script": case "flow": return this.#callee(m);
      case "forloopflow": return html`<div class="fi-body pad stack">${transform(on, ["value", "iterator"], "Go through", LIST, { hint: "A list. In the loop, flow_input.iter.value is the item and flow_input.iter.index its place." })}
        <div class="form-grid">${toggle(on, ["value", "skip_failures"], "Go on when an iteration fails", { keepFalse: true })}${toggle(on, ["value", "parallel"], "Iterations at the same time", { keepFalse: true })}</div>
        ${v.parallel ? transform(on, ["value", "parallelism"], "At most at once", NUMBER, { hint: "Empty: all of them." }) : nothing}</div>`;
      case "whileloopflow": return html`<div class="fi-body pad stack">${expression(on, ["stop_after_if", "expr"], "Stop after an iteration if", { placeholder: "result.done", hint: "result is what the iteration gave, flow_input.iter.index counts from 0. A step in the loop may say stop, too." })}${toggle(on, ["value", "skip_failures"], "Go on when an iteration fails", { keepFalse: true })}</div>`;
      case "branchone": case "branchall": return this.#branches(m, on);
      case "aiagent": return html`<div class="fi-body pad stack fi-inputs">${Object.entries(AGENT).map(([name, a]) => html`<wm-flow-transform .key=${`s-${m.id}-${name}`} .name=${name} .schema=${a.schema} .required=${Boolean(a.required)} .note=${a.schema.description} .value=${v.input_transforms?.[name]} .resourcesUrl=${this.editor.known.resourcesUrl} .completions=${this.editor.completions} @wm-transform=${(e) => on.set(["value", "input_transforms", name], e.detail.value?.type === "static" && e.detail.value.value === undefined ? undefined : e.detail.value, { typing: true })}></wm-flow-transform>`)}${this.#tools(m, on)}</div>`;
      default: return html`<div class="fi-body pad stack">${v.type === "identity" && m.sleep ? transform(on, ["sleep"], "Wait", { type: "number", minimum: 0 }, { hint: "Seconds before the next step begins; fractions too. As the last step it does not wait." }) : nothing}<p class="help">This step runs nothing: it passes the previous result on.</p></div>`;
    }
  }
  #tools(m, on) {
    const tools = m.value.tools || [];
    const put = (list) => on.set(["value", "tools"], list, { keepEmpty: true });
    return section("Tools", tools.length > 0, html`<div class="wide stack">${tools.map((t, i) => html`<div class="fi-branch"><div class="row"><span class="sid">${t.id}</span><span class="grow clip">${t.summary || t.value?.path || "Tool"}</span><button type="button" class="btn ghost icon sm" aria-label="Remove tool ${t.id}" @click=${() => put(tools.filter((_, n) => n !== i))}>${ico("trash-2")}</button></div></div>`)}<div><button type="button" class="btn sm" @click=${() => this.editor.addTool(m.id)}>${ico("plus")}Add a script of the workspace</button></div></div>`, { hint: "What the model may call." });
  }

  #code(m) {
    const e = this.editor, on = this.#on(m.id), v = m.value, problem = e.codeProblem(m.id), unrunnable = e.languages.languages.find((l) => l.id === v.language)?.problem;
    return html`<div class="fi-code"><div class="editor-bar" role="toolbar" aria-label="Code">
        <wm-language label="Language" .data=${e.languages} .value=${v.language} @change=${(ev) => { if (ev.target.localName === "wm-language") e.language(m.id, ev.target.value); }}></wm-language>
        ${[["variable", "key-round", "Variable"], ["resource", "boxes", "Resource"]].filter(([kind]) => canInsert(v.language, kind)).map(([kind, i, words]) => html`<button type="button" class="btn ghost sm" @click=${() => e.act(kind, m.id)}>${ico(i)}${words}</button>`)}</div>
      ${unrunnable ? html`<p class="editor-note" role="status">${ico("triangle-alert")}<span>${unrunnable}</span></p>` : nothing}
      <div class="grow editor-box"><wm-code id="step-code" language=${v.language} label="Code of step ${m.id}" .value=${v.content ?? ""} .diagnostics=${e.diagnostics(m.id)} .completions=${e.codeCompletions} @input=${(ev) => { ev.stopPropagation(); if (ev.target.value !== model.find(e.value, m.id)?.module.value.content) on.set(["value", "content"], ev.target.value, { typing: true, keepEmpty: true }); }} @wm-change=${() => e.infer(m.id)}><pre tabindex="0">${v.content}</pre></wm-code></div>
      ${problem ? html`<p class="editor-problem" role="status">${ico("triangle-alert")}<span>${problem}</span></p>` : nothing}</div>`;
  }
  #callee(m) {
    const e = this.editor, v = m.value, found = e.callee(m), what = v.type === "flow" ? "flow" : "script";
    if (!v.path) return html`<div class="fi-body pad"><div class="empty-state"><p>Which ${what} shall run here?</p><button type="button" class="btn primary" @click=${() => e.act("choose", m.id)}>Choose a ${what}</button></div></div>`;
    const head = html`<div class="fi-callee"><span class="mono clip">${v.path}</span>${found.state === "ready" ? html`<a class="btn ghost icon sm" href=${found.url} target="_blank" aria-label="Open ${v.path} in a new tab">${ico("external-link")}</a>` : nothing}<span class="grow"></span><button type="button" class="btn sm" @click=${() => e.act("choose", m.id)}>Change</button></div>`;
    if (found.state !== "ready") return html`<div class="fi-body pad stack">${head}${found.state === "loading" ? html`<div class="skeleton"></div>` : html`<div class="notice fail">${ico("triangle-alert")}<div><strong>It cannot be shown</strong><p>${found.message}</p></div></div>`}</div>`;
    if (what === "flow") return html`<div class="fi-body pad stack">${head}<p>${found.summary}</p><p class="help">Runs as a flow of its own, with these inputs; always the version that is live then.</p></div>`;
    const pinned = Boolean(v.hash);
    return html`<div class="fi-code"><div class="fi-bar">${head}<div class="row"><label class="switch"><input type="checkbox" role="switch" .checked=${live(pinned)} @change=${(ev) => this.#on(m.id).set(["value", "hash"], ev.target.checked ? found.headHash : undefined)}><b>Pin this version</b></label><code class="dim">${found.hash.slice(0, 8)}</code>${pinned && found.hash !== found.headHash ? html`<span class="tag warn">a newer one is live</span><button type="button" class="btn ghost sm" @click=${() => this.#on(m.id).set(["value", "hash"], found.headHash)}>Take it</button>` : nothing}<span class="grow"></span><button type="button" class="btn sm" @click=${() => e.act("fork", m.id)}>${ico("git-fork")}Fork inline</button></div></div>
      <div class="grow editor-box"><wm-code readonly language=${found.language} label="Code of ${v.path}" .value=${found.content}><pre tabindex="0">${found.content}</pre></wm-code></div></div>`;
  }
  #branches(m, on) {
    const e = this.editor, v = m.value, one = v.type === "branchone", all = v.branches || [];
    return html`<div class="fi-body pad stack">${one ? html`<p class="help">The first branch whose condition is true runs; without one, the default.</p>` : toggle(on, ["value", "parallel"], "Branches at the same time", { keepFalse: true })}
      <ol class="fi-branches">${all.map((b, i) => html`<li class="fi-branch"><div class="row"><b>Branch ${i + 1}</b><span class="dim">${(b.modules || []).length} step${(b.modules || []).length === 1 ? "" : "s"}</span><span class="grow"></span>
        <button type="button" class="btn ghost icon sm" aria-label="Move branch ${i + 1} up" ?disabled=${i === 0} @click=${() => e.change(model.moveBranch(e.value, m.id, i, -1))}>${ico("arrow-up")}</button><button type="button" class="btn ghost icon sm" aria-label="Move branch ${i + 1} down" ?disabled=${i === all.length - 1} @click=${() => e.change(model.moveBranch(e.value, m.id, i, 1))}>${ico("arrow-down")}</button><button type="button" class="btn ghost icon sm" aria-label="Remove branch ${i + 1}" @click=${() => e.change(model.removeBranch(e.value, m.id, i))}>${ico("trash-2")}</button></div>
        <div class="fi-fields">${text(on, ["value", "branches", i, "summary"], "Name", { wide: true })}${one ? expression(on, ["value", "branches", i, "expr"], `Condition of branch ${i + 1}`, { placeholder: "flow_input.amount > 100" }) : html`${toggle(on, ["value", "branches", i, "skip_failure"], "Its failure does not matter", { keepFalse: true })}`}</div></li>`)}
        ${one ? html`<li class="fi-branch"><div class="row"><b>Default</b><span class="dim">${(v.default || []).length} step${(v.default || []).length === 1 ? "" : "s"}</span></div></li>` : nothing}</ol>
      <div><button type="button" class="btn sm" @click=${() => e.change(model.addBranch(e.value, m.id))}>${ico("plus")}Add a branch</button></div></div>`;
  }

  #inputs(m) {
    this.editor.infer(m.id); // what was typed last, should its editor be gone already
    const e = this.editor, schema = e.schemaOf(m), on = this.#on(m.id), given = m.value.input_transforms || {};
    if (!schema) return html`<div class="fi-body pad"><p class="help">${m.value.path ? "The inputs are not known yet." : "Choose what to run first."}</p></div>`;
    const all = names(schema), other = Object.keys(given).filter((k) => !all.includes(k));
    if (!all.length && !other.length) return html`<div class="fi-body pad"><p class="help">It takes no inputs. ${m.value.type === "rawscript" ? "Give the function parameters, and they appear here." : ""}</p></div>`;
    return html`<div class="fi-body pad fi-inputs">${all.map((name) => {
      const s = schema.properties[name];
      return html`<wm-flow-transform .key=${`s-${m.id}-${name}`} .name=${name} .label=${s.title || name} .schema=${s} .required=${(schema.required || []).includes(name)} .value=${given[name]} .note=${given[name]?.type === "javascript" ? s.description : ""} .resourcesUrl=${e.known.resourcesUrl} .completions=${e.completions} @wm-transform=${(ev) => on.set(["value", "input_transforms", name], ev.detail.value, { typing: true })}></wm-flow-transform>`;
    })}${other.length ? html`<div class="notice warn">${ico("triangle-alert")}<div><strong>Not inputs any more: ${other.join(", ")}</strong><p>They are passed all the same.</p></div><button type="button" class="btn sm" @click=${() => on.set(["value", "input_transforms"], Object.fromEntries(Object.entries(given).filter(([k]) => all.includes(k))), { keepEmpty: true })}>Take out</button></div>` : nothing}</div>`;
  }

  #test(m, code) {
    this.editor.infer(m.id);
    const e = this.editor, schema = e.schemaOf(m) || { type: "object", properties: {} }, test = e.testOf(m.id);
    return html`<div class="fi-body pad stack">
      <div class="row"><button type="button" class="btn" @click=${() => this.#run("upto", m.id)}>${ico("play")}Test the flow up to here</button></div>
      ${code && m.id !== "preprocessor" ? html`<h3>This step alone</h3><p class="help">${test.note}</p>
        <div class="row"><button type="button" class="btn sm" ?disabled=${!test.canFill} @click=${async () => { const args = await e.evaluate(m.id); if (args) { this.#tests.set(m.id, args); this.querySelector("#step-args").value = args; } }}>${ico("history")}Inputs from the last test</button></div>
        <wm-schema-form id="step-args" .schema=${schema} .value=${this.#startArgs(m)} resources-url=${e.known.resourcesUrl} @wm-input=${(ev) => { ev.stopPropagation(); this.#tests.set(m.id, ev.detail.value); }}></wm-schema-form>
        <div class="row"><span class="grow"></span><button type="button" class="btn primary" @click=${() => { const form = this.querySelector("#step-args"); if (form.validate()) this.#run("step", m.id, form.value); }}>${ico("play")}Test this step</button></div>` : nothing}</div>`;
  }
  #begin = new Map();
  /** The form's first value, the same object each time: what was typed before, else the fixed values. */
  #startArgs(m) {
    if (!this.#begin.has(m.id)) this.#begin.set(m.id, this.#tests.get(m.id) || Object.fromEntries(Object.entries(m.value.input_transforms || {}).filter(([, t]) => t?.type === "static" && t.value !== undefined).map(([k, t]) => [k, t.value])));
    return this.#begin.get(m.id);
  }
  #run(what, id, args) { this.dispatchEvent(new CustomEvent("wm-test", { bubbles: true, detail: { what, id, args } })); }
}

/** Required inputs that have no value. */
function missing(m, schema) {
  return (schema?.required || []).filter((name) => {
    const t = m.value.input_transforms?.[name];
    return !t || (t.type === "static" ? t.value === undefined || t.value === null : t.type === "javascript" && !t.expr?.trim());
  });
}
/** `object` with `v` at `path`; undefined, null and "" take it out, and objects that become empty with it. */
function put(object, path, v, keepEmpty) {
  const [key, ...rest] = path;
  if (!rest.length) return keepEmpty && v === "" ? { ...object, [key]: v } : Array.isArray(object) ? object.with(key, v) : model.assign(object, key, v);
  const inner = put(object?.[key] ?? {}, rest, v, keepEmpty);
  const optional = ["retry", "constant", "exponential", "retry_if", "skip_if", "stop_after_if", "stop_after_all_iters_if"].includes(key);
  const gone = optional && (!Object.keys(inner).length || (rest[0] === "expr" && !inner.expr?.trim()));
  return Array.isArray(object) ? object.with(key, inner) : model.assign(object, key, gone ? undefined : inner);
}
customElements.define("wm-flow-inspector", FlowInspector);
