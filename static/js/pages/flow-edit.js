// The flow editor: the graph, the panel of what is selected, tests below. The flow is one immutable document; every
// change is a new one (flow-model.js), so undo is a list of documents and nothing is drawn that did not change.
import "../elements/flow-graph.js";
import "../elements/flow-inspector.js";
import { toast } from "../app.js";
import { copy, csrf, icon, json, send } from "../dom.js";
import * as model from "../flow-model.js";
import { title } from "../flow-module.js";
import { initial, names } from "../schema.js";
import { pathCompletions } from "../workspace-paths.js";
import { picker } from "./flow-edit-picker.js";
import { tester } from "./flow-edit-test.js";

const AUTOSAVE = 2000; // ms without a change before the draft is kept
const CHECK = 600; // ms without a change before the server checks the flow
const DRAW = 180; // ms without typing before the graph follows
const state = json("editor-state"), urls = state.urls;
const $ = (id) => document.getElementById(id);
const graph = $("graph"), panel = $("panel");
const EMPTY = { type: "object", properties: {}, required: [], order: [] };

// --- the document ---
/** A schema with all parts that the editor counts on; what is there keeps its order. */
const whole = (schema) => ({ ...schema, ...Object.fromEntries(Object.entries(EMPTY).filter(([k]) => !schema?.[k])) });
const { path: movedTo, ...given } = state.value; // a draft of a deployed flow may be for another path
const begin = { summary: "", description: "", ...given, value: { modules: [], ...given.value }, schema: whole(given.schema) };
const history = new model.History(begin);
let selected = null, path = movedTo || state.path, savedPath = state.draftSavedAt ? path : null, base = state.base;
let serverProblems = [], problems = [], saved = begin, stopLeaving = false;
const doc = () => history.present;
const value = () => doc().value;

/** Makes `next` the document. Changes with the same tag in quick succession (typing) are one step of undo. */
function change(next, { tag = null } = {}) {
  if (next === doc()) return;
  history.push(next, { tag, aside: selected });
  follow(tag !== null);
}
const changeFlow = (flow, options) => change(flow === value() ? doc() : { ...doc(), value: flow }, options);
function set(where, v, options) {
  const [key, ...rest] = where;
  change(rest.length ? { ...doc(), [key]: rest.reduceRight((inner, k, i) => { const host = model.at(doc()[key], rest.slice(0, i)) || {}; return i === rest.length - 1 ? model.assign(host, k, v) : { ...host, [k]: inner }; }, null) } : v === undefined ? model.assign(doc(), key, v) : { ...doc(), [key]: v }, options);
}

// --- what follows a change ---
let drawTimer = 0, checkTimer = 0, saveTimer = 0;
function follow(typing) {
  clearTimeout(drawTimer);
  if (typing) drawTimer = setTimeout(draw, DRAW); else draw();
  panel.refresh();
  $("undo").disabled = !history.canUndo;
  $("redo").disabled = !history.canRedo;
  $("editor-title").textContent = doc().summary || (state.isNew ? "New flow" : path);
  clearTimeout(checkTimer);
  checkTimer = setTimeout(check, CHECK);
  touched();
}
function draw() {
  clearTimeout(drawTimer);
  graph.value = value();
  findProblems();
}
function findProblems() {
  const quick = model.problems(value()), seen = new Set(quick.map((p) => `${p.id} ${p.message}`));
  problems = [...quick, ...serverProblems.filter((p) => !seen.has(`${p.id} ${p.message}`) && !quick.some((q) => q.id === p.id && q.level === "error"))];
  const errors = {};
  for (const p of problems) if (p.id && p.level === "error") errors[p.id] ??= p.message;
  if (JSON.stringify(errors) !== JSON.stringify(graph.errors)) graph.errors = errors;
  const count = problems.filter((p) => p.level === "error").length, doubts = problems.length - count;
  const button = $("problems-button");
  button.hidden = !problems.length;
  button.classList.toggle("bad", count > 0);
  button.querySelector("span").textContent = count ? `${count} problem${count === 1 ? "" : "s"}` : `${doubts} doubt${doubts === 1 ? "" : "s"}`;
  const list = $("problems");
  list.replaceChildren(...problems.map((p) => {
    const item = document.createElement("li"), go = Object.assign(document.createElement("button"), { type: "button" });
    go.append(icon(p.level === "error" ? "circle-x" : "triangle-alert"), Object.assign(document.createElement("span"), { textContent: `${p.id ? `${p.id}: ` : ""}${p.message}` }));
    go.addEventListener("click", () => { list.hidePopover(); showGraph(true); select(p.id); });
    item.append(go);
    return item;
  }));
  panel.refresh();
}
let checks = 0;
async function check() {
  const turn = ++checks, checked = value();
  try {
    const { problems: found } = await (await send(urls.check, { data: { value: checked } })).json();
    if (turn !== checks) return;
    serverProblems = found.map((p) => ({ id: model.moduleAt(checked, p.place), place: p.place, message: p.message, level: "error" }));
    findProblems();
  } catch { /* the next change asks again; deploying says what is wrong */ }
}

