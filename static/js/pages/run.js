// One run: its log and state live, the line of an error, lazily the code.
import "../elements/live.js";
import "../elements/logs.js";
import "../elements/result.js";
import "../elements/json.js";
import { errorLine } from "../elements/result.js";
import { selectTab } from "../app.js";
import { json } from "../dom.js";

const base = document.getElementById("live").dataset.base;
let last = "", touched = false; // touched: the reader chose a tab, so we choose none for them
const tab = (name) => document.getElementById(`t-${name}`);

// --- the state ---
/** Only what the head shows: a heartbeat or a memory figure does not redraw it. */
const face = (job) => JSON.stringify([job.type, job.running, job.canceled, job.worker, job.suspend, job.scheduled_for, job.started_at]);
let asking = null;
function refresh() {
  asking ??= window.htmx.ajax("GET", base, { target: "#run-head", swap: "outerMorph" }).finally(() => { asking = null; offerLine(); });
  return asking;
}
// What the head may say while the job stands so: it knows reasons to wait that the socket does not tell.
const HEADS = { queued: ["queued", "scheduled"], running: ["running", "suspended"] };
/** Did the job go on between the making of the page and the first word of the socket? */
const isStale = (status) => !(HEADS[status] ?? [status]).includes(document.getElementById("run-head").dataset.status);
document.addEventListener("wm-status", (e) => {
  const now = face(e.detail);
  if (last ? now !== last : isStale(e.detail.status)) refresh();
  last = now;
});
document.addEventListener("wm-done", async (e) => {
  if (e.target.id !== "live") return;
  await asking;
  await refresh();
  document.getElementById("log-count").classList.remove("live");
  // A failure keeps the log in view: the head says what went wrong.
  if (!touched && document.getElementById("run-head").dataset.status === "success") selectTab(tab("result"));
});
document.addEventListener("wm-connection", (e) => {
  const note = document.getElementById("connection");
  if (note) note.textContent = e.detail.state === "reconnecting" ? "Reconnecting…" : "";
});
document.querySelector(".run-tabs").addEventListener("click", (e) => { if (e.isTrusted && e.target.closest("[role=tab]")) touched = true; });

// --- the code, loaded when it is asked for ---
document.getElementById("p-code")?.addEventListener("wm-show", () => import("../elements/code.js"), { once: true });
async function showLine(line) {
  await import("../elements/code.js");
  const code = document.getElementById("run-code");
  if (!code) return;
  touched = true;
  selectTab(tab("code"));
  const error = json("run-error-data");
  const go = () => {
    code.diagnostics = [{ line, message: error ? `${error.name}: ${error.message}` : "The run failed here" }];
    code.goto(line);
  };
  if (code.hasAttribute("ready")) go();
  else code.addEventListener("wm-ready", go, { once: true });
}
function offerLine() {
  const button = document.querySelector("[data-show-line]"), error = json("run-error-data");
  const line = button && error && document.getElementById("run-code") ? errorLine(error) : null;
  if (!line) return;
  button.hidden = false;
  button.textContent = `Show line ${line}`;
}
offerLine();
document.addEventListener("click", (e) => { if (e.target.closest("[data-show-line]")) showLine(errorLine(json("run-error-data"))); });
document.addEventListener("wm-goto-line", (e) => showLine(e.detail.line));
// Canceling answers with a new head; the dialog has done its work.
document.addEventListener("htmx:after:swap", () => { document.getElementById("cancel-dialog").close(); offerLine(); });
