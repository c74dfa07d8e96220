// The page of a flow's run: the graph follows the flow, the panel beside it shows one step, the dock the run as a whole.
import "../elements/live.js";
import "../elements/logs.js";
import "../elements/result.js";
import "../elements/json.js";
import "../elements/flow-graph.js";
import "../elements/flow-outline.js";
import "../elements/flow-run-step.js";
import "../elements/gantt.js";
import { selectTab } from "../app.js";
import { send, toast } from "../dom.js";
import { everyModule, isLoop } from "../flow-layout.js";
import { title } from "../flow-module.js";
import { watch } from "../job-socket.js";

const byId = (id) => document.getElementById(id);
const live = byId("live"), graph = byId("graph"), panel = byId("step-panel"), sheet = byId("step"), outline = byId("outline"), gantt = byId("gantt");
const { base, socket } = live.dataset;
const address = new URLSearchParams(location.search);
let modules = new Map(); // id -> {module, around, ...}
let states = {}, chosen = {}, selected = null, matters = null;
let followed = !address.has("step"); // the selection goes with the flow until the reader chooses
let touched = false; // the reader chose a tab of the dock
for (const [name, value] of address) if (name.startsWith("n.") && /^\d+$/.test(value)) chosen[name.slice(2)] = +value - 1;
if (Object.keys(chosen).length) watch(socket, chosen);

// --- data ---
async function load(definition) {
  const query = new URLSearchParams({ watch: JSON.stringify(chosen), ...(definition ? { definition: "1" } : {}) });
  const answer = await fetch(`${base}flow.json?${query}`);
  if (!answer.ok) throw new Error((await answer.text()).slice(0, 300));
  return answer.json();
}
async function start() {
  let data;
  try {
    data = await load(true);
  } catch (error) {
    byId("graph-wait").replaceChildren(Object.assign(document.createElement("p"), { textContent: `The flow could not be drawn: ${error.message}` }));
    return;
  }
  ({ states, matters } = data);
  waiting = asked();
  forms();
  modules = new Map([...everyModule(data.value)].map((m) => [m.module.id, m]));
  const wish = address.get("step");
  choose(modules.has(wish) ? wish : matters, { quiet: true });
  Object.assign(graph, { value: data.value, states });
  Object.assign(outline, { value: data.value, states });
  gantt.titles = Object.fromEntries([...modules].map(([id, { module }]) => [id, title(module)]));
  byId("graph-wait").remove();
  note();
  titleOfFailed();
  timeline();
}
/** The panel goes with the flow, but no faster than one can read. */
const PACE = 1000; // ms between two steps
let following = 0, moved = -PACE;
function follow() {
  following = 0;
  const next = followed && now();
  if (!next || next === selected) return;
  moved = performance.now();
  choose(next, { quiet: true });
}
/** A whole new picture, or changes of it. */
function take(message) {
  const patch = Object.fromEntries(Object.entries(message.states).filter(([, s]) => s));
  const gone = message.whole ? Object.keys(states).filter((id) => !patch[id]) : Object.keys(message.states).filter((id) => !message.states[id]);
  states = { ...(message.whole ? {} : states), ...patch };
  for (const id of gone) delete states[id];
  if (!graph.value) return;
  graph.states = outline.states = states;
  if (followed) following ||= setTimeout(follow, performance.now() - moved > PACE ? 0 : PACE);
  Object.assign(panel, about(selected));
  note();
  timelineSoon();
}
/** The step that the flow is at: what waits or runs, the innermost first; at the end what failed. As picture.what_matters. */
function now() {
  const status = (id) => states[id]?.status, failed = ["failure", "canceled"];
  const find = (wanted, around) => {
    const hits = [...modules.keys()].filter((id) => id !== "failure" && wanted.includes(status(id)) && modules.get(id).around.every((a) => around.includes(status(a)) || wanted.includes(status(a))));
    return hits.length ? hits.filter((id) => id === hits[0] || modules.get(id).around.includes(hits[0])).at(-1) : null;
  };
  const outer = ["running", "suspended"];
  return find(["suspended"], outer) ?? find(["running", "queued", "scheduled"], outer) ?? find(failed, failed);
}
const loopThatFailed = () => [...modules.keys()].find((id) => states[id]?.iterations?.failed && !whyNot(id) && !modules.get(id).around.length) ?? [...modules.keys()].find((id) => states[id]?.iterations?.failed && !whyNot(id));
function note() {
  const box = byId("fail-note"), failed = Object.values(states).reduce((sum, s) => sum + (s.iterations?.failed ?? 0), 0);
  if (!box) return;
  box.hidden = !failed;
  const retry = document.querySelector("[data-restart-failed]");
  if (retry) retry.hidden = !failed || !loopThatFailed();
  box.textContent = failed ? `${failed} iteration${failed === 1 ? "" : "s"} failed` : "";
}

