// The id follows the name until somebody edits it: "Acme production" suggests acme-production.
const form = document.querySelector("[data-suggest-id]");
const name = form.elements.namedItem("name"), id = form.elements.namedItem("id");
let own = id.value !== "";
id.addEventListener("input", () => { own = id.value !== ""; });
name.addEventListener("input", () => {
  if (own) return;
  id.value = name.value.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase().replace(/[^a-z0-9_]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 50);
});