// --- selection ---
function select(id, { reveal = true } = {}) {
  selected = id && model.find(value(), id) ? id : null;
  graph.selected = selected ?? undefined;
  $("flow-button").setAttribute("aria-pressed", String(!selected));
  panel.refresh();
  tests.choose(selected);
  if (selected && reveal) graph.updateComplete.then(() => graph.reveal(selected));
}
/** After the tree changed: choose a step and put the cursor on it. */
async function settle(id) {
  draw();
  select(id, { reveal: false });
  await graph.updateComplete;
  if (id) graph.reveal(id, { focus: true });
}
graph.addEventListener("wm-select", (e) => select(e.detail.id, { reveal: false }));
graph.addEventListener("wm-open", () => panel.querySelector(".fi-summary")?.focus());
$("flow-button").addEventListener("click", () => select(null));

// --- undo ---
function travel(back) {
  const before = doc(), aside = back ? history.undo() : history.redo();
  if (doc() === before) return;
  follow(false);
  if (selected && !model.find(value(), selected)) select(model.find(value(), aside) ? aside : null);
  else if (back && aside !== undefined && aside !== selected && model.find(value(), aside)) select(aside);
  else select(selected, { reveal: false });
  if (yamlShown) fillYaml().then(() => { yamlTyped = yaml.value; });
}
$("undo").addEventListener("click", () => travel(true));
$("redo").addEventListener("click", () => travel(false));
graph.addEventListener("wm-flow-undo", () => travel(true));
graph.addEventListener("wm-flow-redo", () => travel(false));

// --- adding ---
let slot = null; // {list, index}: where the next step goes
const addMenu = $("add-menu");
for (const [kind, ico, name, hint] of model.KINDS) {
  const item = document.createElement("li"), button = Object.assign(document.createElement("button"), { type: "button" }), words = document.createElement("span");
  words.append(name, Object.assign(document.createElement("small"), { textContent: hint }));
  button.append(icon(ico), words);
  button.addEventListener("click", () => { addMenu.hidePopover(); addStep(kind); });
  item.append(button);
  addMenu.append(item);
}
addMenu.addEventListener("keydown", (e) => {
  const all = [...addMenu.querySelectorAll("button")], i = all.indexOf(document.activeElement), to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: all.length - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  all[(to + all.length) % all.length].focus();
});
function askKind(place, anchor) {
  slot = place;
  addMenu.showPopover({ source: anchor });
  addMenu.querySelector("button").focus(); // at once: the next key is for the menu
}
graph.addEventListener("wm-flow-add", (e) => askKind({ list: e.detail.list, index: e.detail.index }, e.detail.anchor));
$("add-first").addEventListener("click", (e) => askKind(after(selected), e.currentTarget));
/** The place after a step, or at the end of the flow. */
function after(id) {
  const entry = id && model.find(value(), id);
  return entry?.list ? { list: entry.list, index: entry.index + 1 } : { list: ["modules"], index: value().modules.length };
}
const starterOf = (language) => state.languages.languages.find((l) => l.id === language)?.starter ?? "";
async function addStep(kind) {
  if (kind === "script" || kind === "flow") return choose(kind, async (found) => {
    const id = model.nextId(value());
    changeFlow(model.insert(value(), slot, model.newModule(kind, id, { path: found.path, summary: found.summary })));
    await settle(id);
    panel.show("inputs");
    await fillInputs(id);
  });
  const id = model.nextId(value());
  changeFlow(model.insert(value(), slot, model.newModule(kind, id, { starter: starterOf(kind) })), { tag: `${id}:value.content` }); // one step of undo, with its inputs
  panel.show("code");
  await settle(id);
  if (starterOf(kind) || kind === "approval") infer(id);
}