// --- choosing ---
function choose(id, { quiet = false, open = false } = {}) {
  if (!modules.has(id)) return;
  const changed = id !== selected;
  selected = id;
  if (!quiet) followed = false;
  graph.selected = outline.selected = gantt.selected = id;
  Object.assign(panel, { module: modules.get(id).module, ...about(id) });
  if (!quiet) remember();
  if (changed && graph.plan) graph.reveal(id);
  if (open) openSheet();
}
/** What the panel shows of a step beside its definition. */
function about(id) {
  const around = modules.get(id)?.around ?? [];
  return {
    state: states[id],
    loops: Object.fromEntries(around.map((loop) => [loop, states[loop]?.iterations]).filter(([, its]) => its)),
    may: { restart: !!document.querySelector("[data-restart]") && !["failure", "preprocessor"].includes(id) },
  };
}
function remember() {
  const url = new URL(location.href);
  url.search = "";
  if (selected) url.searchParams.set("step", selected);
  for (const [id, n] of Object.entries(chosen)) url.searchParams.set(`n.${id}`, n + 1);
  history.replaceState(history.state, "", url);
}
async function iteration(id, n) {
  chosen = { ...chosen, [id]: n };
  // Inner loops begin anew: their numbers were of another iteration.
  for (const [inner, { around }] of modules) if (around.includes(id)) delete chosen[inner];
  remember();
  if (live.hasAttribute("src") && live.dataset.state === "open") return watch(socket, chosen);
  try {
    take({ whole: true, states: (await load(false)).states });
  } catch (error) {
    toast(error.message, { level: "error" });
  }
}
document.addEventListener("wm-select", (e) => {
  const { id, n } = e.detail, loop = n == null ? null : [id, ...(modules.get(id)?.around ?? []).toReversed()].find((l) => isLoop(modules.get(l).module));
  choose(id, { open: e.target !== outline || narrow.matches });
  if (loop) iteration(loop, n);
});
document.addEventListener("wm-open", () => openSheet(true));
document.addEventListener("wm-iteration", (e) => { followed = false; iteration(e.detail.id, e.detail.n); });
document.addEventListener("wm-iterations", (e) => choose(e.detail.id, { open: true }));
document.addEventListener("click", (e) => {
  if (e.target.closest("#fail-note")) choose(Object.keys(states).find((id) => states[id].iterations?.failed), { open: true });
  const show = e.target.closest("[data-show-step]");
  if (!show) return;
  choose(show.dataset.showStep, { open: true });
  graph.reveal(show.dataset.showStep, { focus: !narrow.matches });
});

// --- the panel is a sheet on phones ---
const narrow = matchMedia("(max-width: 860px)");
let back = null;
function openSheet(focus = false) {
  if (!narrow.matches) { if (focus) sheet.focus({ preventScroll: true }); return; }
  if (!sheet.classList.contains("open")) back = document.activeElement;
  sheet.classList.add("open");
  sheet.focus({ preventScroll: true });
}
function closeSheet() {
  if (!sheet.classList.contains("open")) return;
  sheet.classList.remove("open");
  if (back?.isConnected) back.focus({ preventScroll: true });
}
document.addEventListener("wm-close", closeSheet);
document.addEventListener("keydown", (e) => { if (e.key === "Escape" && !document.querySelector("dialog[open]")) closeSheet(); });

