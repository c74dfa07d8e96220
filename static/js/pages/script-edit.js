// The script editor: the form follows the code, tests run it, drafts keep it, deploying makes it live.
import "../elements/code.js";
import "../elements/language-picker.js";
import "../elements/schema-form.js";
import "../elements/logs.js";
import "../elements/live.js";
import "../elements/result.js";
import { errorLine } from "../elements/result.js";
import { selectTab, toast } from "../app.js";
import { csrf, icon, json, send } from "../dom.js";
import { duration } from "../format.js";
import { canInsert, insertCall } from "../insert-call.js";
import { pathCompletions } from "../workspace-paths.js";

const AUTOSAVE = 2000; // ms without a change before the draft is kept
const BIG = 256 * 1024; // bytes of a result that is not loaded by itself
const state = json("editor-state"), urls = state.urls;
const $ = (id) => document.getElementById(id);
const code = $("code"), form = $("args"), language = $("language");
let schemaUsed = json("schema"); // the last one that could be read
let path = state.path, savedPath = state.draftSavedAt ? path : null, base = state.base;
let value = { kind: "script", ...state.value };
let stopLeaving = false; // set when the page is left on purpose

// --- what the editor holds ---
function collect() {
  const next = { ...value, content: code.value, language: language.value, schema: schemaUsed };
  for (const field of document.querySelectorAll("[data-setting]")) next[field.dataset.setting] = read(field);
  return (value = next);
}
function read(field) {
  const text = field.value.trim();
  switch (field.dataset.as) {
    case "number": return text === "" ? null : Number(text);
    case "list": { const list = text.split(",").map((x) => x.trim()).filter(Boolean); return list.length ? list : null; }
    case "flag": return field.checked || null;
    case "lines": { const list = text.split("\n").map((x) => x.trim()).filter(Boolean); return list.length ? list : null; }
    default: return ["tag", "concurrency_key"].includes(field.dataset.setting) ? text || null : field.value;
  }
}
/** JSON with empty values alike and without the schema, which follows from the code: to see whether anything changed. */
const essence = (v) => JSON.stringify(Object.fromEntries(Object.entries(v).filter(([k]) => k !== "schema").map(([k, x]) => [k, x === "" || (Array.isArray(x) && !x.length) ? null : x]).sort(([a], [b]) => (a < b ? -1 : 1))));

// --- the draft ---
let timer = 0, saving = null, lastSaved = null;
function say(text, kind) {
  const chip = $("draft-state");
  chip.dataset.state = kind;
  chip.textContent = text;
  if (kind === "saved" || kind === "clean") chip.prepend(icon("check"));
}
function changed() {
  if (lastSaved === null) return; // still starting
  const now = essence(collect()) + path;
  if (now === lastSaved) return;
  say("Unsaved changes", "dirty");
  clearTimeout(timer);
  timer = setTimeout(save, AUTOSAVE);
}
const draftBody = () => ({ path, was: savedPath, base, value: collect() });
async function save() {
  clearTimeout(timer);
  timer = 0;
  if (saving) await saving.catch(() => {});
  const kept = essence(collect()) + path, at = path;
  if (kept === lastSaved && savedPath === path) return true;
  say("Saving…", "saving");
  saving = send(urls.draft, { data: draftBody() });
  try {
    await saving;
    savedPath = at;
    lastSaved = kept;
    say("Draft saved", "saved");
    const address = `${urls.scripts}${at.split("/").map(encodeURIComponent).join("/")}/edit/`;
    if (state.isNew && location.pathname !== address) history.replaceState(null, "", address);
    if (essence(collect()) + path !== lastSaved) changed();
    return true;
  } catch (error) {
    say("Draft not saved", "failed");
    $("draft-state").title = error.message;
    toast(`The draft was not saved. ${error.message}`, { level: "error" });
    return false;
  } finally {
    saving = null;
  }
}
/** The page goes away: what is not kept yet travels on its own. */
function leave() {
  if (stopLeaving || lastSaved === null || essence(collect()) + path === lastSaved) return;
  const body = JSON.stringify(draftBody());
  // Browsers carry at most 64 KB after the page is gone; more goes as an ordinary request, which usually still leaves.
  fetch(urls.draft, { method: "POST", keepalive: body.length < 60000, headers: { "X-CSRFToken": csrf(), "Content-Type": "application/json" }, body });
  lastSaved = essence(value) + path;
}
addEventListener("pagehide", leave);
document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); });
$("save").addEventListener("click", async () => { if (await save()) toast("Draft saved"); });
$("discard")?.addEventListener("click", async () => {
  await send(urls.discard, { data: { path } });
  stopLeaving = true;
  location.assign(state.isNew ? `${urls.scripts}new/` : location.pathname);
});

