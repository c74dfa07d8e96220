import { languageOf, load, look } from "../editor-theme.js";
import { json } from "../dom.js";

const QUIET = 400; // ms without typing before "wm-change"
const SMALL = (view) => [view.lineWrapping, view.theme({ "&": { height: "auto" }, ".cm-scroller": { maxHeight: "180px", overflow: "auto" }, ".cm-content": { padding: "5px 0" }, ".cm-line": { padding: "0 8px" } })];

/**
 * <wm-code name="content" language="python3" data-src="code" label="Script"><pre>…</pre></wm-code>
 * Code editor and form field. The text comes from the json_script `data-src`, else from the <pre> inside, which stays
 * readable until the editor is there. The editor lives in a shadow root, where CodeMirror adopts its style sheets, so
 * the page needs no nonce. Attributes: language, readonly, wrap, label, placeholder, data-src, error-line, error-message;
 * `small` is for an expression in a form: no line numbers, as high as its text, and Tab leaves it.
 * Properties: value, diagnostics ([{line, column?, endLine?, endColumn?, message, severity?}], lines and columns from 1),
 * completions ([{label, detail?, type?, apply?, info?}] or an async function(text before the cursor) of such a list, or of
 * {options, typed: the text they replace, isWhole: false when typing on may find others}; null: none).
 * Methods: goto(line, focus?), insert(text), focus(). Events (all bubble): "input" on every change, "wm-change" (detail
 * {value}) 400 ms after the last, "wm-run" on Ctrl-Enter, "wm-save" on Ctrl-S, "wm-ready".
 */
class Code extends HTMLElement {
  static formAssociated = true;
  static observedAttributes = ["language", "readonly", "wrap"];
  #inner = this.attachInternals();
  #cm; #view; #parts = {}; #text = ""; #begin = null; #diagnostics = []; #timer = 0;
  completions = [];

