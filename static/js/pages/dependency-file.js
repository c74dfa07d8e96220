// A dependency file: Ctrl-S in the editor saves; of a new file, the editor and the example follow the language.
import "../elements/code.js";
import { json } from "../dom.js";

const form = document.getElementById("file-form"), editor = document.getElementById("content");
editor.addEventListener("wm-save", () => document.getElementById("save")?.click());
const language = form.elements.namedItem("language");
language?.addEventListener("change", () => {
  editor.setAttribute("language", json("highlighted")[language.value] || "");
  document.getElementById("example").textContent = `${json("comments")[language.value]} web`;
});