// --- scripts and flows of the workspace ---
let chosen = null, chooseKind = "script", chooseTimer = 0;
function choose(kind, then) {
  chosen = then;
  chooseKind = kind;
  $("choose-title").textContent = kind === "flow" ? "Choose a flow" : "Choose a script";
  $("choose-filter").value = "";
  $("choose-list").replaceChildren();
  $("choose-dialog").showModal();
  $("choose-filter").focus();
  search();
}
async function search() {
  const text = $("choose-filter").value, kind = chooseKind;
  const answer = await fetch(`${urls.find}?kind=${kind}&q=${encodeURIComponent(text)}`);
  if (text !== $("choose-filter").value || kind !== chooseKind) return;
  const { items, more } = answer.ok ? await answer.json() : { items: [], more: false };
  $("choose-list").replaceChildren(...items.map((found) => {
    const item = document.createElement("li"), button = Object.assign(document.createElement("button"), { type: "button" });
    button.append(Object.assign(document.createElement("span"), { className: "mono clip", textContent: found.path }));
    if (found.summary) button.append(Object.assign(document.createElement("small"), { className: "clip", textContent: found.summary }));
    button.addEventListener("click", () => { $("choose-dialog").close(); chosen(found); });
    item.append(button);
    return item;
  }));
  $("choose-note").hidden = items.length > 0 && !more;
  $("choose-note").textContent = more ? "There are more: type to narrow them down." : text ? "Nothing is called so." : `There is no ${kind} that you may use yet.`;
}
$("choose-filter").addEventListener("input", () => { clearTimeout(chooseTimer); chooseTimer = setTimeout(search, 150); });
$("choose-filter").addEventListener("keydown", (e) => {
  if (e.key === "Enter") { e.preventDefault(); $("choose-list").querySelector("button")?.click(); }
  if (e.key === "ArrowDown") { e.preventDefault(); $("choose-list").querySelector("button")?.focus(); }
});
$("choose-list").addEventListener("keydown", (e) => {
  const all = [...$("choose-list").querySelectorAll("button")], to = all[all.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[e.key] ?? NaN)];
  if (to) { e.preventDefault(); to.focus(); } else if (e.key === "ArrowUp") $("choose-filter").focus();
});

const callees = new Map(); // "script path hash" -> {state, …}
function callee(module) {
  const v = module.value, key = `${v.type} ${v.path} ${v.hash || ""}`;
  if (!callees.has(key)) {
    callees.set(key, { state: "loading" });
    callees.get(key).done = fetch(`${urls.callee}?kind=${v.type}&path=${encodeURIComponent(v.path)}${v.hash ? `&hash=${encodeURIComponent(v.hash)}` : ""}`)
      .then(async (r) => callees.set(key, r.ok ? { state: "ready", ...(await r.json()) } : { state: "missing", message: await r.text() }))
      .catch((error) => callees.set(key, { state: "missing", message: error.message }))
      .finally(() => panel.refresh());
  }
  return callees.get(key);
}
/** Fixed values for inputs that a script or flow has and the step does not give yet. */
async function fillInputs(id) {
  const module = model.find(value(), id)?.module;
  if (!module?.value.path) return;
  await callee(module).done;
  const found = callee(module), now = model.find(value(), id)?.module;
  if (found.state === "ready" && now) changeFlow(model.setModule(value(), id, (m) => ({ ...m, value: { ...m.value, input_transforms: filled(m.value.input_transforms, found.schema) } })), { tag: `fill ${id}` });
}
function filled(given = {}, schema) {
  const next = { ...given };
  for (const name of names(schema || {})) if (!(name in next)) {
    const v = initial(schema.properties[name], (schema.required || []).includes(name));
    next[name] = v === undefined ? { type: "static" } : { type: "static", value: v };
  }
  return next;
}

