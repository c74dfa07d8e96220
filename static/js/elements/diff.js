import { languageOf, load, look } from "../editor-theme.js";
import { json } from "../dom.js";

/**
 * <wm-diff data-before="a" data-after="b" language="python3" before-label="v3" after-label="Draft" mode="split">
 * What changed between two texts, read-only. Texts come from two json_script ids or the properties `before` and `after`.
 * `mode` is "split" or "unified" (always unified when narrow); the reader can switch. Unchanged stretches are folded.
 */
class Diff extends HTMLElement {
  static observedAttributes = ["mode", "language"];
  #texts = {}; #view; #stop; #drawing = 0; #host;
  get before() { return this.#texts.before ?? ""; }
  set before(v) { this.#texts.before = v ?? ""; this.#draw(); }
  get after() { return this.#texts.after ?? ""; }
  set after(v) { this.#texts.after = v ?? ""; this.#draw(); }

  connectedCallback() {
    this.#texts.before ??= json(this.dataset.before) ?? "";
    this.#texts.after ??= json(this.dataset.after) ?? "";
    if (!this.#host) {
      this.innerHTML = `<div class="df-bar"><span class="df-names"></span><span class="help num df-count" role="status"></span><span class="grow"></span><div class="seg" role="group" aria-label="Layout"><button type="button" data-mode="split">Side by side</button><button type="button" data-mode="unified">Unified</button></div></div><div class="df-host"></div>`;
      const names = this.querySelector(".df-names");
      names.append(this.getAttribute("before-label") || "Before", " → ", this.getAttribute("after-label") || "After");
      this.#host = this.querySelector(".df-host");
      this.#host.attachShadow({ mode: "open" });
      this.querySelector(".seg").addEventListener("click", (e) => { const b = e.target.closest("[data-mode]"); if (b) this.setAttribute("mode", b.dataset.mode); });
    }
    const narrow = matchMedia("(max-width: 860px)"), again = () => this.#draw();
    narrow.addEventListener("change", again);
    this.#stop = () => narrow.removeEventListener("change", again);
    this.#draw();
  }
  disconnectedCallback() { this.#stop?.(); this.#view?.destroy(); this.#view = null; this.#drawing++; }
  attributeChangedCallback() { this.#draw(); }

  async #draw() {
    if (!this.isConnected || !this.#host) return;
    const turn = ++this.#drawing, split = this.getAttribute("mode") !== "unified" && !matchMedia("(max-width: 860px)").matches;
    for (const b of this.querySelectorAll("[data-mode]")) b.setAttribute("aria-pressed", b.dataset.mode === (split ? "split" : "unified"));
    const cm = await load(), [merge, language] = await Promise.all([cm.merge(), languageOf(cm, this.getAttribute("language"))]);
    if (turn !== this.#drawing || !this.isConnected) return;
    this.#view?.destroy();
    const { EditorState, EditorView } = cm, root = this.#host.shadowRoot;
    const common = (label) => [cm.lineNumbers(), look(cm), language, EditorState.readOnly.of(true), EditorView.contentAttributes.of({ "aria-label": label, "aria-readonly": "true", tabindex: "0" })];
    const fold = { margin: 3, minSize: 6 }, before = this.getAttribute("before-label") || "Before", after = this.getAttribute("after-label") || "After";
    if (split) {
      this.#view = new merge.MergeView({ a: { doc: this.before, extensions: common(before) }, b: { doc: this.after, extensions: common(after) }, parent: root, root, collapseUnchanged: fold, gutter: true });
    } else {
      this.#view = new EditorView({ state: EditorState.create({ doc: this.after, extensions: [common(after), merge.unifiedMergeView({ original: this.before, mergeControls: false, collapseUnchanged: fold, gutter: true })] }), parent: root, root });
    }
    const chunks = split ? this.#view.chunks : merge.getChunks(this.#view.state).chunks;
    const lines = (doc, from, to) => (from === to ? 0 : doc.lineAt(Math.max(from, Math.min(to, doc.length + 1) - 1)).number - doc.lineAt(from).number + 1);
    const a = EditorState.create({ doc: this.before }).doc, b = EditorState.create({ doc: this.after }).doc;
    let added = 0, removed = 0;
    for (const c of chunks) { removed += lines(a, c.fromA, c.toA); added += lines(b, c.fromB, c.toB); }
    this.querySelector(".df-count").textContent = chunks.length ? `+${added} −${removed}` : "No difference";
    this.toggleAttribute("ready", true);
  }
}
customElements.define("wm-diff", Diff);