// --- path ---
const owner = $("path-owner"), name = $("path-name");
for (const field of [owner, name]) field?.addEventListener("input", () => {
  if (!name.reportValidity()) return;
  path = `${owner.value}/${name.value}`;
  $("deploy-path").textContent = path;
  changed();
});

// --- settings ---
$("settings-fields").addEventListener("input", (e) => {
  if (e.target.dataset.setting === "summary") $("editor-title").textContent = e.target.value || (state.isNew ? "New script" : path);
  changed();
});

// --- the form follows the code ---
let asked = 0;
async function infer() {
  const turn = ++asked;
  let found;
  try {
    found = await (await send(urls.signature, { data: { language: language.value, content: code.value, schema: schemaUsed } })).json();
  } catch (error) {
    if (turn === asked) problem(`The form could not be refreshed. ${error.message}`);
    return;
  }
  if (turn !== asked) return;
  if (found.problem) {
    code.diagnostics = [{ line: found.problem.line, column: found.problem.column, message: found.problem.message }];
    problem(`Line ${found.problem.line}: ${found.problem.message}`);
    $("form-note").textContent = "Form of the last readable version";
    return; // the last good form stays
  }
  code.diagnostics = [];
  problem(found.isLibrary ? "There is no function main: other scripts can import this one, but it cannot be run." : "");
  $("form-note").textContent = "";
  if (JSON.stringify(found.schema) !== JSON.stringify(schemaUsed)) {
    schemaUsed = found.schema;
    form.schema = found.schema;
  }
}
function problem(text) {
  $("problem").hidden = !text;
  $("problem").querySelector("span").textContent = text;
}
code.addEventListener("wm-change", () => { infer(); });
code.addEventListener("input", changed);

