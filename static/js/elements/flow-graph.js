import { LitElement, html, svg, nothing, repeat, guard } from "../../vendor/lit.js";
import { css } from "../css.js";
import { iconHref, json } from "../dom.js";
import { layout, everyModule, bodies, NODE } from "../flow-layout.js";
import { title, subtitle, nodeIcon, marks } from "../flow-module.js";
import { statusWord } from "../status.js";
import { duration } from "../format.js";

const MANY = 300; // steps above which loops and branches are folded at first
const READABLE = 0.78; // smallest scale that is chosen without being asked
const ico = (name, cls = "") => html`<svg class="i ${cls}" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
const box = (o, w = o.w, h = o.h) => css({ left: `${o.x}px`, top: `${o.y}px`, width: `${w}px`, height: `${h}px` });
const isOver = (status) => ["success", "failure", "skipped", "canceled"].includes(status);
/** Fewer squares where the numbers beside them are long. */
const around = ({ shown, at, total }) => {
  if (total < 1000 || shown.length <= 7) return shown;
  const middle = shown.findIndex((s) => s.n === at), from = Math.max(0, Math.min(middle - 3, shown.length - 7));
  return shown.slice(from, from + 7);
};
const swallow = (e) => { e.stopPropagation(); e.preventDefault(); };
const PENDING = Object.freeze({ status: "pending" });

/**
 * <wm-flow-graph data-src="id" selected="e">: a flow as a picture; viewer and, with `editable`, the face of an editor.
 *
 * Properties: value (FlowValue JSON), states {step id: State}, selected, editable, errors {step id: sentence}.
 * State: {status, duration_ms?, started_at?, retries?, branch? (index or "default"), note?,
 *         iterations? {total, done, failed, at, shown: [{n, status}]}}; a step without one has not started.
 * patch(states) merges changed states: only their nodes, edges and strips are touched. fit(whole), zoom(factor), reveal(id).
 * Events (they bubble): wm-select {id}, wm-open {id} (Enter or a double click), wm-iteration {id, n}, wm-iterations {id} (all of them).
 * An editor never changes `value` itself; it asks for it: wm-flow-add {list, index, anchor}, wm-flow-remove {id},
 * wm-flow-move {id, list, index}, wm-flow-shift {id, by: 1 or -1}, wm-flow-copy|cut|paste {id}, wm-flow-undo, wm-flow-redo.
 * `list` is the place of an array of modules in the value: ["modules", 1, "value", "branches", 0, "modules"].
 */
class FlowGraph extends LitElement {
  static properties = {
    value: { attribute: false }, states: { attribute: false }, errors: { attribute: false }, selected: { reflect: true },
    editable: { type: Boolean }, collapsed: { state: true }, plan: { state: true }, focused: { state: true }, drop: { state: true },
  };
  view = { x: 0, y: 0, k: 1 };
  #moved = false; // the reader chose what to look at: do not take it from them
  #seen = null;
  #pointers = new Map(); // pointer id -> its last place
  #drag = null;
  createRenderRoot() { return this; }

  connectedCallback() {
    super.connectedCallback();
    this.value ??= json(this.dataset.src);
    this.states ??= json(this.dataset.states) ?? {};
    this.errors ??= {};
    this.setAttribute("role", "group");
    if (!this.hasAttribute("aria-label")) this.setAttribute("aria-label", "Graph of the flow. Arrow keys move between steps, plus and minus zoom, 0 shows everything.");
    this.addEventListener("pointerdown", this.#down);
    this.addEventListener("wheel", this.#wheel, { passive: false });
    this.addEventListener("keydown", this.#keys);
    this.addEventListener("scroll", this.#scrolled);
    this.#seen = new ResizeObserver(() => { if (this.#moved) this.#apply(); else this.fit(); });
    this.#seen.observe(this);
  }
  disconnectedCallback() {
    super.disconnectedCallback();
    this.#seen.disconnect();
    this.removeEventListener("pointerdown", this.#down);
    this.removeEventListener("wheel", this.#wheel);
    this.removeEventListener("keydown", this.#keys);
    this.removeEventListener("scroll", this.#scrolled);
  }

  willUpdate(changed) {
    if (changed.has("value") && !this.collapsed) {
      const all = [...everyModule(this.value)];
      this.collapsed = new Set(all.length > MANY ? all.filter((m) => bodies(m.module).length).map((m) => m.module.id) : []);
    }
    if (changed.has("selected") && this.selected) this.#unfold(this.selected);
    if (changed.has("value") || changed.has("collapsed") || changed.has("editable")) {
      const before = performance.now();
      this.plan = layout(this.value, { collapsed: this.collapsed, roomy: this.editable });
      this.layoutMs = performance.now() - before;
      if (!this.plan.nodes.some((n) => n.id === this.focused)) this.focused = undefined;
    }
  }
  updated(changed) {
    this.#apply();
    if (!changed.has("plan")) return;
    const before = changed.get("plan");
    if (!before) return this.fit();
    if (!this.editable || !changed.has("value")) return;
    // What is edited stays where it is: a wider branch moves the axis of the whole picture.
    const start = (plan) => plan.pills.find((l) => l.key === "inputs"), { k } = this.view;
    this.view = { k, x: this.view.x + (start(before).x - start(this.plan).x) * k, y: this.view.y + (start(before).y - start(this.plan).y) * k };
    this.#apply();
  }
  state(id) { return this.states?.[id] ?? PENDING; }
  #status(id) { return this.state(id).status; }
  #tell(name, detail) { return this.dispatchEvent(new CustomEvent(name, { bubbles: true, detail })); }

  /** Merge changed states; what did not change is not drawn again. */
  patch(states) {
    this.states = { ...this.states, ...states };
  }

  render() {
    const p = this.plan;
    if (!p) return nothing;
    const home = this.focused ?? (p.nodes.some((n) => n.id === this.selected) ? this.selected : p.nodes[0]?.id);
    return html`
      <div class="fg-world" ${css({ width: `${p.w}px`, height: `${p.h}px` })}>
        ${repeat(p.boxes, (b) => b.id, (b) => this.#box(b))}
        <svg class="fg-edges" width=${p.w} height=${p.h} aria-hidden="true">${repeat(p.edges, (e) => e.key, (e) => this.#edge(e))}</svg>
        ${repeat(p.dots, (d) => d.key, (d) => html`<i class="fg-dot" ${css({ left: `${d.x - 4}px`, top: `${d.y - 4}px` })}></i>`)}
        ${repeat(p.pills, (l) => l.key, (l) => this.#pill(l))}
        ${repeat(p.nodes, (n) => n.id, (n) => this.#node(n, n.id === home))}
        ${repeat(p.strips, (s) => s.id, (s) => this.#strip(s))}
        ${this.editable ? p.slots.map((s) => this.#slot(s)) : nothing}
      </div>
      <svg class="fg-map" viewBox="-30 -30 ${p.w + 60} ${p.h + 60}" aria-hidden="true" @pointerdown=${this.#mapGo}>${repeat(p.nodes, (n) => n.id, (n) => { const status = this.#status(n.id); return guard([status, n], () => svg`<rect data-status=${status} x=${n.x} y=${n.y} width=${NODE.w} height=${NODE.h} rx="12" />`); })}<rect class="fg-window" rx="16" /></svg>
      <div class="fg-tools" role="toolbar" aria-label="Zoom">
        ${p.nodes.some((n) => n.container) ? html`<button class="btn ghost icon" type="button" aria-label=${this.collapsed.size ? "Unfold all loops and branches" : "Fold all loops and branches"} title=${this.collapsed.size ? "Unfold all" : "Fold all"} @click=${this.#foldAll}>${ico(this.collapsed.size ? "chevrons-up-down" : "rows-3")}</button>` : nothing}
        <button class="btn ghost icon" type="button" aria-label="Zoom out" @click=${() => this.zoom(1 / 1.2)}>${ico("minus")}</button>
        <span class="fg-zoom num"></span>
        <button class="btn ghost icon" type="button" aria-label="Zoom in" @click=${() => this.zoom(1.2)}>${ico("plus")}</button>
        <button class="btn ghost icon" type="button" aria-label="Show the whole flow" @click=${() => this.fit(true)}>${ico("maximize")}</button>
      </div>`;
  }
  #box(b) {
    const status = b.role === "failure" ? "pending" : this.#status(b.id);
    return guard([b, status], () => html`<div class="fg-box ${b.role ?? ""}" data-status=${status} ${box(b)}></div>`);
  }
  #edge(e) {
    const status = this.#edgeStatus(e);
    return guard([e, status], () => svg`<path class="fg-edge ${status}" d=${e.d} />`);
  }
  /** done: was gone along; running: is gone along now; skipped: leads to a branch that was not chosen. */
  #edgeStatus({ from, to, branch }) {
    if (branch) {
      const chosen = this.state(branch.id).branch, over = this.#status(branch.id);
      if (chosen !== undefined && chosen !== null && chosen !== branch.branch) return "skipped";
      if (to === null && from === branch.id) return isOver(over) && over !== "skipped" ? "done" : "";
    }
    if (from === null && to === null) return ""; // a flow without steps
    const before = from === null ? "success" : this.#status(from), after = to === null ? before : this.#status(to);
    if (after === "running" || after === "suspended") return to === null ? "" : "running";
    return (before === "success" || before === "skipped" || to !== null) && isOver(after) && after !== "canceled" && before !== "pending" ? "done" : "";
  }
  #pill(l) {
    const chosen = l.branch !== null && this.state(l.id).branch === l.branch && l.branch !== undefined;
    return guard([l, chosen], () => html`<div class="fg-pill ${l.end ? "end" : ""} ${chosen ? "taken" : ""}" ${box({ x: l.x - l.w / 2, y: l.y }, l.w, l.h)} title=${l.hint || nothing}><span class="clip">${l.text}</span>${chosen ? html`<span class="vh">, chosen</span>` : nothing}</div>`);
  }
  #node(n, home) {
    const state = this.state(n.id), on = n.id === this.selected, error = this.errors?.[n.id];
    return guard([n, state, on, home, error, this.editable], () => {
      const m = n.module, { status } = state, sub = state.note || (status === "scheduled" && state.until ? `${state.retries ? "Again at" : "Sleeps until"} ${new Date(state.until).toLocaleTimeString()}` : subtitle(m)), flags = marks(m);
      return html`<button type="button" class="fg-node ${n.role} ${n.folded ? "folded" : ""}" data-id=${n.id} data-status=${status} tabindex=${home ? 0 : -1} aria-current=${on ? "true" : nothing} ${box(n, NODE.w, NODE.h)}
          @click=${() => this.pick(n.id)} @dblclick=${() => this.#tell("wm-open", { id: n.id })} @focus=${() => this.#focus(n.id)}>
          <span class="fg-ico">${ico(nodeIcon(m, status), status === "running" ? "spin" : "")}</span>
          <span class="fg-txt"><b>${title(m)}</b><span class="fg-sub"><span class="clip">${sub}</span>${state.retries ? html`<span class="fg-retry" title="${state.retries} failed attempt${state.retries === 1 ? "" : "s"}">${ico("rotate-ccw")}${state.retries}<span class="vh"> failed attempts</span></span>` : nothing}${flags.map(([name, words]) => html`<span class="fg-mark" title=${words}>${ico(name)}<span class="vh">${words}</span></span>`)}</span></span>
          ${status === "running" && state.started_at ? html`<time class="fg-dur num" datetime=${state.started_at} data-elapsed></time>` : state.duration_ms != null && status !== "skipped" ? html`<span class="fg-dur num">${duration(state.duration_ms)}</span>` : nothing}
          <span class="vh">${this.editable && status === "pending" ? "" : statusWord(status)}, step</span><span class="sid">${n.id}</span>
          ${error ? html`<span class="fg-error" title=${error}><span class="vh">Problem: ${error}</span></span>` : nothing}</button>
        ${n.container ? html`<button type="button" class="fg-fold" tabindex=${home ? 0 : -1} aria-expanded=${!n.folded} aria-label="${n.folded ? "Unfold" : "Fold"} ${title(m)}${n.folded ? `, ${n.inside} steps inside` : ""}" ${css({ left: `${n.x}px`, top: `${n.y + NODE.h / 2}px` })} @click=${() => this.#fold(n.id)}>${n.folded ? html`<span class="num">${n.inside}</span>` : nothing}${ico(n.folded ? "chevron-right" : "chevron-down")}</button>` : nothing}`;
    });
  }
  #strip(s) {
    const its = this.state(s.id).iterations;
    return guard([s, its], () => (!its || !its.total ? nothing : html`<div class="fg-iters" role="group" aria-label="Iterations of ${s.id}" ${css({ left: `${s.x}px`, top: `${s.y}px`, width: `${s.w}px` })}>
      ${around(its).map(({ n, status }) => html`<button type="button" data-status=${status} tabindex="-1" aria-pressed=${n === its.at} aria-label="Iteration ${n + 1}, ${statusWord(status)}" title="Iteration ${n + 1}: ${statusWord(status)}" @click=${() => this.#tell("wm-iteration", { id: s.id, n })}></button>`)}
      <button type="button" class="fg-all" tabindex="-1" aria-label="All iterations of ${s.id}: ${its.done} of ${its.open ? "so far" : its.total} done${its.failed ? `, ${its.failed} failed` : ""}" @click=${() => this.#tell("wm-iterations", { id: s.id })}>${its.done}/${its.open ? "…" : its.total}${its.failed ? html`<b>${its.failed} failed</b>` : nothing}</button></div>`));
  }
  #slot(s) {
    const where = this.#where(s), key = JSON.stringify([s.list, s.index]);
    return html`<button type="button" class="fg-plus ${s.empty ? "empty" : ""} ${this.drop === key ? "drop" : ""}" data-slot=${key} aria-label="Add a step ${where}" title="Add a step ${where}" ${css({ left: `${s.x - 12}px`, top: `${s.y - 12}px` })} @click=${(e) => this.#tell("wm-flow-add", { list: s.list, index: s.index, anchor: e.currentTarget })}>${ico("plus")}</button>`;
  }
  #where({ list, index }) {
    const modules = list.reduce((o, k) => o?.[k], this.value) ?? [];
    if (index > 0 && modules[index - 1]) return `after ${title(modules[index - 1])}`;
    if (list.length === 1) return "at the start";
    const owner = list.slice(0, list.lastIndexOf("value")).reduce((o, k) => o?.[k], this.value);
    const body = owner && bodies(owner).find((b) => b.place.join() === list.slice(list.lastIndexOf("value")).join());
    return `at the start of ${body?.label || (owner ? title(owner) : "the body")}`;
  }

  // --- choosing and folding ---
  #focus(id) {
    this.focused = id;
    if (this.querySelector(".fg-node:focus-visible")) this.reveal(id);
  }
  /** Choose a step, as a click does. */
  pick(id) {
    this.selected = id;
    this.focused = id;
    this.#tell("wm-select", { id });
  }
  #around(id) { for (const m of everyModule(this.value)) if (m.module.id === id) return m.around; return []; }
  #unfold(id) {
    const folded = this.#around(id).filter((a) => this.collapsed?.has(a));
    if (folded.length) this.collapsed = new Set([...this.collapsed].filter((c) => !folded.includes(c)));
  }
  #fold(id) {
    const next = new Set(this.collapsed), at = this.plan.nodes.find((n) => n.id === id), k = this.view.k;
    if (!next.delete(id)) next.add(id);
    this.collapsed = next;
    // The step that was pressed stays under the pointer.
    this.updateComplete.then(() => {
      const now = this.plan.nodes.find((n) => n.id === id);
      if (!now) return;
      this.#look({ k, x: this.view.x + (at.x - now.x) * k, y: this.view.y + (at.y - now.y) * k });
    });
  }
  #foldAll = () => {
    this.collapsed = this.collapsed.size ? new Set() : new Set([...everyModule(this.value)].filter((m) => bodies(m.module).length).map((m) => m.module.id));
    this.updateComplete.then(() => this.fit());
  };
  /** Bring a step into view, unfolding what it is in. */
  async reveal(id, { focus = false } = {}) {
    this.#unfold(id);
    await this.updateComplete;
    const n = this.plan?.nodes.find((x) => x.id === id);
    if (!n) return;
    this.#scrolled(); // by the browser, for the focus; its event comes later and would move the view once more
    const { k, x, y } = this.view, left = n.x * k + x, top = n.y * k + y;
    if (left < 10 || top < 10 || left + NODE.w * k > this.clientWidth - 10 || top + NODE.h * k > this.clientHeight - 10) {
      this.#look({ k, x: this.clientWidth / 2 - (n.x + NODE.w / 2) * k, y: this.clientHeight / 2 - (n.y + NODE.h / 2) * k });
    }
    if (focus) this.querySelector(`.fg-node[data-id="${CSS.escape(id)}"]`)?.focus({ preventScroll: true });
  }

  // --- the view ---
  #look(view) { this.view = view; this.#moved = true; this.#apply(); }
  #apply() {
    const world = this.querySelector(".fg-world"), { x, y, k } = this.view;
    if (!world) return;
    world.style.transform = `translate(${x}px, ${y}px) scale(${k})`;
    world.style.setProperty("--zoom", k);
    this.classList.toggle("far", k < 0.55);
    this.style.backgroundPosition = `${x}px ${y}px`;
    const seen = this.querySelector(".fg-window");
    if (seen) for (const [name, n] of Object.entries({ x: -x / k, y: -y / k, width: this.clientWidth / k, height: this.clientHeight / k })) seen.setAttribute(name, Math.max(name === "width" || name === "height" ? 0 : -1e9, n));
    // A map of what is all in view only covers it.
    const isWhole = x >= -30 && y >= -30 && x + this.plan.w * k <= this.clientWidth + 30 && y + this.plan.h * k <= this.clientHeight + 30;
    this.querySelector(".fg-map")?.classList.toggle("off", isWhole);
    const label = this.querySelector(".fg-zoom");
    if (label) label.textContent = `${Math.round(k * 100)}%`;
  }
  /** whole: everything in view. Otherwise: readable, with the chosen step in the middle. */
  fit(whole = false) {
    if (!this.plan || !this.clientWidth) return;
    const { w, h } = this.plan, W = this.clientWidth, H = this.clientHeight, all = Math.max(0.05, Math.min((W - 40) / w, (H - 40) / h, 1));
    if (whole || all > 0.7) this.view = { k: all, x: (W - w * all) / 2, y: this.editable && !whole ? 24 : (H - h * all) / 2 };
    else {
      const k = Math.min(1, Math.max(READABLE, (W - 40) / w)), n = this.plan.nodes.find((x) => x.id === this.selected) ?? this.plan.nodes[0] ?? { x: w / 2, y: 0 };
      const place = (size, room, middle) => (size * k + 40 <= room ? (room - size * k) / 2 : Math.min(20, Math.max(room - 20 - size * k, room / 2 - middle * k)));
      this.view = { k, x: place(w, W, n.x + NODE.w / 2), y: place(h, H, n.y + NODE.h / 2) };
    }
    this.#moved = whole && this.#moved;
    this.#apply();
  }
  zoom(factor, cx = this.clientWidth / 2, cy = this.clientHeight / 2) {
    const k = Math.min(1.8, Math.max(0.05, this.view.k * factor)), q = k / this.view.k;
    this.#look({ k, x: cx - (cx - this.view.x) * q, y: cy - (cy - this.view.y) * q });
  }
  #wheel = (e) => {
    e.preventDefault();
    const r = this.getBoundingClientRect();
    if (e.ctrlKey || e.metaKey) return this.zoom(Math.exp(-e.deltaY / 240), e.clientX - r.left, e.clientY - r.top);
    this.#look({ ...this.view, x: this.view.x - (e.shiftKey ? e.deltaY : e.deltaX), y: this.view.y - (e.shiftKey ? 0 : e.deltaY) });
  };
  /** The browser scrolls to what gets the focus or is found in the page: make that a move of the view. */
  #scrolled = () => {
    const { scrollLeft, scrollTop } = this;
    if (!scrollLeft && !scrollTop) return;
    this.scrollLeft = this.scrollTop = 0;
    this.#look({ ...this.view, x: this.view.x - scrollLeft, y: this.view.y - scrollTop });
  };
  #mapGo = (e) => {
    e.stopPropagation();
    const map = e.currentTarget;
    const go = (m) => {
      const p = new DOMPoint(m.clientX, m.clientY).matrixTransform(map.getScreenCTM().inverse()), { k } = this.view;
      this.#look({ k, x: this.clientWidth / 2 - p.x * k, y: this.clientHeight / 2 - p.y * k });
    };
    go(e);
    map.setPointerCapture(e.pointerId);
    map.addEventListener("pointermove", go);
    for (const end of ["pointerup", "pointercancel"]) map.addEventListener(end, () => map.removeEventListener("pointermove", go), { once: true });
  };

  // --- pointers: one pans (or drags a step in an editor), two zoom ---
  #down = (e) => {
    if (e.button) return;
    const node = e.target.closest(".fg-node");
    if (e.target.closest("button, .fg-tools, .fg-map") && !(node && (this.editable || e.pointerType === "touch"))) return;
    this.#pointers.set(e.pointerId, { x: e.clientX, y: e.clientY });
    if (this.#pointers.size > 1) this.#drop(false);
    else if (node && this.editable && !node.classList.contains("failure") && !node.classList.contains("preprocessor")) this.#drag = { id: node.dataset.id, node, x: e.clientX, y: e.clientY, on: false };
    if (this.#pointers.size > 1) return;
    this.#from = { x: e.clientX, y: e.clientY };
    window.addEventListener("pointermove", this.#move);
    window.addEventListener("pointerup", this.#up);
    window.addEventListener("pointercancel", this.#up);
  };
  #from = null;
  #move = (e) => {
    const last = this.#pointers.get(e.pointerId);
    if (!last) return;
    const now = { x: e.clientX, y: e.clientY }, r = this.getBoundingClientRect();
    if (this.#pointers.size === 2) {
      const other = [...this.#pointers].find(([id]) => id !== e.pointerId)[1], far = (a) => Math.hypot(a.x - other.x, a.y - other.y);
      if (far(last) > 0) this.zoom(far(now) / far(last), (now.x + other.x) / 2 - r.left, (now.y + other.y) / 2 - r.top);
      this.#look({ ...this.view, x: this.view.x + (now.x - last.x) / 2, y: this.view.y + (now.y - last.y) / 2 });
    } else if (this.#drag) this.#dragTo(now, r);
    else if (Math.hypot(now.x - this.#from.x, now.y - this.#from.y) > 4 || this.classList.contains("panning")) {
      this.classList.add("panning");
      this.#look({ ...this.view, x: this.view.x + now.x - last.x, y: this.view.y + now.y - last.y });
    }
    this.#pointers.set(e.pointerId, now);
  };
  #up = (e) => {
    if (!this.#pointers.delete(e.pointerId) || this.#pointers.size) return;
    window.removeEventListener("pointermove", this.#move);
    window.removeEventListener("pointerup", this.#up);
    window.removeEventListener("pointercancel", this.#up);
    if (this.#drag?.on || this.classList.contains("panning")) {
      // The click that ends a drag is not a choice.
      this.addEventListener("click", swallow, true);
      setTimeout(() => this.removeEventListener("click", swallow, true));
    }
    this.classList.remove("panning");
    this.#drop(e.type === "pointerup");
  };
  #dragTo(now, r) {
    const d = this.#drag;
    if (!d.on && Math.hypot(now.x - d.x, now.y - d.y) < 6) return;
    if (!d.on) {
      d.on = true;
      d.inside = this.plan.nodes.find((n) => n.id === d.id).place.join();
      this.classList.add("dragging");
      d.node.classList.add("dragged");
    }
    d.node.style.translate = `${(now.x - d.x) / this.view.k}px ${(now.y - d.y) / this.view.k}px`;
    // The nearest + that is not inside of the step itself.
    const at = { x: (now.x - r.left - this.view.x) / this.view.k, y: (now.y - r.top - this.view.y) / this.view.k };
    const free = this.plan.slots.filter((s) => !`${s.list.join()},`.startsWith(`${d.inside},`));
    const far = (s) => Math.hypot((s.x - at.x) * 0.6, s.y - at.y);
    const best = free.reduce((a, s) => (far(s) < far(a) ? s : a), free[0]);
    d.slot = best && far(best) < 110 ? best : null;
    this.drop = d.slot ? JSON.stringify([d.slot.list, d.slot.index]) : undefined;
  }
  #drop(done) {
    const d = this.#drag;
    this.#drag = null;
    if (!d) return;
    this.drop = undefined;
    this.classList.remove("dragging");
    d.node.classList.remove("dragged");
    d.node.style.translate = "";
    if (done && d.on && d.slot) this.#tell("wm-flow-move", { id: d.id, list: d.slot.list, index: d.slot.index });
  }

  // --- keys ---
  #keys = (e) => {
    const node = e.target.closest?.(".fg-node"), id = node?.dataset.id, control = e.ctrlKey || e.metaKey;
    const handled = () => { e.preventDefault(); e.stopPropagation(); };
    if (this.editable && control) {
      const key = e.key.toLowerCase(), ask = { z: e.shiftKey ? "redo" : "undo", y: "redo", c: "copy", x: "cut", v: "paste" }[key];
      if (!ask || (!id && ["copy", "cut"].includes(ask)) || (["copy", "cut"].includes(ask) && String(getSelection()))) return;
      handled();
      this.#tell(`wm-flow-${ask}`, { id: id ?? this.selected ?? null });
      return;
    }
    if (control) return;
    if (this.editable && id && (e.key === "Delete" || e.key === "Backspace")) { handled(); this.#tell("wm-flow-remove", { id }); return; }
    if (this.editable && id && e.altKey && ["ArrowUp", "ArrowDown"].includes(e.key)) { handled(); this.#tell("wm-flow-shift", { id, by: e.key === "ArrowUp" ? -1 : 1 }); return; }
    if (e.altKey) return;
    if (e.key === "+" || e.key === "=") { handled(); return this.zoom(1.2); }
    if (e.key === "-") { handled(); return this.zoom(1 / 1.2); }
    if (e.key === "0") { handled(); return this.fit(true); }
    if (e.key === "Enter" && id) { handled(); this.pick(id); this.#tell("wm-open", { id }); return; }
    const squares = e.target.closest?.(".fg-iters");
    if (squares && ["ArrowLeft", "ArrowRight"].includes(e.key)) {
      handled();
      const all = [...squares.querySelectorAll("button")];
      return all[all.indexOf(e.target) + (e.key === "ArrowRight" ? 1 : -1)]?.focus();
    }
    const dir = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[e.key];
    const here = node ?? (squares && this.querySelector(`.fg-node[data-id="${CSS.escape(this.plan.strips.find((s) => squares.getAttribute("aria-label") === `Iterations of ${s.id}`)?.id ?? "")}"]`));
    if (!dir || !here) return;
    handled();
    const a = this.plan.nodes.find((n) => n.id === here.dataset.id);
    const score = (n) => { const dx = n.x - a.x, dy = n.y - a.y, along = dx * dir[0] + dy * dir[1]; return along <= 0 ? Infinity : along + 2 * Math.abs(dx * dir[1] + dy * dir[0]); };
    const best = this.plan.nodes.reduce((b, n) => (score(n) < score(b) ? n : b), a);
    if (best === a || score(best) === Infinity) return;
    this.focused = best.id;
    this.updateComplete.then(() => this.reveal(best.id, { focus: true }));
  };
}
customElements.define("wm-flow-graph", FlowGraph);
