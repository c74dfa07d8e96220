// The list of runs: kept current without moving rows, batches on what is ticked, the chart above it.
import uPlot from "../../vendor/uplot.js";
import { csrf, json, toast } from "../dom.js";

const $ = (id) => document.getElementById(id);
const boxes = () => [...document.querySelectorAll('#rows input[name="id"]')];
const chosen = () => boxes().filter((b) => b.checked);

// --- choosing ---
function count() {
  const n = chosen().length, all = $("bulk-all"), everything = !!all?.checked;
  $("bulk").hidden = !n;
  document.querySelector("[data-every]").hidden = n === boxes().length;
  $("bulk-count").textContent = everything ? document.querySelector("[data-matching]").dataset.matching : n;
  const whole = n > 0 && n === boxes().length;
  if ($("bulk-all-label")) $("bulk-all-label").hidden = !whole;
  if (all && !whole) all.checked = false;
  const head = document.querySelector("[data-all]");
  if (head) { head.checked = whole; head.indeterminate = n > 0 && !whole; }
}
document.addEventListener("change", (e) => {
  if (e.target.matches("[data-all]")) for (const b of boxes()) b.checked = e.target.checked;
  if (e.target.matches('[data-all], [name="id"], #bulk-all')) count();
});
document.addEventListener("htmx:after:swap", count);

