// The shell: theme, palette, keys, tabs, dialogs, confirmation, copying, clocks. Behaviour hangs on data-* attributes,
// listened to once on the document, so parts that htmx swaps in work without being bound.
import { copy, csrf, icon, toast } from "./dom.js";
import { ago, duration } from "./format.js";

export { toast };
const root = document.documentElement;

// --- theme ---
function setTheme(choice) {
  root.dataset.theme = choice;
  document.cookie = `theme=${choice}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
  for (const b of document.querySelectorAll("[data-set-theme]")) b.setAttribute("aria-checked", b.dataset.setTheme === choice);
  rove(document.querySelector("[role=radiogroup] [data-set-theme]")?.closest("[role=radiogroup]"));
}
/** Only the chosen radio is a tab stop; arrows move between them. */
function rove(group) {
  const all = [...(group?.querySelectorAll("[role=radio]") || [])];
  const on = all.find((b) => b.ariaChecked === "true") || all[0];
  for (const b of all) b.tabIndex = b === on ? 0 : -1;
}
document.querySelectorAll("[role=radiogroup]").forEach(rove);

// --- palette ---
const palette = document.getElementById("palette");
const field = palette?.querySelector("input");
const options = () => [...palette.querySelectorAll("[role=option]:not([aria-disabled])")];
function openPalette() {
  if (!palette || palette.open) return;
  document.querySelector("dialog[open]")?.close();
  field.value = "";
  palette.showModal();
  field.dispatchEvent(new Event("palette-open"));
}
function choose(next) {
  options().forEach((o) => o.setAttribute("aria-selected", o === next));
  next?.scrollIntoView({ block: "nearest" });
  next ? field.setAttribute("aria-activedescendant", next.id) : field.removeAttribute("aria-activedescendant");
}
palette?.addEventListener("keydown", (e) => {
  const all = options(), at = all.findIndex((o) => o.ariaSelected === "true");
  if (e.key === "ArrowDown" || e.key === "ArrowUp") {
    e.preventDefault();
    if (all.length) choose(all[(at + (e.key === "ArrowDown" ? 1 : -1) + all.length) % all.length]);
  }
  if (e.key === "Enter") {
    e.preventDefault();
    const link = all[at]?.querySelector("a");
    if (link && (e.ctrlKey || e.metaKey)) window.open(link.href, "_blank", "noopener");
    else link?.click();
  }
});
palette?.addEventListener("htmx:after:swap", () => choose(options()[0]));

// --- tabs ---
/** Shows the panel of `tab` and hides those of its siblings; tells the panel with a "wm-show" event. */
export function selectTab(tab) {
  for (const t of tab.closest("[role=tablist]").querySelectorAll("[role=tab]")) {
    const on = t === tab, panel = document.getElementById(t.getAttribute("aria-controls"));
    t.setAttribute("aria-selected", on);
    t.tabIndex = on ? 0 : -1;
    if (panel) panel.hidden = !on;
    if (on && panel) panel.dispatchEvent(new CustomEvent("wm-show", { bubbles: true }));
  }
}

// --- confirmation ---
let confirmed = null;
function askFirst(control) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("#confirm-text").textContent = control.dataset.confirm;
  dialog.querySelector("[data-confirm-yes]").textContent = control.dataset.confirmLabel || control.textContent.trim() || "Confirm";
  dialog.returnValue = "";
  dialog.showModal();
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "yes" || !control.isConnected) return;
    confirmed = control;
    control.click();
    confirmed = null;
  }, { once: true });
}
// Capture: before htmx and before the form sees the click.
document.addEventListener("click", (e) => {
  const control = e.target.closest?.("[data-confirm]");
  if (!control || control === confirmed || control.disabled) return;
  e.preventDefault();
  e.stopImmediatePropagation();
  askFirst(control);
}, true);

// --- clicks ---
document.addEventListener("click", (e) => {
  const hit = (selector) => e.target.closest?.(selector);
  const theme = hit("[data-set-theme]");
  if (theme) setTheme(theme.dataset.setTheme);
  if (hit("[data-palette]")) openPalette();
  const tab = hit('[role="tab"][aria-controls]');
  if (tab) selectTab(tab);
  const opener = hit("[data-open]");
  if (opener) {
    opener.closest("[popover]:popover-open:not(.side)")?.hidePopover();
    document.getElementById(opener.dataset.open)?.showModal();
  }
  if (hit("[data-close]")) hit("dialog")?.close();
  if (e.target.matches?.("dialog.palette[open], dialog.dialog[open], dialog.drawer[open]") && outside(e)) e.target.close();
  const copier = hit("[data-copy], [data-copy-from]");
  if (copier) copyFrom(copier);
  // A choice in a menu closes it; a link navigates anyway.
  if (hit(".pop li > button:not([popovertarget])")) hit("[popover]")?.hidePopover();
});
/** True when the click fell on the backdrop, not inside the dialog's box. */
function outside(e) {
  const box = e.target.getBoundingClientRect();
  return e.clientX < box.left || e.clientX > box.right || e.clientY < box.top || e.clientY > box.bottom
    || e.target.classList.contains("palette");
}
async function copyFrom(button) {
  const source = button.dataset.copyFrom && document.querySelector(button.dataset.copyFrom);
  await copy(source ? source.value ?? source.textContent : button.dataset.copy);
  const use = button.querySelector("use");
  if (!use) return;
  const before = use.getAttribute("href");
  use.setAttribute("href", `${before.split("#")[0]}#check`);
  setTimeout(() => use.setAttribute("href", before), 1500);
}

