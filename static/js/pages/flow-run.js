// The page of a flow's run: the graph follows the flow, the panel beside it shows one step, the dock the run as a whole.
import "../elements/live.js";
import "../elements/flow-graph.js";
import "../elements/flow-run-step.js";
import "../elements/gantt.js";
import { selectTab } from "../app.js";
import { toast } from "../dom.js";
import { everyModule, isLoop, isSideBySide } from "../flow-layout.js";
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
/** A loop that can try again only what failed: the outermost, and none inside of what runs side by side. */
const loopThatFailed = () => [...modules].filter(([id, { around }]) => states[id]?.iterations?.failed && !around.some((a) => isSideBySide(modules.get(a).module))).sort(([, a], [, b]) => a.depth - b.depth)[0]?.[0];
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
let last = "", asking = null, waiting = null;
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
  // At first the page may know already: a form that somebody fills in is left alone.
  const isNews = waiting === null ? Object.values(states).some((s) => s.status === "suspended" && !byId(`wait-${s.flow}`)) : now !== waiting;
  if (isNews) { refresh(); refreshWaits(); }
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

// --- restarting: what is rarely used comes when it is asked for ---
const restart = () => import("./flow-restart.js");
const here = { base, modules: () => modules, states: () => states };
document.addEventListener("click", async (e) => {
  if (e.target.closest("[data-restart]")) (await restart()).ask(here, selected);
  if (e.target.closest("[data-restart-failed]")) (await restart()).ask(here, loopThatFailed(), "failed");
});
document.addEventListener("wm-restart", async (e) => (await restart()).ask(here, e.detail.id));

// --- the viewers of the dock come with their tabs ---
for (const [id, load] of Object.entries({
  "p-outline": () => import("../elements/flow-outline.js"),
  "p-result": () => import("../elements/result.js"),
  "p-inputs": () => import("../elements/json.js"),
  "p-logs": () => import("../elements/logs.js"),
})) byId(id).addEventListener("wm-show", load);

start();
