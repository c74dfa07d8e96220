// Tests of a flow in the editor: the whole flow, up to a step, a step alone; progress on the graph, outcome below.
import { selectTab, toast } from "../app.js";
import { csrf, icon, send } from "../dom.js";
import * as model from "../flow-model.js";
import { duration } from "../format.js";
import { statusIcon, statusWord } from "../status.js";
import { follow } from "../job-socket.js";

const BIG = 256 * 1024; // bytes of a result that is not loaded by itself
const AGAIN = 500; // ms between two looks at the steps of a flow that runs

/** What shows logs and results comes with the first test. */
let viewers;
const loadViewers = () => (viewers ??= Promise.all([import("../elements/logs.js"), import("../elements/live.js"), import("../elements/result.js")]));

export function tester({ $, urls, editor, graph, state, form, getPath, showPanel, select }) {
  let run = null; // {id, kind: "flow" | "step", step?}: the test that runs now
  let stopFollowing = null, timer = 0, states = {}, shownId = null;
  const dock = $("dock");

  function openDock(on = true) {
    dock.dataset.open = String(on);
    $("dock-toggle").setAttribute("aria-expanded", String(on));
    $("dock-toggle").setAttribute("aria-label", on ? "Close the tests" : "Open the tests");
  }
  $("dock-toggle").addEventListener("click", () => openDock(dock.dataset.open !== "true"));
  dock.addEventListener("click", (e) => { if (e.target.closest("[role=tab]")) openDock(); });

  // --- of the whole flow, or of the chosen step ---
  let view = "flow", chosen = null; // chosen: the id of a step
  const jobOf = (id) => (state.lastTest && id ? states[id]?.job : null) || null;
  function offer() {
    $("dock-of").hidden = !jobOf(chosen) || Boolean(run);
    $("of-step").textContent = `Step ${chosen}`;
    $("of-flow").setAttribute("aria-pressed", String(view === "flow"));
    $("of-step").setAttribute("aria-pressed", String(view === "step"));
  }
  function turnTo(to) {
    view = to;
    offer();
    const id = to === "step" ? jobOf(chosen) : state.lastTest.id;
    if (id && id !== shownId) show(id, to === "step" ? states[chosen].status : state.lastTest.status);
  }
  for (const to of ["flow", "step"]) $(`of-${to}`).addEventListener("click", () => {
    turnTo(to);
    if ($("t-args").ariaSelected === "true" || $("t-tests").ariaSelected === "true") selectTab($("t-result"));
    openDock();
  });
  /** Another step was chosen on the graph. */
  function choose(id) {
    chosen = id;
    if (view === "step" && jobOf(id) && dock.dataset.open === "true") return turnTo("step");
    if (view === "step" && !jobOf(id) && state.lastTest) return turnTo("flow");
    offer();
  }

  // --- starting ---
  async function start(what, url, data) {
    if (run) return toast("A test is running already");
    $("test").disabled = true;
    try {
      const { id } = await (await send(url, { data })).json();
      run = { id, ...what };
      view = "flow";
      offer();
      $("stop").hidden = false;
      openDock();
      show(id, "running");
      selectTab($("t-logs"));
      if (what.kind === "flow") { graph.states = {}; watched = {}; watchSteps(id); }
    } catch (error) {
      toast(error.message, { level: "error" });
    } finally { $("test").disabled = !!run; }
  }
  /** The whole flow, or up to a step; asks for the inputs first when some are missing. */
  async function flow({ upTo = null } = {}) {
    form.schema = editor.doc.schema;
    await form.updateComplete;
    if (form.querySelector("[data-path]") && !ready()) { openDock(); selectTab($("t-args")); form.validate(); return; }
    const value = upTo ? model.upTo(editor.value, upTo) : editor.value;
    await start({ kind: "flow", upTo }, urls.test, { value, path: getPath(), args: form.value, tag: editor.doc.tag || "" });
  }
  /** Whether the form has no fault; without showing any. */
  const ready = () => form.matches(":valid");
  const step = (id, args) => start({ kind: "step", step: id }, urls.step, { module: model.find(editor.value, id).module, args, path: getPath() });
  $("test").addEventListener("click", () => flow());
  form.addEventListener("wm-run", () => flow());

  // --- progress ---
  function watchSteps(id) {
    stopFollowing?.();
    stopFollowing = follow(urls.socket + id, { status: () => look(id), done: () => look(id) });
    look(id);
  }
  let looking = false, watched = {}; // loop id -> the iteration that is shown
  graph.addEventListener("wm-iteration", async (e) => {
    watched = { ...watched, [e.detail.id]: e.detail.n };
    await look(run?.id ?? state.lastTest.id);
    if (view === "step" && jobOf(chosen)) turnTo("step");
  });
  graph.addEventListener("wm-iterations", () => window.open(`${urls.runs}${run?.id ?? state.lastTest.id}/`, "_blank", "noopener"));
  async function look(id) {
    clearTimeout(timer);
    if (looking) { timer = setTimeout(() => look(id), AGAIN); return; }
    looking = true;
    try {
      const answer = await fetch(`${urls.runs}${id}/flow.json?watch=${encodeURIComponent(JSON.stringify(watched))}`);
      if (answer.ok && id === (run?.id ?? state.lastTest?.id)) {
        const found = await answer.json();
        states = found.states;
        graph.states = states;
        offer();
      }
    } catch { /* the next look tells */ } finally { looking = false; }
    if (run?.id === id) timer = setTimeout(() => look(id), AGAIN);
  }

  // --- outcome ---
  function show(id, status) {
    shownId = id;
    loadViewers();
    const socket = urls.socket + id;
    const logs = Object.assign(document.createElement("wm-logs"), { className: "editor-log" });
    for (const [k, v] of Object.entries({ src: socket, download: `${urls.runs}${id}/log.txt`, "count-into": "log-count", label: "Log of the test" })) logs.setAttribute(k, v);
    const live = document.createElement("wm-live");
    live.setAttribute("src", socket);
    live.dataset.run = id;
    $("p-logs").replaceChildren(logs, live);
    $("p-result").replaceChildren(Object.assign(document.createElement("p"), { className: "help", textContent: "The result appears here when the test ends." }));
    $("open-run").hidden = false;
    $("open-run").href = `${urls.runs}${id}/`;
    mark(status);
  }
  function mark(status, ms) {
    const chip = Object.assign(document.createElement("span"), { className: "status" });
    chip.dataset.status = status;
    chip.append(icon(statusIcon(status), status === "running" ? "i spin" : "i"), statusWord(status));
    $("test-state").replaceChildren(chip, Object.assign(document.createElement("span"), { className: "num dim", textContent: ms == null ? "" : duration(ms) }));
  }
  document.addEventListener("wm-status", (e) => {
    if (!run || e.target.dataset?.run !== run.id) return;
    const job = e.detail;
    mark(job.type === "CompletedJob" ? (job.success ? "success" : "failure") : job.suspend ? "suspended" : job.running ? "running" : "queued");
  });
  document.addEventListener("wm-done", (e) => { if (e.target.dataset?.run) finished(e.target.dataset.run); });
  async function finished(id) {
    const mine = run?.id === id ? run : null;
    if (mine) {
      run = null;
      $("stop").hidden = true;
      $("test").disabled = false;
      offer();
      stopFollowing?.();
      stopFollowing = null;
      if (mine.kind === "flow") { state.lastTest = { id, status: "success" }; await look(id); }
    }
    const end = await (await fetch(`${urls.runs}${id}/state.json`)).json();
    if (id !== shownId) return;
    if (state.lastTest?.id === id) state.lastTest.status = end.status;
    mark(end.status, end.durationMs);
    await loadViewers();
    const result = document.createElement("wm-result");
    for (const [k, v] of Object.entries({ frame: `${urls.runs}${id}/result.html`, download: `${urls.runs}${id}/result.json?download=1` })) result.setAttribute(k, v);
    let value;
    if (end.resultSize > BIG) {
      result.setAttribute("src", `${urls.runs}${id}/result.json`);
      result.setAttribute("size", end.resultSize);
    } else result.value = value = await (await fetch(`${urls.runs}${id}/result.json`)).json();
    const failed = end.status === "failure" && value?.error?.step_id, parts = [result];
    if (failed && model.find(editor.value, failed)) {
      const go = Object.assign(document.createElement("button"), { type: "button", className: "btn sm" });
      go.append(icon("search"), `Show step ${failed}`);
      go.addEventListener("click", () => { select(failed); showPanel("code"); });
      const row = Object.assign(document.createElement("div"), { className: "row" });
      row.append(go);
      parts.unshift(row);
    }
    $("p-result").replaceChildren(...parts);
    if (mine || $("t-logs").ariaSelected === "true") selectTab($("t-result"));
    editor.refresh?.();
    if (mine?.kind === "flow") listTests();
  }
  async function listTests() {
    const list = await fetch(`${urls.tests}?path=${encodeURIComponent(getPath())}`);
    if (list.ok) $("p-tests").innerHTML = await list.text(); // our own template, escaped by the server
  }
  $("stop").addEventListener("click", () => fetch(`${urls.runs}${run.id}/cancel/`, { method: "POST", headers: { "X-CSRFToken": csrf(), "HX-Request": "true" }, body: new FormData() }));
  $("p-tests").addEventListener("click", async (e) => {
    const id = e.target.closest("[data-test]")?.dataset.test;
    if (!id) return;
    const end = await (await fetch(`${urls.runs}${id}/state.json`)).json();
    if (end.args) form.value = end.args;
    state.lastTest = { id, status: end.status };
    view = "flow";
    show(id, end.status);
    look(id);
    selectTab($("t-result"));
    toast("Inputs and values are those of that test");
  });

  // --- a step alone ---
  function about(id) {
    const ran = states[id]?.job;
    if (!state.lastTest) return { canFill: false, note: "With inputs that you give. After a test of the flow they can be taken from it." };
    return { canFill: true, note: ran ? "It ran in the last test." : "With inputs that you give, or worked out from the last test." };
  }
  /** The arguments of a step, worked out by the server with the values of the last test. */
  async function evaluate(id) {
    try {
      return (await (await send(urls.inputs, { data: { job: state.lastTest.id, step: id, value: editor.value } })).json()).args;
    } catch (error) {
      toast(error.message, { level: "error" });
      return null;
    }
  }
  if (state.lastTest) look(state.lastTest.id);
  return { flow, step, about, evaluate, choose };
}