// --- keys ---
let prefix = 0; // when `g` was pressed, in ms
const typing = (el) => el.closest?.("input, textarea, select, [contenteditable], wm-code, [role=textbox]");
document.addEventListener("keydown", (e) => {
  const control = e.ctrlKey || e.metaKey;
  if (control && e.key.toLowerCase() === "k") { e.preventDefault(); return openPalette(); }
  const tab = e.target.closest?.('[role="tab"], [role="radio"]');
  if (tab && ["ArrowLeft", "ArrowRight", "Home", "End"].includes(e.key)) {
    const all = [...tab.closest("[role=tablist], [role=radiogroup]").querySelectorAll('[role="tab"], [role="radio"]')];
    const at = all.indexOf(tab), step = e.key === "ArrowRight" ? 1 : -1;
    const to = e.key === "Home" ? 0 : e.key === "End" ? all.length - 1 : (at + step + all.length) % all.length;
    e.preventDefault();
    all[to].focus();
    all[to].click();
    return;
  }
  if (control || e.altKey || e.defaultPrevented || typing(e.target) || document.querySelector("dialog[open]")) return;
  if (prefix && Date.now() - prefix < 1500) {
    const link = document.querySelector(`[data-go="${CSS.escape(e.key)}"]`);
    prefix = 0;
    if (link) { e.preventDefault(); return link.click(); }
  }
  if (e.key === "g") prefix = Date.now();
  else if (e.key === "?") document.getElementById("keys")?.showModal();
  else if (e.key === "/") {
    const filter = document.querySelector("[data-filter]");
    if (filter) { e.preventDefault(); filter.focus(); filter.select?.(); }
  }
});

// --- clocks: <time data-ago> every 15 s, <time data-elapsed> every second ---
function tick(all) {
  if (document.hidden) return;
  for (const t of document.querySelectorAll("time[data-elapsed]")) t.textContent = duration(Math.max(0, Math.floor((Date.now() - new Date(t.dateTime)) / 1000)) * 1000);
  if (all) for (const t of document.querySelectorAll("time[data-ago]")) t.textContent = ago(t.dateTime);
}
/** Tooltips say moments in the reader's own zone. */
function localTitles(scope) {
  for (const t of scope.querySelectorAll?.("time[data-ago]") || []) {
    t.title = new Date(t.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  }
}
localTitles(document);
let beats = 0;
setInterval(() => tick(++beats % 15 === 0), 1000);
document.addEventListener("visibilitychange", () => tick(true));

// --- workspace colours come as data: the policy forbids style attributes ---
for (const dot of document.querySelectorAll("[data-color]")) {
  if (CSS.supports("color", dot.dataset.color)) Object.assign(dot.style, { background: dot.dataset.color, color: "#fff", textShadow: "0 0 2px #000" });
}

// --- htmx ---
document.addEventListener("htmx:config:request", (e) => { e.detail.ctx.request.headers["X-CSRFToken"] = csrf(); });
document.addEventListener("htmx:error", () => toast("The server could not be reached. Try again.", { level: "error" }));
document.addEventListener("htmx:after:swap", (e) => localTitles(e.target instanceof Element ? e.target : document));
// Anything may raise a toast: element.dispatchEvent(new CustomEvent("wm-toast", {bubbles: true, detail: {text, level, href}})).
document.addEventListener("wm-toast", (e) => toast(e.detail.text, e.detail));

// Messages that the server rendered leave like the others, errors stay until dismissed.
for (const item of document.querySelectorAll("#toasts > .toast")) {
  const close = Object.assign(document.createElement("button"), { type: "button", ariaLabel: "Dismiss" });
  close.append(icon("x"));
  close.addEventListener("click", () => item.remove());
  item.append(close);
  if (item.dataset.level !== "error") setTimeout(() => item.remove(), 6000);
}