// --- inline code: its inputs follow it ---
const inferred = new Map(); // id -> {key: language and code, schema, problem}
const gone = new Map(); // id -> transforms of inputs that the code lost: while typing they often come back
async function infer(id) {
  const module = model.find(value(), id)?.module;
  if (module?.value.type !== "rawscript") return;
  const { content, language } = module.value, key = `${language}\n${content}`, last = inferred.get(id);
  if (last?.key === key) return;
  inferred.set(id, { ...last, key });
  let found;
  try { found = await (await send(urls.signature, { data: { language, content, schema: last?.schema } })).json(); } catch { inferred.delete(id); return; }
  if (inferred.get(id)?.key !== key) return;
  inferred.set(id, { key, schema: found.problem ? last?.schema : found.schema, problem: found.problem });
  const now = model.find(value(), id)?.module;
  if (!found.problem && now && found.isSupported && id !== "preprocessor") {
    const wanted = names(found.schema), before = now.value.input_transforms || {}, lost = gone.get(id) || {};
    for (const [k, t] of Object.entries(before)) if (!wanted.includes(k)) lost[k] = t;
    gone.set(id, lost);
    const kept = Object.fromEntries(wanted.filter((k) => k in before || k in lost).map((k) => [k, before[k] ?? lost[k]]));
    const next = filled(kept, found.schema);
    if (JSON.stringify(sorted(next)) !== JSON.stringify(sorted(before))) changeFlow(model.setModule(value(), id, (m) => ({ ...m, value: { ...m.value, input_transforms: next } })), { tag: `${id}:value.content` });
  }
  panel.refresh();
}
const diagnosed = new Map(); // id -> [problem, diagnostics]: the same list for the same problem
function diagnostics(id) {
  const problem = inferred.get(id)?.problem ?? null;
  if (diagnosed.get(id)?.[0] !== problem) diagnosed.set(id, [problem, problem ? [{ line: problem.line, column: problem.column, message: problem.message }] : []]);
  return diagnosed.get(id)?.[1] ?? NONE;
}
const NONE = [];
function schemaOf(module) {
  const v = module.value;
  if (v.type === "rawscript") {
    if (!inferred.has(module.id)) { infer(module.id); return null; }
    return inferred.get(module.id).schema ?? null;
  }
  if ((v.type === "script" || v.type === "flow") && v.path) return callee(module).schema ?? null;
  return null;
}

