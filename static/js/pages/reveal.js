import { csrf, icon, iconHref, toast, copy } from "../dom.js";

// Secrets are not in the page: Reveal asks for one (which is audited) and hides it again after a while.
const HIDDEN = "••••••••";
const timers = new WeakMap();

function hide(box) {
  clearTimeout(timers.get(box));
  box.querySelector("[data-secret-value]").textContent = HIDDEN;
  box.querySelector("[data-secret-copy]")?.remove();
  setButton(box, false);
}
function setButton(box, shown) {
  const button = box.querySelector("[data-reveal]");
  button.setAttribute("aria-pressed", shown);
  button.querySelector("use").setAttribute("href", iconHref(shown ? "eye-off" : "eye"));
}
async function reveal(box, url) {
  const answer = await fetch(url, { method: "POST", headers: { "X-CSRFToken": csrf() } });
  if (!answer.ok) return toast(answer.status === 403 ? "You may not read this secret" : "The secret could not be read", { level: "error" });
  const { value } = await answer.json();
  box.querySelector("[data-secret-value]").textContent = value;
  const copier = Object.assign(document.createElement("button"), { type: "button", className: "btn ghost icon sm", ariaLabel: "Copy the secret" });
  copier.dataset.secretCopy = "";
  copier.append(icon("copy"));
  copier.addEventListener("click", () => copy(value));
  box.append(copier);
  setButton(box, true);
  timers.set(box, setTimeout(() => hide(box), Number(box.dataset.seconds) * 1000));
}
document.addEventListener("click", (e) => {
  const button = e.target.closest?.("[data-reveal]");
  if (!button) return;
  const box = button.closest("[data-secret]");
  if (button.getAttribute("aria-pressed") === "true") hide(box);
  else reveal(box, button.dataset.reveal);
});
