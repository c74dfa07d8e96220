import { ansi, plain } from "../ansi.js";
import { copy, download, icon, json } from "../dom.js";
import { follow } from "../job-socket.js";

const ROW = 20; // px of one row
const OVER = 12; // rows drawn beyond each edge
const LONGEST = 20000; // characters of one line that are drawn
const MOST = 1_000_000; // lines kept: beyond it the oldest quarter goes (the download has all)
const SIDE = 96; // px of the line number, gap and scroll bar

/**
 * <wm-logs src="/ws/w/acme/jobs/<id>" data-src="log-text" download="/w/.../logs" count-into="log-count">
 * A log of any length: only the rows in view exist. Text comes from the json_script `data-src` (a string), from `src`
 * (live; `offset` = code points that data-src holds already, measured when left out) and from append(text).
 * Events: "wm-lines" (detail {count}). Properties: text (get, set), follow, wrap. Methods: append(text), clear(), jump(line).
 */
class Logs extends HTMLElement {
  #lines = []; #starts = new Map(); #carry = []; #open = ""; #dropped = 0; // #open: the last line, not yet ended
  #follow = true; #wrap = false; #query = ""; #hits = []; #at = -1; #frame = 0; #stop = null; #live = false; #done = false;
  #tops = null; #columns = 0; #read = 0;
  #view; #pad; #rows; #note; #state; #resize;

