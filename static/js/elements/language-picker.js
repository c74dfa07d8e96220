import { icon, json } from "../dom.js";

let count = 0;

/**
 * <wm-language data-src="languages" value="bun" label="Language">: chooses among languages, in groups, by typing a part of
 * the name. Languages that no live worker can run say why, and can be chosen all the same.
 * Data: {languages: [{id, name, group, problem}], note}; by `data-src` or the property `data`. Property: value.
 * Event (bubbles): "change", after a choice of another language.
 */
class LanguagePicker extends HTMLElement {
  static observedAttributes = ["value"];
  #data = { languages: [], note: "" }; #button; #pop; #field; #list; #empty; #built = false;

  connectedCallback() {
    if (this.#built) return;
    this.#built = true;
    this.#data = json(this.dataset.src) || this.#data;
    this.#build();
  }
  attributeChangedCallback() { this.#say(); }

  get data() { return this.#data; }
  set data(data) { this.#data = data; this.#say(); }
  get value() { return this.getAttribute("value") || ""; }
  set value(id) { if (id !== this.value) this.setAttribute("value", id); }
  /** The language that is chosen; one that is not offered (any more) has its id for a name. */
  get chosen() { return this.#data.languages.find((l) => l.id === this.value) || { id: this.value, name: this.value, problem: "" }; }
  focus() { this.#button?.focus(); }

  #build() {
    const id = `language-${++count}`, make = (tag, fields, ...inside) => { const el = Object.assign(document.createElement(tag), fields); el.append(...inside); return el; };
    this.#button = make("button", { type: "button", className: "btn sm language-button", ariaHasPopup: "listbox" });
    this.#field = make("input", { className: "input", type: "text", autocomplete: "off", spellcheck: false, placeholder: "Find a language", role: "combobox", ariaLabel: "Find a language", ariaAutoComplete: "list", ariaExpanded: "true" });
    this.#list = make("div", { id: `${id}-list`, role: "listbox", ariaLabel: "Languages", className: "language-list" });
    this.#empty = make("p", { className: "help", hidden: true, textContent: "No language of this name can be written here." });
    this.#field.setAttribute("aria-controls", this.#list.id);
    this.#pop = make("div", { id, className: "pop start language-pop", popover: "auto" }, this.#field, this.#list, this.#empty);
    if (this.#data.note) this.#pop.append(make("p", { className: "help", textContent: this.#data.note }));
    this.#button.setAttribute("popovertarget", id);
    this.#button.addEventListener("keydown", (e) => { if (e.key === "ArrowDown") { e.preventDefault(); this.#pop.showPopover({ source: this.#button }); } });
    this.#pop.addEventListener("toggle", (e) => { if (e.newState === "open") { this.#field.value = ""; this.#draw(); this.#field.focus(); } });
    this.#field.addEventListener("input", (e) => { e.stopPropagation(); this.#draw(); });
    this.#field.addEventListener("change", (e) => e.stopPropagation());
    this.#field.addEventListener("keydown", (e) => this.#key(e));
    this.#list.addEventListener("click", (e) => { const option = e.target.closest("[role=option]"); if (option) this.#choose(option.dataset.id); });
    this.#list.addEventListener("pointermove", (e) => { const option = e.target.closest("[role=option]"); if (option && option.ariaSelected !== "true") this.#point(option, false); });
    this.replaceChildren(this.#button, this.#pop);
    this.#say();
  }
  #say() {
    if (!this.#button) return;
    const { name, problem } = this.chosen;
    this.#button.replaceChildren(Object.assign(document.createElement("span"), { className: "clip", textContent: name }), ...(problem ? [icon("triangle-alert", "i warn")] : []), icon("chevron-down"));
    this.#button.setAttribute("aria-label", `${this.getAttribute("label") || "Language"}: ${name}`);
    this.#button.title = problem;
  }
  #draw() {
    const words = this.#field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.#data.languages.filter((l) => words.every((w) => `${l.name} ${l.id} ${l.group}`.toLowerCase().includes(w)));
    const groups = [...new Set(found.map((l) => l.group))].map((name) => {
      const group = Object.assign(document.createElement("div"), { role: "group", ariaLabel: name });
      group.append(Object.assign(document.createElement("p"), { className: "pop-head", textContent: name, ariaHidden: "true" }), ...found.filter((l) => l.group === name).map((l) => this.#option(l)));
      return group;
    });
    this.#list.replaceChildren(...groups);
    this.#list.hidden = !(this.#empty.hidden = found.length > 0);
    const options = this.#options();
    this.#point((words.length ? null : options.find((o) => o.dataset.id === this.value)) || options[0]);
  }
  #option({ id, name, problem }) {
    const option = Object.assign(document.createElement("div"), { role: "option", id: `${this.#list.id}-${id}`, ariaSelected: "false", className: "language-option" });
    option.dataset.id = id;
    option.append(Object.assign(document.createElement("b"), { textContent: name }));
    if (id === this.value) option.append(icon("check"));
    if (problem) option.append(Object.assign(document.createElement("small"), { textContent: problem }));
    return option;
  }
  #options() { return [...this.#list.querySelectorAll("[role=option]")]; }
  #point(option, scroll = true) {
    for (const o of this.#options()) o.setAttribute("aria-selected", o === option);
    if (option) this.#field.setAttribute("aria-activedescendant", option.id);
    else this.#field.removeAttribute("aria-activedescendant");
    if (scroll && option) this.#list.scrollTop = Math.max(0, option.offsetTop - this.#list.clientHeight / 2);
  }
  #key(e) {
    const all = this.#options(), at = all.findIndex((o) => o.ariaSelected === "true");
    const to = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length, Home: 0, End: all.length - 1 }[e.key];
    if (to !== undefined && all.length && !((e.key === "Home" || e.key === "End") && this.#field.value)) { e.preventDefault(); this.#point(all[to]); }
    if (e.key === "Enter") { e.preventDefault(); if (all[at]) this.#choose(all[at].dataset.id); }
  }
  #choose(id) {
    this.#pop.hidePopover();
    this.#button.focus();
    if (id === this.value) return;
    this.value = id;
    this.dispatchEvent(new Event("change", { bubbles: true }));
  }
}
customElements.define("wm-language", LanguagePicker);