  async connectedCallback() {
    if (this.#view) return;
    if (this.#begin === null) {
      const given = json(this.dataset.src);
      if (!this.#text) this.#text = typeof given === "string" ? given : this.querySelector("pre")?.textContent ?? "";
      this.#begin = this.#text;
    }
    this.#inner.setFormValue(this.#text);
    if (!this.querySelector("pre") && !this.shadowRoot) {
      this.append(Object.assign(document.createElement("pre"), { textContent: this.#text }));
    }
    const cm = (this.#cm = await load());
    const language = await languageOf(cm, this.getAttribute("language"));
    if (!this.isConnected || this.#view) return;
    this.#open(cm, language);
  }
  disconnectedCallback() {
    clearTimeout(this.#timer);
    if (!this.#view) return;
    this.#text = this.value;
    this.#view.destroy();
    this.#view = null;
  }
  async attributeChangedCallback(name) {
    if (!this.#view) return;
    const change = (part, extension) => this.#view?.dispatch({ effects: this.#parts[part].reconfigure(extension) });
    if (name === "language") change("language", await languageOf(this.#cm, this.getAttribute("language")));
    else change(name, this.#mode(name));
  }
  formResetCallback() { this.value = this.#begin; }
  formDisabledCallback(off) { this.toggleAttribute("readonly", off); }

  get name() { return this.getAttribute("name"); }
  get form() { return this.#inner.form; }
  get value() { return this.#view?.state.doc.toString() ?? this.#text; }
  set value(text) {
    this.#text = text ?? "";
    this.#inner.setFormValue(this.#text);
    const view = this.#view;
    if (view && view.state.doc.toString() !== this.#text) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: this.#text }, userEvent: "set" }); // a step of undo of its own
  }
  get diagnostics() { return this.#diagnostics; }
  set diagnostics(list) { this.#diagnostics = list || []; this.#lint(); }

  #mode(name) {
    const { EditorState, EditorView } = this.#cm;
    if (name === "wrap") return this.hasAttribute("wrap") ? EditorView.lineWrapping : [];
    return this.hasAttribute("readonly") ? [EditorState.readOnly.of(true), EditorView.contentAttributes.of({ "aria-readonly": "true" })] : [];
  }
  #open(cm, language) {
    const root = this.shadowRoot || this.attachShadow({ mode: "open" });
    const { EditorView, EditorState, Compartment, keymap } = cm, label = this.getAttribute("label") || "Code", small = this.hasAttribute("small");
    for (const part of ["language", "readonly", "wrap"]) this.#parts[part] = new Compartment();
    const sources = [{ autocomplete: (context) => this.#complete(context) }]; // the same one each time, or late answers are dropped
    const tell = (name) => () => { this.#settle(); this.dispatchEvent(new CustomEvent(name, { bubbles: true })); return true; };
    const state = EditorState.create({
      doc: this.#text,
      extensions: [
        // First, so that ours win over the default bindings. Esc then Tab leaves the editor: nobody is trapped.
        keymap.of([{ key: "Mod-Enter", run: tell("wm-run") }, { key: "Mod-s", run: tell("wm-save"), preventDefault: true }]),
        small ? SMALL(EditorView) : [cm.lineNumbers(), cm.highlightActiveLineGutter(), cm.foldGutter(), cm.highlightActiveLine(), cm.lintGutter()],
        cm.history(), cm.drawSelection(), cm.indentOnInput(), cm.bracketMatching(), cm.closeBrackets(),
        cm.autocompletion(), EditorState.languageData.of(() => sources),
        cm.highlightSelectionMatches(), look(cm),
        keymap.of([...cm.closeBracketsKeymap, ...cm.defaultKeymap, ...cm.searchKeymap, ...cm.historyKeymap, ...cm.foldKeymap, ...cm.completionKeymap, ...cm.lintKeymap, ...(small ? [] : [cm.indentWithTab])]),
        this.#parts.language.of(language), this.#parts.readonly.of(this.#mode("readonly")), this.#parts.wrap.of(this.#mode("wrap")),
        this.hasAttribute("placeholder") ? cm.placeholder(this.getAttribute("placeholder")) : [],
        EditorView.contentAttributes.of({ "aria-label": this.hasAttribute("readonly") || small ? label : `${label}. Press Escape, then Tab, to leave.`, tabindex: "0" }),
        EditorView.domEventHandlers({ beforeinput: (e, view) => replaceSelected(e, view, EditorView) }),
        EditorView.updateListener.of((u) => { if (u.docChanged) this.#changed(); }),
      ],
    });
    this.#view = new EditorView({ state, parent: root, root });
    if (this.getAttribute("error-line")) {
      this.diagnostics = [{ line: +this.getAttribute("error-line"), message: this.getAttribute("error-message") || "The run failed here" }];
      this.goto(+this.getAttribute("error-line"), false);
    } else this.#lint();
    this.toggleAttribute("ready", true);
    performance.mark("editor-ready");
    this.dispatchEvent(new CustomEvent("wm-ready", { bubbles: true }));
  }
  #changed() {
    this.#inner.setFormValue(this.value);
    this.dispatchEvent(new Event("input", { bubbles: true }));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#settle(), QUIET);
  }
  /** Sends the pending "wm-change" at once. */
  #settle() {
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.dispatchEvent(new CustomEvent("wm-change", { bubbles: true, detail: { value: this.value } }));
  }
  async #complete(context) {
    const word = context.matchBefore(/[\w$./:]+/), { completions } = this;
    if (typeof completions !== "function" && !word && !context.explicit) return null;
    const before = context.state.sliceDoc(Math.max(0, context.pos - 500), context.pos);
    const found = typeof completions === "function" ? await completions(before) : completions;
    const options = Array.isArray(found) ? found : found?.options;
    if (!options?.length || (Array.isArray(found) && !word && !context.explicit)) return null;
    if (Array.isArray(found)) return { from: word ? word.from : context.pos, options, validFor: /^[\w$./:]*$/ };
    return { from: context.pos - found.typed.length, options, validFor: found.isWhole ? /^[\w$./:-]*$/ : undefined };
  }
  #lint() {
    const view = this.#view;
    if (!view) return;
    const doc = view.state.doc, place = (line, column) => {
      const l = doc.line(Math.max(1, Math.min(line, doc.lines)));
      return column ? Math.min(l.to, l.from + column - 1) : l.from + Math.max(0, l.text.search(/\S/));
    };
    view.dispatch(this.#cm.setDiagnostics(view.state, this.#diagnostics.map((d) => {
      const from = place(d.line, d.column), last = doc.line(Math.max(1, Math.min(d.endLine || d.line, doc.lines)));
      const to = d.endColumn ? place(d.endLine || d.line, d.endColumn) : last.to;
      return { from, to: Math.max(from, to), severity: d.severity || "error", message: d.message };
    })));
  }

  focus() { this.#view?.focus(); }
  /** Replaces the selection and leaves the cursor behind the text. */
  insert(text) {
    this.#view.dispatch(this.#view.state.replaceSelection(text));
    this.#view.focus();
  }
  /** Moves to a line (from 1), scrolling the editor only, never the page around it. */
  goto(line, focus = true) {
    const view = this.#view, at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines)));
    view.dispatch({ selection: { anchor: at.from } });
    view.requestMeasure({ read: () => view.lineBlockAt(at.from).top, write: (top) => { view.scrollDOM.scrollTop = top - view.scrollDOM.clientHeight / 2; } });
    if (focus) view.contentDOM.focus({ preventScroll: true });
  }
}
/** Text typed over a selection. Left alone, Chromium keeps the replaced text's look in a style attribute, which the policy blocks. */
function replaceSelected(e, view, { inputHandler }) {
  const { from, to } = view.state.selection.main;
  if (e.inputType !== "insertText" || e.data == null || from === to || view.composing || view.state.selection.ranges.length > 1 || view.state.readOnly) return false;
  const plain = () => view.state.update({ changes: { from, to, insert: e.data }, selection: { anchor: from + e.data.length }, userEvent: "input.type", scrollIntoView: true });
  if (!view.state.facet(inputHandler).some((handle) => handle(view, from, to, e.data, plain))) view.dispatch(plain());
  e.preventDefault();
  return true;
}
customElements.define("wm-code", Code);