// --- acting on steps ---
const memory = { text: null }; // what was copied, when the browser keeps its clipboard from us
async function act(name, id) {
  const entry = id ? model.find(value(), id) : null;
  switch (name) {
    case "remove": {
      if (!entry) return;
      const next = entry.list ? (model.at(value(), [...entry.list, entry.index + 1]) || model.at(value(), [...entry.list, entry.index - 1]) || entry.parents.at(-1))?.id ?? null : null;
      changeFlow(model.remove(value(), id));
      await settle(next);
      toast(`Removed ${entry.module.summary || id}. Ctrl-Z brings it back.`);
      return;
    }
    case "up": case "down": case "left": case "right": {
      const to = model.neighbour(value(), id, name);
      if (to) { changeFlow(model.move(value(), id, to)); await settle(id); }
      return;
    }
    case "duplicate": { const made = model.duplicate(value(), id); changeFlow(made.value); return settle(made.id); }
    case "copy": case "cut":
      if (!entry || entry.special) return;
      memory.text = model.toClipboard(entry.module);
      await copy(memory.text, `${name === "cut" ? "Cut" : "Copied"} step ${id}`);
      if (name === "cut") { changeFlow(model.remove(value(), id)); await settle(null); }
      return;
    case "paste": {
      const text = await navigator.clipboard?.readText?.().catch(() => null);
      const module = model.fromClipboard(text ?? "") || model.fromClipboard(memory.text ?? "");
      if (!module) return toast("There is no step in the clipboard");
      const fresh = model.renewed(value(), module);
      changeFlow(model.insert(value(), after(id), fresh));
      return settle(fresh.id);
    }
    case "open": return select(id);
    case "add": changeFlow({ ...value(), [`${id}_module`]: id === "failure" ? model.failureModule() : model.preprocessorModule() }); panel.show("code"); return settle(id);
    case "choose": return choose(entry.module.value.type, (found) => {
      changeFlow(model.setModule(value(), id, (m) => ({ ...m, summary: m.summary || found.summary || "", value: { ...model.assign(m.value, "hash"), path: found.path } })));
      fillInputs(id);
    });
    case "fork": {
      const found = callee(entry.module);
      changeFlow(model.setModule(value(), id, (m) => ({ ...m, value: { type: "rawscript", language: found.language, content: found.content, input_transforms: m.value.input_transforms || {}, ...(m.value.tag_override ? { tag: m.value.tag_override } : {}) } })));
      infer(id);
      return toast(`Step ${id} now has code of its own`);
    }
    case "variable": case "resource": return picks.insertCall(name, id);
  }
}
for (const name of ["remove", "copy", "cut", "paste"]) graph.addEventListener(`wm-flow-${name}`, (e) => act(name, e.detail.id));
graph.addEventListener("wm-flow-shift", (e) => act(e.detail.by < 0 ? "up" : "down", e.detail.id));
graph.addEventListener("wm-flow-move", (e) => { changeFlow(model.move(value(), e.detail.id, e.detail)); settle(e.detail.id); });
graph.addEventListener("keydown", (e) => {
  const id = e.target.closest?.(".fg-node")?.dataset.id;
  if (!id || e.ctrlKey || e.metaKey) return;
  if (e.altKey && (e.key === "ArrowLeft" || e.key === "ArrowRight")) { e.preventDefault(); act(e.key === "ArrowLeft" ? "left" : "right", id); }
  if (!e.altKey && e.key === "Insert") { e.preventDefault(); askKind(after(id), e.target.closest(".fg-node")); }
});

// --- the panel ---
const known = { groups: state.groups, tags: state.tags, resourcesUrl: state.resourcesUrl, isNew: state.isNew, get path() { return path; }, setPath(to) { path = to; touched(); panel.refresh(); } };
const editor = {
  get doc() { return doc(); }, get value() { return value(); }, get selected() { return selected; }, get problems() { return problems; }, known,
  change: changeFlow, set, select, act, callee, schemaOf, infer, diagnostics, completions: (before) => picks.complete(before), languages: state.languages,
  codeCompletions: pathCompletions(urls.paths, () => ({ language: selected && model.find(value(), selected)?.module.value.language, path: `${path}/${selected}` })),
  codeProblem: (id) => { const p = inferred.get(id)?.problem; return p ? `Line ${p.line}: ${p.message}` : ""; },
  language(id, language) {
    const isUntouched = (content) => !content?.trim() || state.languages.languages.some((l) => l.starter === content);
    changeFlow(model.setModule(value(), id, (m) => ({ ...m, value: { ...m.value, language, content: isUntouched(m.value.content) ? starterOf(language) : m.value.content } })));
    infer(id);
  },
  rename(id, to) {
    changeFlow(model.rename(value(), id, to));
    for (const map of [inferred, gone]) if (map.has(id)) { map.set(to, map.get(id)); map.delete(id); }
    select(to);
    toast(`Step ${id} is called ${to} now; expressions that read it follow`);
  },
  addTool: (id) => choose("script", async (found) => {
    const tool = found.path.split("/").pop().replace(/\W/g, "_");
    changeFlow(model.setModule(value(), id, (m) => ({ ...m, value: { ...m.value, tools: [...(m.value.tools || []), { id: model.nextId(value(), new Set((m.value.tools || []).map((t) => t.id))), summary: tool, value: { tool_type: "flowmodule", type: "script", path: found.path, input_transforms: {} } }] } })));
  }),
  testOf: (id) => tests.about(id), evaluate: (id) => tests.evaluate(id),
};
const picks = picker({ $, urls, editor, state });
const tests = tester({ $, urls, editor, graph, state, form: $("args"), getPath: () => path, showPanel: (tab) => panel.show(tab), select });
panel.editor = editor;
panel.addEventListener("wm-pick", (e) => picks.open(e.detail.into));
panel.addEventListener("wm-test", (e) => (e.detail.what === "step" ? tests.step(e.detail.id, e.detail.args) : tests.flow({ upTo: e.detail.id })));
panel.addEventListener("wm-run", () => (selected ? tests.flow({ upTo: selected }) : tests.flow()));
panel.addEventListener("wm-save", () => save());