// --- the timeline: drawn while it is seen, at most every two seconds ---
let timelineDue = 0;
async function timeline() {
  clearTimeout(timelineDue);
  timelineDue = 0;
  if (byId("p-timeline").hidden || document.hidden) return;
  const answer = await fetch(`${base}timeline.json`);
  if (answer.ok) gantt.data = await answer.json();
}
function timelineSoon() { timelineDue ||= setTimeout(timeline, 2000); }
byId("p-timeline").addEventListener("wm-show", timeline);

// --- the run as a whole: as pages/run.js ---
const face = (job) => JSON.stringify([job.status, job.canceled_by, job.started_at, job.completed_at]);
let last = "", asking = null, waiting = "";
function refresh() {
  asking ??= window.htmx.ajax("GET", base, { target: "#run-head", swap: "outerMorph" }).finally(() => { asking = null; note(); titleOfFailed(); if (selected) Object.assign(panel, about(selected)); });
  return asking;
}
const titleOfFailed = () => {
  const button = document.querySelector("#run-error [data-show-step]"), box = byId("failed-title"), m = modules.get(button?.dataset.showStep);
  if (box && m) box.textContent = `, ${title(m.module)}`;
};
document.addEventListener("wm-status", (e) => {
  if (e.target !== live) return;
  if (last && face(e.detail) !== last) refresh();
  last = face(e.detail);
});
document.addEventListener("wm-flow", (e) => {
  take(e.detail);
  const now = asked();
  if (now !== waiting) { refresh(); refreshWaits(); }
  waiting = now;
});
/** Which approvals are asked for: a new one, or another approval of one, changes this text. */
const asked = () => JSON.stringify(Object.entries(states).filter(([, s]) => s.status === "suspended").map(([id, s]) => [id, s.flow, s.missing, s.until]));
const refreshWaits = () => window.htmx.ajax("GET", `${base}?part=waits`, { target: "#waits", swap: "outerHTML" }).finally(forms);
/** The form of an approval; most flows have none. */
function forms() { if (document.querySelector("#waits wm-schema-form")) import("../elements/schema-form.js"); }
document.addEventListener("wm-answered", () => { refresh(); refreshWaits(); });
document.addEventListener("wm-done", async (e) => {
  if (e.target !== live) return;
  live.removeAttribute("src");
  await asking;
  await refresh();
  refreshWaits();
  timeline();
  byId("log-count").classList.remove("live");
  if (!touched && byId("run-head").dataset.status === "success") selectTab(byId("t-result"));
});
document.addEventListener("wm-connection", (e) => {
  const said = byId("connection");
  if (said && e.target === live) said.textContent = e.detail.state === "reconnecting" ? "Reconnecting…" : "";
});
document.querySelector(".run-tabs").addEventListener("click", (e) => { if (e.isTrusted && e.target.closest("[role=tab]")) touched = true; });
document.addEventListener("htmx:after:swap", () => { byId("cancel-dialog").close(); note(); titleOfFailed(); });
document.addEventListener("visibilitychange", () => {
  if (live.hasAttribute("src")) watch(socket, document.hidden ? null : chosen);
  if (!document.hidden) timeline();
});