// --- the language ---
const starterOf = (id) => language.data.languages.find((l) => l.id === id)?.starter ?? "";
/** Whether replacing the code loses nothing that somebody wrote. */
const isUntouched = () => !code.value.trim() || language.data.languages.some((l) => l.starter === code.value);
function describeLanguage() {
  const { problem } = language.chosen;
  $("language-problem").hidden = !problem;
  $("language-problem").querySelector("span").textContent = problem;
  for (const button of document.querySelectorAll("[data-pick]")) button.hidden = !canInsert(language.value, button.dataset.pick);
}
/** Offers the starter where it would not come by itself: over code that somebody wrote, or when all of it was removed. */
function offerStarter(words) {
  $("starter-offer").hidden = !words || !starterOf(language.value);
  $("starter-offer").querySelector("span").textContent = words;
}
language.addEventListener("change", () => {
  code.setAttribute("language", language.value);
  document.cookie = `language=${language.value}; path=/w/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
  if (isUntouched()) {
    code.value = starterOf(language.value);
    offerStarter("");
  } else offerStarter(`Your code is kept, now as ${language.chosen.name}.`);
  $("set-tag").placeholder = language.value;
  describeLanguage();
  infer();
  changed();
});
$("use-starter").addEventListener("click", () => { code.value = starterOf(language.value); offerStarter(""); code.focus(); toast("Ctrl-Z in the editor brings your code back"); });
$("no-starter").addEventListener("click", () => { offerStarter(""); code.focus(); });
code.addEventListener("wm-change", () => {
  if (!code.value.trim()) offerStarter("There is no code.");
  else if ($("starter-offer").textContent.includes("no code")) offerStarter("");
});

// --- testing ---
let run = null; // {id}: the test that runs now
async function test() {
  if (run) return toast("A test is running already");
  $("test").disabled = true;
  try {
    await infer();
    if (!form.validate()) return;
    const { id } = await (await send(urls.test, { data: { path, language: language.value, content: code.value, args: form.value, tag: collect().tag } })).json();
    follow(id);
  } catch (error) {
    toast(error.message, { level: "error" });
  } finally {
    $("test").disabled = !!run;
  }
}
function follow(id) {
  run = { id };
  $("stop").hidden = false;
  $("test").disabled = true;
  show(id, "running");
  selectTab($("t-logs"));
}
/** Puts the log and, when it ended, the result of a test into the tabs. */
function show(id, status) {
  const socket = urls.socket + id;
  const logs = Object.assign(document.createElement("wm-logs"), { className: "editor-log" });
  for (const [k, v] of Object.entries({ src: socket, download: `${urls.runs}${id}/log.txt`, "count-into": "log-count", label: "Log of the test" })) logs.setAttribute(k, v);
  const live = document.createElement("wm-live");
  live.setAttribute("src", socket);
  live.dataset.run = id;
  $("p-logs").replaceChildren(logs, live);
  $("p-result").replaceChildren(Object.assign(document.createElement("p"), { className: "help", textContent: "The result appears here when the test ends." }));
  mark(status);
}
function mark(status, ms) {
  const words = { success: "Success", failure: "Failed", canceled: "Canceled", running: "Running", queued: "Queued", scheduled: "Scheduled", suspended: "Waiting", skipped: "Skipped" };
  const icons = { success: "circle-check", failure: "circle-x", canceled: "square", running: "loader", queued: "circle-dashed", scheduled: "calendar-clock", suspended: "hand", skipped: "circle-slash" };
  const chip = Object.assign(document.createElement("span"), { className: "status" });
  chip.dataset.status = status;
  chip.append(icon(icons[status] || "circle-help", status === "running" ? "i spin" : "i"), words[status] || status);
  const took = Object.assign(document.createElement("span"), { className: "num dim", textContent: ms == null ? "" : duration(ms) });
  $("test-state").replaceChildren(chip, took);
}
document.addEventListener("wm-status", (e) => {
  if (e.target.dataset?.run !== run?.id || !run) return;
  mark(e.detail.type === "CompletedJob" ? (e.detail.success ? "success" : "failure") : e.detail.running ? "running" : "queued");
});
document.addEventListener("wm-done", (e) => { if (e.target.dataset?.run) finished(e.target.dataset.run); });
async function finished(id) {
  const mine = run?.id === id;
  if (mine) {
    run = null;
    $("stop").hidden = true;
    $("test").disabled = false;
  }
  const end = await (await fetch(`${urls.runs}${id}/state.json`)).json();
  mark(end.status, end.durationMs);
  const result = document.createElement("wm-result");
  for (const [k, v] of Object.entries({ frame: `${urls.runs}${id}/result.html`, download: `${urls.runs}${id}/result.json?download=1`, lines: "" })) result.setAttribute(k, v);
  if (end.resultSize > BIG) {
    result.setAttribute("src", `${urls.runs}${id}/result.json`);
    result.setAttribute("size", end.resultSize);
  } else {
    result.value = await (await fetch(`${urls.runs}${id}/result.json`)).json();
    const line = end.status === "failure" && end.code === code.value && result.value?.error ? errorLine(result.value.error) : null;
    if (line) code.diagnostics = [{ line, message: `${result.value.error.name || "Error"}: ${result.value.error.message ?? ""}` }];
  }
  $("p-result").replaceChildren(result);
  if (mine || $("t-logs").ariaSelected === "true") selectTab($("t-result"));
  const list = await fetch(`${urls.tests}?path=${encodeURIComponent(path)}`);
  if (list.ok) $("p-tests").innerHTML = await list.text(); // our own template, escaped by the server
}
$("test").addEventListener("click", test);
$("stop").addEventListener("click", async () => {
  const body = new FormData();
  await fetch(`${urls.runs}${run.id}/cancel/`, { method: "POST", headers: { "X-CSRFToken": csrf(), "HX-Request": "true" }, body });
});
$("p-tests").addEventListener("click", async (e) => {
  const id = e.target.closest("[data-test]")?.dataset.test;
  if (!id) return;
  const end = await (await fetch(`${urls.runs}${id}/state.json`)).json();
  if (end.args) form.value = end.args;
  show(id, end.status);
  selectTab($("t-result"));
  toast("The form has the inputs of that test");
});
document.addEventListener("wm-goto-line", (e) => code.goto(e.detail.line));

// --- keys ---
code.addEventListener("wm-run", test);
code.addEventListener("wm-save", save);
document.addEventListener("keydown", (e) => {
  if (!(e.ctrlKey || e.metaKey) || e.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (e.key === "Enter") { e.preventDefault(); test(); }
  if (e.key.toLowerCase() === "s") { e.preventDefault(); save(); }
});

// --- differences, deploying ---
async function drawDiff(host, before, after, beforeLabel, afterLabel) {
  await import("../elements/diff.js");
  const diff = document.createElement("wm-diff");
  for (const [k, v] of Object.entries({ language: language.value, "before-label": beforeLabel, "after-label": afterLabel })) diff.setAttribute(k, v);
  diff.before = before;
  diff.after = after;
  host.replaceChildren(diff);
}
const deployedCode = () => state.deployed?.content ?? "";
$("compare")?.addEventListener("click", () => {
  drawDiff($("compare-diff"), deployedCode(), code.value, "Deployed", "Editor");
  $("compare-dialog").showModal();
});
$("see-other")?.addEventListener("click", () => {
  drawDiff($("compare-diff"), deployedCode(), code.value, `Deployed by ${state.head.by}`, "Your draft");
  $("compare-dialog").showModal();
});
$("deploy").addEventListener("click", () => {
  if (name && !name.reportValidity()) return;
  const now = collect(), before = state.deployed || {};
  const names = ["summary", "description", "language", "kind", "tag", "timeout", "priority", "envs", "labels", "dedicated_worker", "concurrent_limit", "concurrency_time_window_s", "concurrency_key"];
  const same = (a, b) => JSON.stringify(a || null) === JSON.stringify(b || null);
  const changes = state.deployed ? names.filter((k) => !same(now[k], before[k])) : [];
  $("deploy-settings").textContent = changes.length ? `Settings changed: ${changes.join(", ")}.` : state.deployed ? "" : "The first version of this script.";
  $("deploy-problem").hidden = true;
  drawDiff($("deploy-diff"), deployedCode(), code.value, state.deployed ? "Deployed" : "Nothing yet", "Editor");
  $("deploy-dialog").showModal();
  $("deploy-message").focus();
});
$("deploy-message").addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); deploy(base); } });
$("deploy-now").addEventListener("click", () => deploy(base));
let other = null;
async function deploy(parent) {
  $("deploy-now").disabled = true;
  clearTimeout(timer);
  try {
    await infer();
    const answer = await fetch(urls.deploy, { method: "POST", headers: { "X-CSRFToken": csrf(), "Content-Type": "application/json" }, body: JSON.stringify({ path, base: parent, value: collect(), message: $("deploy-message").value }) });
    if (answer.status === 409) return conflict(await answer.json());
    if (!answer.ok) throw new Error(await answer.text());
    const { url } = await answer.json();
    stopLeaving = true;
    if (savedPath && savedPath !== path) await send(urls.discard, { data: { path: savedPath } });
    location.assign(url);
  } catch (error) {
    $("deploy-problem").hidden = false;
    $("deploy-problem").querySelector("strong").textContent = error.message;
  } finally {
    $("deploy-now").disabled = false;
  }
}
function conflict(theirs) {
  other = theirs;
  $("deploy-dialog").close();
  $("conflict-text").textContent = `${theirs.head.by} deployed version ${theirs.head.hash.slice(0, 8)} since you opened this script${theirs.message ? ` (“${theirs.message}”)` : ""}. Below is their code beside yours.`;
  drawDiff($("conflict-diff"), theirs.content, code.value, `Theirs, ${theirs.head.hash.slice(0, 8)}`, "Yours");
  $("conflict-dialog").showModal();
}
$("overwrite").addEventListener("click", () => { $("conflict-dialog").close(); $("deploy-dialog").showModal(); deploy(other.head.hash); });
$("take-theirs").addEventListener("click", async () => {
  await send(urls.discard, { data: { path: savedPath || path } });
  stopLeaving = true;
  location.assign(`${urls.scripts}${path}/edit/`);
});

// --- variables and resources ---
const known = {}; // kind -> promise of [{path, note, type}]
const picks = (kind) => (known[kind] ??= fetch(`${urls.picks}?kind=${kind}`).then((r) => (r.ok ? r.json() : { items: [] })).then((r) => r.items));
let picking = "variable";
document.addEventListener("click", async (e) => {
  const kind = e.target.closest("[data-pick]")?.dataset.pick;
  if (!kind) return;
  picking = kind;
  $("pick-title").textContent = kind === "variable" ? "Insert a variable" : "Insert a resource";
  $("pick-filter").value = "";
  $("picks").replaceChildren();
  $("pick-dialog").showModal();
  $("pick-filter").focus();
  listPicks();
});
$("pick-filter").addEventListener("input", listPicks);
$("pick-filter").addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); $("picks").querySelector("button")?.click(); } });
async function listPicks() {
  const kind = picking, all = await picks(kind), text = $("pick-filter").value.toLowerCase();
  if (kind !== picking) return;
  const found = all.filter((p) => p.path.toLowerCase().includes(text)).slice(0, 100);
  $("picks").replaceChildren(...found.map((p) => {
    const item = document.createElement("li"), button = Object.assign(document.createElement("button"), { type: "button" });
    button.append(Object.assign(document.createElement("span"), { className: "mono clip", textContent: p.path }));
    if (p.type) button.append(Object.assign(document.createElement("span"), { className: "tag", textContent: p.type }));
    if (p.note) button.append(Object.assign(document.createElement("small"), { className: "clip", textContent: p.note }));
    button.addEventListener("click", () => insert(kind, p.path));
    item.append(button);
    return item;
  }));
  $("pick-empty").hidden = found.length > 0;
  $("pick-empty").textContent = all.length ? "No path holds this text." : `There is no ${kind} that you may read yet.`;
}
function insert(kind, at) {
  $("pick-dialog").close();
  insertCall(code, language.value, kind, at);
}
const FUNCTIONS = [["get_variable", "(path) value of a variable"], ["set_variable", "(path, value)"], ["get_resource", "(path) value of a resource"], ["set_resource", "(value, path, resource_type)"], ["run_script_by_path", "(path, args) result"], ["run_script_by_path_async", "(path, args) job id"], ["get_state", "() state of this script"], ["set_state", "(value)"], ["set_progress", "(percent)"], ["get_workspace", "() workspace id"]];
const completePaths = pathCompletions(urls.paths, () => ({ language: language.value, path }));
code.completions = async (before) => {
  if (language.value === "python3" && /\bwmill\.\w*$/.test(before)) return FUNCTIONS.map(([label, info]) => ({ label: `wmill.${label}`, detail: info, type: "function" }));
  return completePaths(before);
};

// --- begin ---
async function begin() {
  lastSaved = essence(collect()) + path;
  describeLanguage();
  await infer();
  const { lockProblem } = state;
  if (lockProblem && code.value === deployedCode() && !code.diagnostics.length) code.diagnostics = [lockProblem];
}
$("lock-line")?.addEventListener("click", () => code.goto(state.lockProblem.line));
if (code.hasAttribute("ready")) begin();
else code.addEventListener("wm-ready", begin, { once: true });