// --- graph or YAML ---
let yamlShown = false, yamlFor = null, yamlProblem = null, converting = 0;
const yaml = Object.assign(document.createElement("wm-code"), { id: "yaml" }); // joins the page when it is first shown
for (const [k, v] of [["language", "yaml"], ["label", "The flow as YAML"]]) yaml.setAttribute(k, v);
const forYaml = () => Object.fromEntries(Object.entries(doc()).filter(([, v]) => v !== null && v !== "" && v !== undefined));
async function fillYaml() {
  const shown = doc();
  try {
    const { text } = await (await send(urls.yaml, { data: { value: forYaml() } })).json();
    if (shown !== doc()) return fillYaml();
    yamlFor = shown;
    if (yaml.value !== text) yaml.value = text;
    yamlSays(null);
  } catch (error) { toast(`The YAML could not be made. ${error.message}`, { level: "error" }); }
}
function yamlSays(problem) {
  yamlProblem = problem;
  yaml.diagnostics = problem ? [{ line: problem.line || 1, column: problem.column || undefined, message: problem.message }] : [];
  $("yaml-problem").hidden = !problem;
  $("yaml-problem").querySelector("span").textContent = problem ? `${problem.line ? `Line ${problem.line}: ` : ""}${problem.message}` : "";
}
let yamlTyped = null; // the text as it was read last
async function readYaml() {
  if (!yamlShown || yaml.value === yamlTyped) return;
  const text = yaml.value, turn = ++converting;
  let answer;
  try { answer = await (await send(urls.yaml, { data: { text } })).json(); } catch (error) { return yamlSays({ message: error.message }); }
  if (turn !== converting) return;
  yamlTyped = text;
  yamlSays(answer.problem || null);
  if (answer.problem) return;
  const fault = model.malformed(answer.value.value);
  if (fault) return yamlSays({ message: fault });
  answer.value.value = model.withIds(answer.value.value);
  const next = { ...Object.fromEntries(["summary", "description", "tag", "timeout", "priority", "labels", "dedicated_worker"].map((k) => [k, answer.value[k] ?? (k === "summary" || k === "description" ? "" : null)])), value: answer.value.value, schema: whole(answer.value.schema) };
  if (JSON.stringify(sorted(next)) === JSON.stringify(sorted(doc()))) return;
  yamlFor = next;
  change(next, { tag: "yaml" });
  if (selected && !model.find(value(), selected)) select(null);
}
const sorted = (v) => (Array.isArray(v) ? v.map(sorted) : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).filter(([, x]) => x !== null && x !== undefined && x !== "").sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, x]) => [k, sorted(x)])) : v);
yaml.addEventListener("wm-change", readYaml);
yaml.addEventListener("input", () => { if (yamlFor !== null) say("Unsaved changes", "dirty"); });
yaml.addEventListener("wm-save", async () => { await readYaml(); save(); });
async function showGraph(on) {
  if (on === !yamlShown) return;
  if (on) await readYaml();
  else { await fillYaml(); yamlTyped = yaml.value; }
  yamlShown = !on;
  $("as-graph").setAttribute("aria-pressed", String(on));
  $("as-yaml").setAttribute("aria-pressed", String(!on));
  $("graph-pane").hidden = !on;
  $("yaml-pane").hidden = on;
  if (!on && !yaml.isConnected) $("yaml-box").append(yaml);
  if (!on) yaml.focus(); else if (yamlProblem) toast("The YAML cannot be read; the graph shows what could be read last", { level: "error" });
}
$("as-graph").addEventListener("click", () => showGraph(true));
$("as-yaml").addEventListener("click", () => showGraph(false));