// --- restarting ---
const dialog = byId("restart-dialog"), form = byId("restart-form"), stepField = byId("restart-step");
const isSideBySide = (m) => !!m.value?.parallel && (isLoop(m) || m.value.type === "branchall");
/** A body with a single plain step has no flow of its own: the step begins with its iteration. */
const isDirect = (id) => { const outer = modules.get(id).around.at(-1); return outer && states[id]?.flow && states[id].flow === states[outer]?.flow; };
/** The way to a step as the server takes it: [{step_id, branch_or_iteration_n?}], outermost first. */
function wayTo(id) {
  const { around } = modules.get(id), way = [];
  for (const [i, outer] of around.entries()) {
    const m = modules.get(outer).module, place = { step_id: outer };
    if (isLoop(m)) place.branch_or_iteration_n = states[outer]?.iterations?.at ?? 0;
    if (m.value.type === "branchall") place.branch_or_iteration_n = +modules.get(around[i + 1] ?? id).body.split("/").at(-1);
    way.push(place);
  }
  return isDirect(id) ? way : [...way, { step_id: id }];
}
/** Why a run cannot begin again inside of this step's surroundings; "" when it can. */
function whyNot(id) {
  const outer = modules.get(id).around.find((a) => isSideBySide(modules.get(a).module));
  if (!outer) return "";
  const { module } = modules.get(outer);
  return `${isLoop(module) ? "The iterations" : "The branches"} of ${outer} run side by side, so a run cannot begin inside of one. Restart at ${outer}.`;
}
function askRestart(id, how = "all") {
  const began = [...modules].filter(([key]) => !["failure", "preprocessor"].includes(key) && states[key] && !states[key].off);
  stepField.replaceChildren(...began.map(([key, { module, around }]) => new Option(`${"\u2003".repeat(around.length)}${key}: ${title(module)}`, key)));
  if (began.some(([key]) => key === id)) stepField.value = id;
  byId("restart-error").hidden = true;
  restartChanged();
  const wanted = form.querySelector(`[name=how][value="${how}"]`);
  if (!byId("restart-how").hidden && !wanted.closest("label").hidden) wanted.checked = true;
  dialog.showModal();
}
function restartChanged() {
  const id = stepField.value, m = modules.get(id)?.module, its = states[id]?.iterations, why = m ? whyNot(id) : "";
  const counted = m && !why && isLoop(m) && its?.total > 0;
  byId("restart-how").hidden = !counted && !(m && !why && m.value.type === "branchall" && states[id].status === "failure");
  byId("restart-from").hidden = !counted || isSideBySide(m);
  byId("restart-failed").hidden = !(counted ? its.failed : m?.value.type === "branchall");
  form.elements.how.value = "all";
  if (counted) Object.assign(byId("restart-n"), { max: its.total, value: (its.at ?? 0) + 1 });
  const loop = m && modules.get(id).around.findLast((a) => isLoop(modules.get(a).module));
  byId("restart-why").textContent = why || (loop ? `In iteration ${(states[loop]?.iterations?.at ?? 0) + 1} of ${loop}, and with those after it${isDirect(id) ? "; its only step begins with it" : ""}.` : "");
  byId("restart-go").disabled = !!why || !m;
}
stepField.addEventListener("change", restartChanged);
byId("restart-n").addEventListener("focus", () => { form.elements.how.value = "from"; });
document.addEventListener("click", (e) => {
  if (e.target.closest("[data-restart]")) askRestart(selected);
  if (e.target.closest("[data-restart-failed]")) askRestart(loopThatFailed(), "failed");
});
document.addEventListener("wm-restart", (e) => askRestart(e.detail.id));
form.addEventListener("submit", async (e) => {
  e.preventDefault();
  const id = stepField.value, how = byId("restart-how").hidden ? "all" : form.elements.how.value, [first, ...rest] = wayTo(id), last = rest.at(-1) ?? first;
  if (how === "from") last.branch_or_iteration_n = +byId("restart-n").value - 1;
  try {
    const answer = await send(`${base}restart/`, { data: { ...first, nested_path: rest, failed_only: how === "failed", latest: !!form.elements.latest?.checked } });
    location.assign((await answer.json()).url);
  } catch (error) {
    const box = byId("restart-error");
    box.hidden = false;
    box.textContent = error.message;
  }
});

start();
