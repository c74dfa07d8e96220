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
/** A whole new picture, or changes of it. */
function take(message) {
  const patch = Object.fromEntries(Object.entries(message.states).filter(([, s]) => s));
  const gone = message.whole ? Object.keys(states).filter((id) => !patch[id]) : Object.keys(message.states).filter((id) => !message.states[id]);
  states = { ...(message.whole ? {} : states), ...patch };
  for (const id of gone) delete states[id];
  if (!graph.value) return;
  graph.states = outline.states = states;
  if (followed) {
    const next = now();
    if (next && next !== selected) choose(next, { quiet: true });
  }
  panel.state = states[selected];
  note();
  timelineSoon();
}
/** The step that the flow is at: what waits or runs, the innermost first. */
function now() {
  const at = (wanted) => [...modules.keys()].filter((id) => wanted.includes(states[id]?.status));
  for (const wanted of [["failure"], ["suspended"], ["running", "queued", "scheduled"]]) {
    const hits = at(wanted).filter((id) => id !== "failure");
    if (hits.length) return hits.filter((id) => id === hits[0] || modules.get(id).around.includes(hits[0])).at(-1);
  }
  return null;
}
function note() {
  const box = byId("fail-note"), failed = Object.values(states).reduce((sum, s) => sum + (s.iterations?.failed ?? 0), 0);
  if (!box) return;
  box.hidden = !failed;
  box.textContent = failed ? `${failed} iteration${failed === 1 ? "" : "s"} failed` : "";
}

// --- choosing ---
function choose(id, { quiet = false, open = false } = {}) {
  if (!modules.has(id)) return;
  const changed = id !== selected;
  selected = id;
  if (!quiet) followed = false;
  graph.selected = outline.selected = gantt.selected = id;
  Object.assign(panel, { module: modules.get(id).module, state: states[id] });
  if (!quiet) remember();
  if (changed && graph.plan) graph.reveal(id);
  if (open) openSheet();
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
  asking ??= window.htmx.ajax("GET", base, { target: "#run-head", swap: "outerMorph" }).finally(() => { asking = null; note(); titleOfFailed(); });
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
  // Approvals are asked for in the head.
  const now = JSON.stringify(Object.entries(states).filter(([, s]) => s.status === "suspended").map(([id, s]) => [id, s.flow, s.missing, s.until]));
  if (now !== waiting) refresh();
  waiting = now;
});
document.addEventListener("wm-done", async (e) => {
  if (e.target !== live) return;
  live.removeAttribute("src");
  await asking;
  await refresh();
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
const dialog = byId("restart-dialog"), form = byId("restart-form");
/** Why a run cannot begin again at this step; "" when it can. */
function whyNot(id) {
  const { around } = modules.get(id);
  for (const outer of around) {
    const m = modules.get(outer).module;
    if (m.value.type === "branchall" && m.value.parallel) return `Its branches run side by side: restart at ${outer} instead.`;
    if (m.value.type === "forloopflow" && m.value.parallel) return `The iterations of ${outer} run side by side: restart at ${outer} instead.`;
  }
  return "";
}
function askRestart(id) {
  const select = byId("restart-step");
  select.replaceChildren(...[...modules].filter(([key, m]) => !["failure", "preprocessor"].includes(key) && !m.around.length).map(([key, { module }]) => new Option(`${key}: ${title(module)}`, key)));
  const top = modules.get(id)?.around[0] ?? id;
  if ([...select.options].some((o) => o.value === top)) select.value = top;
  byId("restart-error").hidden = true;
  restartChanged();
  dialog.showModal();
}
function restartChanged() {
  const id = byId("restart-step").value, m = modules.get(id)?.module, state = states[id], sequential = m && (m.value.type === "forloopflow" || m.value.type === "whileloopflow") && !m.value.parallel && state?.iterations?.total > 0;
  byId("restart-n-field").hidden = !sequential;
  const n = byId("restart-n");
  n.disabled = !sequential;
  if (sequential) { n.max = state.iterations.total; n.value = (state.iterations.at ?? 0) + 1; }
  byId("restart-why").textContent = m?.value.parallel && (isLoop(m) || m.value.type === "branchall") ? "What runs side by side begins anew as a whole." : whyNot(id);
}
byId("restart-step").addEventListener("change", restartChanged);
document.addEventListener("click", (e) => { if (e.target.closest("[data-restart]")) askRestart(selected); });
document.addEventListener("wm-restart", (e) => askRestart(e.detail.id));
form.addEventListener("submit", async (e) => {
  e.preventDefault();
  const data = new FormData(form), n = data.get("n");
  try {
    const answer = await send(`${base}restart/`, { data: { step_id: data.get("step_id"), ...(n ? { branch_or_iteration_n: +n - 1 } : {}), latest: data.has("latest") } });
    location.assign((await answer.json()).url);
  } catch (error) {
    const box = byId("restart-error");
    box.hidden = false;
    box.textContent = error.message;
  }
});

start();
