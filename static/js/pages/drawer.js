// The drawer of a list page: opens when a form arrives in it, closes when that was saved.
const drawer = document.getElementById("drawer");
const isDialog = drawer instanceof HTMLDialogElement;
function show() {
  if (!isDialog || !drawer.firstElementChild) return;
  const title = drawer.querySelector("h2")?.textContent.trim();
  if (title) drawer.setAttribute("aria-label", title);
  if (!drawer.open) drawer.showModal();
  (drawer.querySelector('[aria-invalid="true"]') || drawer.querySelector(".dialog-body :is(input, select, textarea):not([type=hidden])"))?.focus();
}
document.addEventListener("htmx:after:swap", show);
show(); // a form that the address asked for may have arrived before this module did
document.addEventListener("wm-saved", (e) => {
  if (isDialog) drawer.close();
  else if (e.detail.url) location.assign(e.detail.url);
});
// What was typed is not kept: the next form starts from what the server says.
if (isDialog) drawer.addEventListener("close", (e) => { if (e.target === drawer) drawer.replaceChildren(); });
