// The form that runs a script.
import "../elements/schema-form.js";
import { json } from "../dom.js";
import { toast } from "../app.js";

const form = document.getElementById("run-form"), args = document.getElementById("args");
const later = document.getElementById("later"), iso = document.getElementById("later-iso"), button = document.getElementById("run-button");
const caption = button.querySelector("span"), runs = caption.textContent;

// <input type=datetime-local> has no zone: the server gets the moment.
const local = (moment) => new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
if (iso.value && !isNaN(new Date(iso.value))) later.value = local(new Date(iso.value));
later.min = local(new Date());
later.addEventListener("input", () => {
  const moment = later.value ? new Date(later.value) : null;
  iso.value = moment && !isNaN(moment) ? moment.toISOString() : "";
  caption.textContent = moment ? runs.replace(/^Run /, "Schedule ") : runs;
});

form.addEventListener("submit", (e) => {
  if (!args.validate()) return e.preventDefault();
  button.setAttribute("aria-busy", "true");
});
// Coming back by the history button must not find a dead button.
addEventListener("pageshow", () => button.removeAttribute("aria-busy"));
document.addEventListener("keydown", (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key === "Enter" && !document.querySelector("dialog[open]")) { e.preventDefault(); form.requestSubmit(); }
});
const recent = json("recent-args");
document.addEventListener("click", (e) => {
  const chosen = e.target.closest("[data-fill]");
  if (!chosen) return;
  args.value = recent[+chosen.dataset.fill];
  args.errors = {};
  toast("The form has the inputs of that run");
});
// The server refused: show every message, go to the first.
if (Object.keys(json("args-errors") || {}).length) customElements.whenDefined("wm-schema-form").then(() => args.updateComplete).then(() => args.validate());
