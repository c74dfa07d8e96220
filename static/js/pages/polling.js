// A part that refreshes itself (hx-trigger="every 5s", data-pause-hidden) rests while nobody sees the tab.
document.addEventListener("htmx:config:request", (e) => {
  const { sourceElement, sourceEvent } = e.detail.ctx;
  if (document.hidden && sourceEvent?.type === "every" && sourceElement.matches("[data-pause-hidden]")) e.preventDefault();
});