document.addEventListener("click", async (e) => {
  const every = e.target.closest("[data-every], [data-clear]");
  if (every) {
    for (const b of boxes()) b.checked = every.matches("[data-every]");
    count();
  }
  const button = e.target.closest("[data-deed]");
  if (!button) return;
  const all = !!$("bulk-all")?.checked, words = all ? `all ${document.querySelector("[data-matching]").dataset.matching} runs that match` : `${chosen().length} run${chosen().length === 1 ? "" : "s"}`;
  const deed = button.dataset.deed;
  if (!(await confirm(deed === "cancel" ? `Cancel ${words}? Those that have ended stay as they are.` : `Run ${words} again, with the same inputs?`, deed === "cancel" ? "Cancel them" : "Run again"))) return;
  const form = $("batch"), body = new FormData();
  body.set("deed", deed);
  if (all) {
    body.set("all", "1");
    body.set("filters", form.dataset.filters.split("?")[1] || "");
  } else for (const b of chosen()) body.append("id", b.value);
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.dataset.url, { method: "POST", headers: { "X-CSRFToken": csrf(), "HX-Request": "true" }, body });
    const said = JSON.parse(answer.headers.get("HX-Trigger") || "{}")["wm-toast"];
    if (said) toast(said.text, said);
    if (answer.ok) window.htmx.ajax("GET", location.href, { target: "#list", swap: "innerHTML" });
  } catch {
    toast("The server could not be reached. Try again.", { level: "error" });
  } finally {
    button.removeAttribute("aria-busy");
  }
});
/** Asks in the page's own dialog; false when the reader keeps things as they are. */
function confirm(text, label) {
  const dialog = $("confirm");
  $("confirm-text").textContent = text;
  dialog.querySelector("[data-confirm-yes]").textContent = label;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

// --- staying current: a websocket says that something changed, the page asks for what it shows ---
const AGAIN = 2000; // ms between two looks, however often the socket says something
let looked = 0, waiting = 0, lost = 0;
function hear() {
  const url = new URL($("batch").dataset.socket, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url);
  socket.onmessage = () => { lost = 0; look(); };
  socket.onclose = (e) => {
    if ([4401, 4403, 4404].includes(e.code)) return;
    setTimeout(hear, Math.min(30000, 1000 * 2 ** lost++) * (0.75 + Math.random() / 2));
  };
}
function look() {
  if (waiting || document.hidden) return;
  waiting = setTimeout(async () => {
    waiting = 0;
    looked = Date.now();
    $("new-runs")?.dispatchEvent(new Event("wm-tick"));
    await refreshRows().catch(() => {}); // the server is away: the socket comes back when it does
  }, Math.max(0, looked + AGAIN - Date.now()));
}
const moving = ["queued", "scheduled", "running", "suspended"];
/** Redraws the rows whose state changed where they are; what is ticked or has the focus keeps it. */
async function refreshRows() {
  const shown = [...document.querySelectorAll("#rows tr[data-run]")];
  if (!shown.some((row) => moving.includes(row.dataset.state))) return;
  const url = new URL($("batch").dataset.filters, location.href);
  url.searchParams.set("rows", "1");
  const answer = await fetch(url, { headers: { "HX-Request": "true" } });
  if (!answer.ok) return;
  const holder = document.createElement("template");
  holder.innerHTML = `<table><tbody>${await answer.text()}</tbody></table>`; // our own template, escaped by the server
  for (const row of shown) {
    const fresh = holder.content.querySelector(`tr[data-run="${row.dataset.run}"]`);
    if (!fresh || fresh.dataset.state === row.dataset.state) continue;
    const held = row.contains(document.activeElement) ? document.activeElement : null;
    fresh.querySelector('[name="id"]').checked = row.querySelector('[name="id"]').checked;
    row.replaceWith(fresh);
    if (held) fresh.querySelector(held.matches("input") ? '[name="id"]' : "a").focus({ preventScroll: true });
  }
}
document.addEventListener("visibilitychange", look);
hear();

// --- chart ---
const token = (n) => getComputedStyle(document.documentElement).getPropertyValue(n);
/** Reads a light-dark() token as a real colour for the canvas. */
function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
const KINDS = [["success", "--ok"], ["running", "--run"], ["canceled", "--idle"], ["skipped", "--idle"], ["failure", "--fail"]];
const HEIGHT = 132;

/** <wm-runs-chart data-src="points" data-base="/w/acme/runs/">: duration of runs over time; a click opens the nearest. */
class RunsChart extends HTMLElement {
  connectedCallback() {
    this.rows = json(this.dataset.src).sort((a, b) => a[0] - b[0]);
    this.draw();
    this.watch = new ResizeObserver(() => { if (this.clientWidth) this.plot.setSize({ width: this.clientWidth, height: HEIGHT }); });
    this.watch.observe(this);
    const again = () => { this.plot.destroy(); this.draw(); };
    this.theme = new MutationObserver(again);
    this.theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.media = matchMedia("(prefers-color-scheme: dark)");
    this.media.onchange = again;
    this.onclick = () => { const i = this.plot.cursor.idx; if (i != null) location.assign(`${this.dataset.base}${this.rows[i][3]}/`); };
  }
  disconnectedCallback() { this.watch.disconnect(); this.theme.disconnect(); this.media.onchange = null; this.plot.destroy(); }
  draw() {
    const rows = this.rows, seconds = rows.map((r) => r[1] / 1000), times = rows.map((r) => r[0]);
    const data = [times, ...KINDS.map(([k]) => rows.map((r, i) => (r[2] === k ? seconds[i] : null)))];
    const low = Math.min(...seconds, .1) * .6, top = Math.max(...seconds, 1) * 1.7;
    // A single run, or several in one second, would make an axis of no length.
    const from = times[0], to = Math.max(times.at(-1), from + 60), pad = (to - from) * .02;
    const days = to - from > 86400, clock = new Intl.DateTimeFormat(undefined, days ? { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false } : { hour: "2-digit", minute: "2-digit", hour12: false });
    const ink = colour("--ink-3"), line = colour("--line"), font = `11px ${token("--font")}`;
    this.plot = new uPlot({
      width: this.clientWidth || 600, height: HEIGHT, padding: [6, 6, 0, 0], legend: { show: false }, cursor: { y: false, points: { size: 9 } },
      scales: { x: { time: true, range: [from - pad, to + pad] }, y: { distr: 3, range: [low, top] } },
      axes: [
        { stroke: ink, font, grid: { show: false }, ticks: { show: false }, size: 24, space: days ? 130 : 90, values: (u, v) => v.map((x) => clock.format(x * 1000)) },
        { stroke: ink, font, size: 54, grid: { stroke: line, width: 1 }, ticks: { show: false }, splits: () => [.001, .01, .1, 1, 10, 60, 600, 3600, 36000].filter((x) => x >= low && x <= top), filter: (u, v) => v, values: (u, v) => v.map((x) => (x < 1 ? `${Math.round(x * 1000)} ms` : x < 60 ? `${x} s` : x < 3600 ? `${x / 60} min` : `${x / 3600} h`)) },
      ],
      series: [{}, ...KINDS.map(([k, c]) => ({ label: k, stroke: colour(c), width: 0, paths: () => null, points: { show: true, size: k === "failure" ? 8 : 6, fill: colour(c), width: 0 } }))],
    }, data, this);
  }
}
customElements.define("wm-runs-chart", RunsChart);