// --- the draft ---
let saving = null, savedAt = path;
function say(text, kind) {
  const chip = $("draft-state");
  chip.dataset.state = kind;
  chip.textContent = text;
  if (kind === "saved" || kind === "clean") chip.prepend(icon("check"));
}
function touched() {
  clearTimeout(saveTimer);
  if (doc() === saved && path === savedAt) return say(savedPath ? "Draft saved" : state.head ? "As deployed" : "Not deployed", "clean");
  say("Unsaved changes", "dirty");
  saveTimer = setTimeout(save, AUTOSAVE);
}
const where = () => (state.isNew ? path : state.path); // a draft of a deployed flow stays with it until it is moved
const draftBody = () => ({ path: where(), was: savedPath, base, value: { ...doc(), ...(path === where() ? {} : { path }) } });
async function save() {
  clearTimeout(saveTimer);
  if (saving) await saving.catch(() => {});
  const kept = doc(), at = path, to = where();
  if (kept === saved && at === savedAt && savedPath === to) return true;
  say("Saving…", "saving");
  saving = send(urls.draft, { data: draftBody() });
  try {
    await saving;
    savedPath = to;
    savedAt = at;
    saved = kept;
    say("Draft saved", "saved");
    const address = `${urls.flows}${to.split("/").map(encodeURIComponent).join("/")}/edit/`;
    if (state.isNew && location.pathname !== address) window.history.replaceState(null, "", address);
    if (doc() !== saved) touched();
    return true;
  } catch (error) {
    say("Draft not saved", "failed");
    toast(`The draft was not saved. ${error.message}`, { level: "error" });
    return false;
  } finally { saving = null; }
}
/** The page goes away: what is not kept yet travels on its own. */
function leave() {
  if (stopLeaving || (doc() === saved && path === savedAt)) return;
  const body = JSON.stringify(draftBody());
  fetch(urls.draft, { method: "POST", keepalive: body.length < 60000, headers: { "X-CSRFToken": csrf(), "Content-Type": "application/json" }, body });
  saved = doc();
  savedAt = path;
}
addEventListener("pagehide", leave);
document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); });
$("save").addEventListener("click", async () => { if (yamlShown) await readYaml(); if (await save()) toast("Draft saved"); });
$("discard")?.addEventListener("click", async () => {
  await send(urls.discard, { data: { path: where() } });
  stopLeaving = true;
  location.assign(state.isNew ? `${urls.flows}new/` : location.pathname);
});

// --- path of a new flow ---
const owner = $("path-owner"), name = $("path-name");
for (const field of [owner, name]) field?.addEventListener("input", () => {
  if (!name.reportValidity()) return;
  path = `${owner.value}/${name.value}`;
  touched();
});