  connectedCallback() {
    if (!this.#view) {
      this.#build();
      const text = json(this.dataset.src);
      if (typeof text === "string") this.append(text);
      if (this.hasAttribute("offset")) this.#read = +this.getAttribute("offset");
    }
    this.#resize = new ResizeObserver(() => { this.#tops = null; this.#later(); });
    this.#resize.observe(this.#view);
    const src = this.getAttribute("src");
    this.#live = !!src;
    if (src) {
      this.#stop = follow(src, {
        offset: this.#read,
        log: (text) => this.append(text),
        done: () => this.#finish(),
        state: (state, code) => this.#connection(state, code),
      });
    }
    this.#blank();
  }
  disconnectedCallback() { this.#stop?.(); this.#stop = null; this.#resize?.disconnect(); cancelAnimationFrame(this.#frame); this.#frame = 0; }

  get text() { return [...this.#lines, ...(this.#open ? [this.#open] : [])].map(plain).join("\n"); }
  set text(value) { this.clear(); this.append(value); }
  get follow() { return this.#follow; }
  set follow(on) { this.#follow = on; this.#press("follow", on); if (on) this.#later(); }
  get wrap() { return this.#wrap; }
  set wrap(on) { this.#wrap = on; this.#press("wrap", on); this.classList.toggle("wrapped", on); this.#tops = null; this.#later(); }

  clear() {
    this.#lines = []; this.#starts.clear(); this.#carry = []; this.#open = ""; this.#dropped = 0; this.#read = 0; this.#tops = null;
    this.#find(this.#query);
    this.#later();
  }

  /** Adds text that may begin and end in the middle of a line. */
  append(text) {
    if (!text) return;
    this.#read += [...text].length;
    const pieces = (this.#open + text).split("\n");
    this.#open = pieces.pop();
    for (const piece of pieces) this.#push(piece);
    // A line that was never ended is searched when it ends; it is drawn at once.
    if (this.#lines.length > MOST) this.#forget(Math.floor(MOST / 4));
    this.#tops = null;
    this.#tell();
    this.#later();
  }

  #push(raw) {
    const at = this.#lines.length, line = tidy(raw);
    if (this.#carry.length) this.#starts.set(at, this.#carry);
    if (line.includes("\x1b")) this.#carry = ansi(line, this.#carry).end;
    this.#lines.push(line);
    if (this.#query && plain(line).toLowerCase().includes(this.#query)) { this.#hits.push(at); this.#count(); }
  }
  #forget(count) {
    this.#lines.splice(0, count);
    this.#starts = new Map([...this.#starts].filter(([i]) => i >= count).map(([i, s]) => [i - count, s]));
    this.#dropped += count;
    this.#find(this.#query, false);
  }
  get #length() { return this.#lines.length + (this.#open ? 1 : 0); }
  #line(i) { return i < this.#lines.length ? this.#lines[i] : tidy(this.#open); }

  #build() {
    const bar = el("div", "lg-bar");
    const find = Object.assign(el("input", "input"), { type: "text", placeholder: "Find in logs", ariaLabel: "Find in logs", spellcheck: false, autocomplete: "off" });
    this.#note = el("span", "help lg-note");
    this.#note.setAttribute("aria-live", "polite");
    this.#state = el("span", "help lg-state");
    this.#state.setAttribute("role", "status");
    const prev = button("arrow-up", "Previous match", () => this.#step(-1)), next = button("arrow-down", "Next match", () => this.#step(1));
    prev.hidden = next.hidden = true;
    prev.dataset.step = next.dataset.step = "";
    find.addEventListener("input", () => this.#find(find.value));
    find.addEventListener("keydown", (e) => {
      if (e.key === "Enter") { e.preventDefault(); this.#step(e.shiftKey ? -1 : 1); }
      if (e.key === "Escape" && find.value) { e.preventDefault(); e.stopPropagation(); find.value = ""; this.#find(""); }
    });
    const tail = button("arrow-down-to-line", "Follow the end", () => { this.follow = !this.#follow; });
    tail.dataset.do = "follow";
    const wrap = button("wrap-text", "Wrap long lines", () => { this.wrap = !this.#wrap; });
    wrap.dataset.do = "wrap";
    const url = this.getAttribute("download");
    const save = url ? Object.assign(el("a", "btn ghost sm icon"), { href: url, ariaLabel: "Download the log", title: "Download the log" })
      : button("download", "Download the log", () => download(this.text, `${this.getAttribute("file-name") || "job"}.log`));
    if (url) { save.append(icon("download")); save.setAttribute("download", ""); }
    bar.append(find, prev, next, this.#note, el("span", "grow"), this.#state, tail, wrap, button("copy", "Copy the log", () => copy(this.text, "Log copied")), save);
    this.#view = el("div", "lg-view");
    Object.assign(this.#view, { tabIndex: 0, role: "log", ariaLabel: this.getAttribute("label") || "Log", ariaLive: "off" });
    this.#pad = el("div", "lg-pad");
    this.#rows = el("div", "lg-rows");
    this.#pad.append(this.#rows);
    this.#view.append(this.#pad);
    this.#view.addEventListener("scroll", () => {
      const end = this.#view.scrollTop + this.#view.clientHeight >= this.#view.scrollHeight - ROW;
      if (this.#follow !== end) { this.#follow = end; this.#press("follow", end); }
      this.#later();
    }, { passive: true });
    this.replaceChildren(bar, this.#view);
    this.#press("follow", true);
    this.#press("wrap", false);
  }
  #press(name, on) { this.querySelector(`[data-do="${name}"]`)?.setAttribute("aria-pressed", on); }

  #connection(state, code) {
    if (this.#done) return;
    this.#state.textContent = state === "reconnecting" ? "Reconnecting…"
      : state === "refused" ? (code === 4401 ? "Signed out: reload to sign in" : "This log is not available to you") : "";
    this.#blank();
  }
  #finish() {
    this.#done = true;
    this.#state.textContent = `Complete, ${this.#dropped + this.#length} lines`;
    this.#blank();
  }
  /** What an empty log says. */
  #blank() {
    const text = this.#length ? "" : this.#live && !this.#done ? "Waiting for the first line…" : "The log is empty.";
    this.#view.toggleAttribute("data-empty", !!text);
    if (text) this.#rows.replaceChildren(Object.assign(el("p", "lg-blank"), { textContent: text }));
    else this.#later();
  }
  #tell() {
    const count = this.#dropped + this.#length, badge = document.getElementById(this.getAttribute("count-into"));
    if (badge) badge.textContent = count;
    this.dispatchEvent(new CustomEvent("wm-lines", { bubbles: true, detail: { count } }));
  }

  // --- geometry: without wrapping every row is ROW high; with it, a table of the rows above each line ---
  #measure() {
    if (!this.#wrap || this.#tops) return;
    const probe = Object.assign(el("span", "lg-probe"), { textContent: "0".repeat(50) });
    this.#rows.append(probe);
    this.#columns = Math.max(10, Math.floor((this.#view.clientWidth - SIDE) / (probe.getBoundingClientRect().width / 50 || 7.2)));
    probe.remove();
    this.#tops = new Uint32Array(this.#length + 1);
    for (let i = 0, rows = 0; i < this.#length; i++) {
      const length = Math.min(plain(this.#line(i)).length, LONGEST);
      this.#tops[i + 1] = rows += Math.max(1, Math.ceil(length / this.#columns));
    }
  }
  #top(i) { return (this.#wrap ? this.#tops[Math.min(i, this.#length)] : i) * ROW; }
  #lineAt(px) {
    const row = Math.floor(px / ROW);
    if (!this.#wrap) return row;
    let low = 0, high = this.#length;
    while (low < high) { const mid = (low + high + 1) >> 1; if (this.#tops[mid] <= row) low = mid; else high = mid - 1; }
    return low;
  }
  #later() { if (this.isConnected && this.#view) this.#frame ||= requestAnimationFrame(() => { this.#frame = 0; this.#paint(); }); }
  #paint() {
    if (!this.#length) return;
    this.#measure();
    this.#view.removeAttribute("data-empty");
    this.#pad.style.height = `${this.#top(this.#length) + 8}px`;
    if (this.#follow) this.#view.scrollTop = this.#view.scrollHeight;
    const from = Math.max(0, this.#lineAt(this.#view.scrollTop) - OVER);
    const to = Math.min(this.#length, this.#lineAt(this.#view.scrollTop + this.#view.clientHeight) + OVER);
    const rows = document.createDocumentFragment(), current = this.#hits[this.#at];
    for (let i = from; i < to; i++) rows.append(this.#row(i, i === current));
    this.#rows.style.top = `${this.#top(from) + 4}px`;
    this.#rows.replaceChildren(rows);
    this.#mark();
  }
  #row(i, current) {
    const hit = this.#query && plain(this.#line(i)).toLowerCase().includes(this.#query);
    const row = el("div", `lg-row${hit ? " hit" : ""}${current ? " now" : ""}`), number = el("span", "lg-n");
    number.textContent = this.#dropped + i + 1;
    const body = el("span", "lg-t"), line = this.#line(i);
    for (const [text, classes] of ansi(line.slice(0, LONGEST), this.#starts.get(i)).parts) {
      body.append(classes ? Object.assign(el("span", classes), { textContent: text }) : text);
    }
    if (line.length > LONGEST) body.append(Object.assign(el("em", "dim"), { textContent: ` … ${line.length - LONGEST} more characters in the download` }));
    row.append(number, body);
    return row;
  }

  // --- search ---
  #find(text, move = true) {
    this.#query = text.toLowerCase();
    this.#hits = [];
    if (this.#query) for (let i = 0; i < this.#lines.length; i++) if (plain(this.#lines[i]).toLowerCase().includes(this.#query)) this.#hits.push(i);
    this.#at = -1;
    for (const b of this.querySelectorAll("[data-step]")) b.hidden = !this.#query;
    if (this.#hits.length && move) this.#step(1);
    this.#count();
    this.#later();
  }
  #count() {
    const n = this.#hits.length;
    this.#note.textContent = !this.#query ? "" : n ? `${this.#at >= 0 ? `${this.#at + 1} of ` : ""}${n} line${n === 1 ? "" : "s"}` : "No match";
  }
  #step(by) {
    if (!this.#hits.length) return;
    this.#at = (this.#at + by + this.#hits.length) % this.#hits.length;
    this.#show(this.#hits[this.#at]);
    this.#count();
  }
  /** Scrolls to a line, counted from 1. */
  jump(line) { this.#show(line - 1 - this.#dropped); }
  #show(i) {
    this.follow = false;
    this.#measure();
    this.#pad.style.height = `${this.#top(this.#length) + 8}px`;
    this.#view.scrollTop = this.#top(i) - this.#view.clientHeight / 2;
    this.#later();
  }
  /** The words found, marked inside the drawn rows without changing their nodes. */
  #mark() {
    if (!globalThis.CSS?.highlights) return;
    const ranges = [];
    for (const body of this.#query ? this.#rows.querySelectorAll(".hit .lg-t") : []) {
      const text = body.textContent.toLowerCase();
      for (let at = text.indexOf(this.#query); at >= 0 && ranges.length < 2000; at = text.indexOf(this.#query, at + this.#query.length)) {
        const range = new Range(), end = at + this.#query.length;
        const walk = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
        let seen = 0, node, begun = false;
        while ((node = walk.nextNode())) {
          if (!begun && at < seen + node.length) { range.setStart(node, at - seen); begun = true; }
          if (begun && end <= seen + node.length) { range.setEnd(node, end - seen); break; }
          seen += node.length;
        }
        ranges.push(range);
      }
    }
    CSS.highlights.set("wm-find", new Highlight(...ranges));
  }
}

/** What a terminal would show of a raw line: text after the last carriage return, tabs as spaces. */
function tidy(raw) {
  let line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
  const back = line.lastIndexOf("\r");
  if (back >= 0) line = line.slice(back + 1);
  return line.includes("\t") ? line.replaceAll("\t", "    ") : line;
}
const el = (tag, className) => Object.assign(document.createElement(tag), { className });
function button(name, label, act) {
  const b = Object.assign(el("button", "btn ghost sm icon"), { type: "button", ariaLabel: label, title: label });
  b.append(icon(name));
  b.addEventListener("click", act);
  return b;
}
customElements.define("wm-logs", Logs);
