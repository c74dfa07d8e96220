// The form of a worker group: rows that come and go, values that are hidden, and a question before changes are lost.
import { csrf, toast } from "../dom.js";

const form = document.querySelector("form[data-group-form]");
let isDirty = form?.dataset.dirty === "yes";

form?.addEventListener("input", () => (isDirty = true));
form?.addEventListener("submit", () => (isDirty = false));
addEventListener("beforeunload", (e) => {
  if (isDirty) e.preventDefault();
});

/** A new empty row of a list of pairs, from its template. */
function addRow(list) {
  const row = list.querySelector("template").content.firstElementChild.cloneNode(true);
  list.querySelector("[data-rows]").append(row);
  row.querySelector("input, textarea").focus();
}
function removeRow(row) {
  const list = row.closest("[data-pairs]");
  const next = row.nextElementSibling || row.previousElementSibling;
  row.remove();
  (next?.querySelector("[data-remove-row]") || list.querySelector("[data-add-row]")).focus();
  isDirty = true;
}

/** Fill the values that the page does not hold, once, and show them all. */
async function show(list, button) {
  if (!list.dataset.filled) {
    const answer = await fetch(button.dataset.reveal, { method: "POST", headers: { "X-CSRFToken": csrf() } });
    if (!answer.ok) return toast("The values could not be read", { level: "error" });
    const values = await answer.json();
    for (const row of list.querySelectorAll("[data-rows] > [data-row]")) {
      const was = row.querySelector("[data-was]")?.value;
      const value = row.querySelector("[data-value]");
      if (was && was in values && !value.value) value.value = values[was];
    }
    list.dataset.filled = "yes";
  }
  setShown(list, button, true);
}
function setShown(list, button, isShown) {
  list.classList.toggle("shown", isShown);
  button.setAttribute("aria-pressed", isShown);
}

document.addEventListener("click", (e) => {
  const button = e.target.closest?.("button");
  if (!button) return;
  const list = button.closest("[data-pairs]");
  if (button.matches("[data-add-row]")) addRow(list);
  else if (button.matches("[data-add-lines]")) document.getElementById(button.dataset.to).closest("wm-chips").add(button.dataset.addLines);
  else if (button.matches("[data-remove-row]")) removeRow(button.closest("[data-row]"));
  else if (button.matches("[data-reveal]") && list) {
    if (button.getAttribute("aria-pressed") === "true") setShown(list, button, false);
    else show(list, button);
  }
});
form?.querySelector("[data-review]")?.focus();
if (!form?.querySelector("[data-review]")) form?.querySelector('[aria-invalid="true"]:not([hidden])')?.focus();