// --- differences, deploying ---
const asText = async (v) => (v ? (await (await send(urls.yaml, { data: { value: Object.fromEntries(Object.entries(v).filter(([, x]) => x !== null && x !== "" && x !== undefined)) } })).json()).text : "");
async function drawDiff(host, before, after, beforeLabel, afterLabel) {
  await import("../elements/diff.js");
  const diff = document.createElement("wm-diff");
  for (const [k, v] of Object.entries({ language: "yaml", "before-label": beforeLabel, "after-label": afterLabel })) diff.setAttribute(k, v);
  diff.before = before;
  diff.after = after;
  host.replaceChildren(diff);
}
async function compare(afterLabel, beforeLabel) {
  if (yamlShown) await readYaml();
  const [before, after] = await Promise.all([asText(state.deployed), asText(forYaml())]);
  $("compare-dialog").showModal();
  drawDiff($("compare-diff"), before, after, beforeLabel, afterLabel);
}
$("compare")?.addEventListener("click", () => compare("Editor", "Deployed"));
$("see-other")?.addEventListener("click", () => compare("Your draft", `Deployed by ${state.head.by}`));
$("deploy").addEventListener("click", async () => {
  if (name && !name.reportValidity()) return;
  if (yamlShown) await readYaml();
  if (yamlProblem) return toast("The YAML cannot be read; correct it first", { level: "error" });
  $("deploy-problem").hidden = true;
  $("deploy-path").textContent = path;
  const errors = problems.filter((p) => p.level === "error");
  $("deploy-note").textContent = errors.length ? `${errors.length} problem${errors.length === 1 ? "" : "s"} to solve first, among them: ${errors[0].id ? `step ${errors[0].id}: ` : ""}${errors[0].message}` : state.deployed ? (path !== state.path ? `The flow moves from ${state.path} to ${path}.` : "") : "The first version of this flow.";
  $("deploy-dialog").showModal();
  $("deploy-message").focus();
  const [before, after] = await Promise.all([asText(state.deployed), asText(forYaml())]);
  drawDiff($("deploy-diff"), before, after, state.deployed ? "Deployed" : "Nothing yet", "Editor");
});
$("deploy-message").addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); deploy(base); } });
$("deploy-now").addEventListener("click", () => deploy(base));
let other = null;
async function deploy(parent) {
  $("deploy-now").disabled = true;
  clearTimeout(saveTimer);
  try {
    const answer = await fetch(urls.deploy, { method: "POST", headers: { "X-CSRFToken": csrf(), "Content-Type": "application/json" }, body: JSON.stringify({ path, was: state.isNew ? "" : state.path, base: parent, value: doc(), message: $("deploy-message").value }) });
    if (answer.status === 409 && answer.headers.get("content-type")?.includes("json")) return conflict(await answer.json());
    if (!answer.ok) throw new Error(await answer.text());
    const { url } = await answer.json();
    stopLeaving = true;
    if (savedPath && savedPath !== path) await send(urls.discard, { data: { path: savedPath } });
    location.assign(url);
  } catch (error) {
    $("deploy-problem").hidden = false;
    $("deploy-reason").textContent = error.message;
  } finally { $("deploy-now").disabled = false; }
}
async function conflict(theirs) {
  other = theirs;
  $("deploy-dialog").close();
  $("conflict-text").textContent = `${theirs.head.by} deployed version ${theirs.head.version} since you opened this flow${theirs.message ? ` (“${theirs.message}”)` : ""}. Below is their flow beside yours.`;
  $("conflict-dialog").showModal();
  drawDiff($("conflict-diff"), theirs.text, await asText(forYaml()), `Theirs, version ${theirs.head.version}`, "Yours");
}
$("overwrite").addEventListener("click", () => { $("conflict-dialog").close(); $("deploy-dialog").showModal(); deploy(other.head.version); });
$("take-theirs").addEventListener("click", async () => {
  await send(urls.discard, { data: { path: where() } });
  stopLeaving = true;
  location.assign(`${urls.flows}${path.split("/").map(encodeURIComponent).join("/")}/edit/`);
});

// --- keys of the whole page ---
document.addEventListener("keydown", (e) => {
  if (!(e.ctrlKey || e.metaKey) || e.defaultPrevented || document.querySelector("dialog[open]")) return;
  const key = e.key.toLowerCase(), typing = e.target.closest?.("input, textarea, select, wm-code, [contenteditable]");
  if (e.key === "Enter") { e.preventDefault(); tests.flow(); }
  else if (key === "s") { e.preventDefault(); save(); }
  else if (!typing && (key === "z" || key === "y")) { e.preventDefault(); travel(key === "z" && !e.shiftKey); }
  else if (!typing && key === "v" && !String(getSelection())) { e.preventDefault(); act("paste", selected); }
});

// --- begin ---
graph.value = value();
findProblems();
check();
performance.mark("flow-ready");
document.documentElement.dataset.flowReady = "";
