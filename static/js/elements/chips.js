// <wm-chips data-noun="tag" data-list="id of a datalist" data-src="address of suggestions">: the textarea inside holds a
// list, a line each; people see chips and a field that adds one. Without this script the textarea is what they edit.
import { icon } from "../dom.js";

const WAIT_MS = 200;

class Chips extends HTMLElement {
  connectedCallback() {
    this.area = this.querySelector("textarea");
    if (!this.area || this.box) return;
    const noun = this.dataset.noun || "entry";
    this.entry = Object.assign(document.createElement("input"), { type: "text", id: `${this.area.id}-entry`, autocomplete: "off", spellcheck: false, placeholder: `Add a ${noun}` });
    for (const name of ["aria-describedby", "aria-invalid"]) if (this.area.hasAttribute(name)) this.entry.setAttribute(name, this.area.getAttribute(name));
    const label = document.querySelector(`label[for="${this.area.id}"]`);
    if (label) label.htmlFor = this.entry.id;
    this.listName = label?.textContent.trim() || noun;
    this.suggestions = this.dataset.src ? document.createElement("datalist") : document.getElementById(this.dataset.list);
    if (this.dataset.src) {
      this.suggestions.id = `${this.area.id}-suggestions`;
      this.append(this.suggestions);
    }
    if (this.suggestions) this.entry.setAttribute("list", this.suggestions.id);
    this.chips = Object.assign(document.createElement("ul"), { ariaLabel: this.listName });
    this.chips.setAttribute("aria-label", this.listName);
    this.said = Object.assign(document.createElement("span"), { className: "vh" });
    this.said.setAttribute("role", "status");
    this.box = Object.assign(document.createElement("div"), { className: "chips" });
    this.box.append(this.chips, this.entry, this.said);
    this.append(this.box);
    this.area.hidden = true;
    this.items = this.area.value.split("\n").map((line) => line.trim()).filter(Boolean);
    this.draw();
    this.entry.addEventListener("keydown", (e) => this.pressed(e));
    this.entry.addEventListener("input", (e) => this.typed(e));
    this.entry.addEventListener("paste", (e) => this.pasted(e));
    // What was typed and not confirmed is meant all the same when the form is sent.
    this.entry.addEventListener("change", () => this.add(this.entry.value));
    this.box.addEventListener("click", (e) => {
      if (e.target === this.box || e.target === this.chips) this.entry.focus();
    });
    if (this.dataset.src) this.entry.addEventListener("focus", () => this.suggest(), { once: true });
  }

  draw() {
    this.chips.hidden = !this.items.length;
    this.chips.replaceChildren(
      ...this.items.map((text, index) => {
        const chip = Object.assign(document.createElement("li"), { className: "chip" });
        const words = Object.assign(document.createElement("span"), { className: "mono", textContent: text });
        const button = Object.assign(document.createElement("button"), { type: "button" });
        button.setAttribute("aria-label", `Remove ${text}`);
        button.append(icon("x"));
        button.addEventListener("click", () => this.remove(index));
        chip.append(words, button);
        return chip;
      }),
    );
  }

  add(typed) {
    const fresh = typed.split("\n").map((line) => line.trim()).filter((line) => line && !this.items.includes(line));
    this.entry.value = "";
    if (!fresh.length) return;
    this.items.push(...fresh);
    this.changed(`${fresh.join(", ")} added`);
  }

  remove(index) {
    const [text] = this.items.splice(index, 1);
    this.changed(`${text} removed`);
    (this.chips.querySelectorAll("button")[index] || this.entry).focus();
  }

  changed(said) {
    this.area.value = this.items.join("\n");
    this.said.textContent = said;
    this.draw();
    this.area.dispatchEvent(new Event("input", { bubbles: true }));
  }

  pressed(e) {
    if (e.key === "Enter" && this.entry.value.trim()) {
      e.preventDefault();
      this.add(this.entry.value);
    } else if (e.key === "Backspace" && !this.entry.value && this.items.length) this.remove(this.items.length - 1);
  }

  typed(e) {
    e.stopPropagation(); // the list itself has not changed yet
    // A suggestion that was chosen comes in one piece, not letter by letter.
    const isChosen = e.inputType === "insertReplacementText" || !e.inputType;
    if (isChosen && this.offers(this.entry.value)) return this.add(this.entry.value);
    if (this.dataset.src) {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.suggest(), WAIT_MS);
    }
  }

  pasted(e) {
    const text = e.clipboardData.getData("text");
    if (!text.includes("\n")) return;
    e.preventDefault();
    this.add(text);
  }

  offers(text) {
    return [...(this.suggestions?.options || [])].some((option) => option.value === text);
  }

  async suggest() {
    const asked = this.entry.value;
    const answer = await fetch(`${this.dataset.src}?q=${encodeURIComponent(asked)}`, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!answer?.ok || this.entry.value !== asked) return;
    this.suggestions.replaceChildren(...(await answer.json()).map((value) => Object.assign(document.createElement("option"), { value })));
  }
}
customElements.define("wm-chips", Chips);
