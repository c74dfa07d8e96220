import { LitElement, html, nothing, repeat } from "../../vendor/lit.js";
import { iconHref } from "../dom.js";
import { duration } from "../format.js";
import { bodies, isLoop } from "../flow-layout.js";
import { kindName, LANGUAGE, moduleIcon, subtitle, title } from "../flow-module.js";
import { STATUS, statusIcon, statusWord } from "../status.js";

const BIG = 64 * 1024;
const ico = (name, cls = "") => html`<svg class="i ${cls}" aria-hidden="true"><use href=${iconHref(name)}></use></svg>`;
// The viewers come with the first tab that needs them.
const VIEWERS = { result: () => import("./result.js"), inputs: () => Promise.all([import("./json.js"), import("./result.js")]), logs: () => import("./logs.js"), code: () => import("./code.js"), definition: () => import("./json.js") };
const OVER = ["success", "failure", "canceled", "skipped"];
const FILTERS = [["", "All"], ["failure", "Failed"], ["running", "Running"], ["success", "Succeeded"], ["pending", "To come"]];

/**
 * <wm-flow-run-step>: one step of a flow's run. Properties: module (of the definition), state (of the picture),
 * loops {id: iterations of the loops around it}, may {restart: bool}. What is large is fetched from the run of the step itself, when its tab is opened.
 * Events: wm-iteration {id, n}, wm-restart {id}, wm-close.
 */
class FlowRunStep extends LitElement {
  static properties = { module: { attribute: false }, state: { attribute: false }, loops: { attribute: false }, may: { attribute: false }, attempt: { state: true }, tab: { state: true }, facts: { state: true }, code: { state: true }, list: { state: true }, filter: { state: true } };
  #wanted = ""; // the tab that the reader chose; kept from step to step
  #asked = ""; // the job and status that `facts` are of
  #turn = 0; // of pages of iterations
  createRenderRoot() { return this; }

  get job() { return this.attempt || this.state?.job || null; }
  #base(job = this.job) { return `/w/${this.dataset.workspace}/runs/${job}/`; }

  willUpdate(changed) {
    if (changed.has("module") && changed.get("module")?.id !== this.module?.id) {
      this.attempt = "";
      this.list = null;
      this.filter = "";
      this.code = undefined;
    }
    if (changed.has("module") || changed.has("state") || changed.has("attempt")) {
      const key = `${this.job} ${this.attempt ? "attempt" : this.state?.status}`;
      if (key !== this.#asked) {
        if (key.split(" ")[0] !== this.#asked.split(" ")[0]) { this.facts = null; this.code = undefined; }
        this.#asked = key;
        if (this.job) this.#load(key);
      }
      const loop = this.state?.iterations && `${this.state.flow} ${this.module?.id} ${this.state.iterations.total} ${this.state.status} ${this.state.iterations.failed}`;
      if (loop && loop !== this.loopKey && this.list) this.#page(true);
      this.loopKey = loop;
    }
    const tabs = this.#tabs().map(([name]) => name);
    this.tab = tabs.includes(this.#wanted) ? this.#wanted : this.#usual(tabs);
  }
  updated() {
    // Code that nobody asked for is readable as it is: the editor is large.
    if (this.tab !== "code" || this.#wanted === "code") VIEWERS[this.tab]?.();
    if (this.tab === "code" && this.code === undefined) this.#loadCode();
    if (this.tab === "iterations" && !this.list && this.state?.iterations) this.#page(true);
  }
  #usual(tabs) {
    const status = this.attempt ? "failure" : this.state?.status;
    if (tabs.includes("iterations")) return "iterations";
    if (tabs.includes("result") && OVER.includes(status)) return "result";
    return tabs.includes("logs") ? "logs" : tabs[0];
  }
  #tabs() {
    const m = this.module, has = !!this.job, tabs = [];
    if (!m) return tabs;
    if (isLoop(m)) tabs.push(["iterations", "Iterations"]);
    if (has && m.value?.type !== "branchall") tabs.push(["result", "Result"]);
    if (has && !bodies(m).length && m.value?.type !== "flow") tabs.push(["logs", "Logs"]);
    if (has && !bodies(m).length) tabs.push(["inputs", "Inputs"]);
    if (m.value?.type === "rawscript" || m.value?.type === "script") tabs.push(["code", "Code"]);
    tabs.push(["definition", "Settings"]);
    return tabs;
  }
  async #load(key) {
    try {
      const answer = await fetch(`${this.#base()}state.json`);
      const facts = answer.ok ? await answer.json() : { refused: (await answer.text()).slice(0, 300) };
      if (key === this.#asked) this.facts = facts;
    } catch { /* offline: the connection note says so */ }
  }
  async #loadCode() {
    const m = this.module;
    if (m.value?.type === "rawscript") { this.code = { code: m.value.content, language: m.value.language }; }
    else if (this.job) {
      this.code = null;
      const job = this.job, answer = await fetch(`${this.#base(job)}code.json`);
      if (job === this.job) this.code = answer.ok ? await answer.json() : { code: null };
    } else this.code = { code: null };
  }
  async #page(anew) {
    const s = this.state, m = this.module;
    if (!s?.flow) return;
    const turn = anew ? ++this.#turn : this.#turn; // an answer that a newer question has overtaken is dropped
    const after = anew ? -1 : this.list.rows.at(-1)?.n ?? -1, query = new URLSearchParams({ step: m.id, status: this.filter || "", after });
    if (anew && !this.list) this.list = { rows: [], more: false, loading: true };
    const answer = await fetch(`${this.#base(s.flow)}iterations.json?${query}`);
    const page = answer.ok ? await answer.json() : null;
    if (!page || m !== this.module || turn !== this.#turn) return;
    this.list = { rows: anew ? page.rows : [...this.list.rows, ...page.rows], more: page.more };
  }

  render() {
    const m = this.module, s = this.state ?? { status: "pending" };
    if (!m) return html`<div class="empty-state">${ico("workflow")}<h2>No step chosen</h2><p>Choose one in the graph.</p></div>`;
    const tabs = this.#tabs();
    return html`<header class="step-head"><b class="sid">${m.id}</b><div><h2>${title(m)}</h2><p>${this.#kind(m)}</p></div>${this.#chip(s)}<button class="btn ghost icon sm step-close" type="button" aria-label="Close" @click=${() => this.#tell("wm-close")}>${ico("x")}</button></header>
      <dl class="facts step-facts">${this.#facts(s)}</dl>
      ${this.#notes(s)}
      <div class="tabs line step-tabs" role="tablist" aria-label="Parts of the step">${tabs.map(([name, words]) => html`<button role="tab" type="button" id="s-${name}" aria-controls=${name === this.tab ? "sp" : nothing} aria-selected=${name === this.tab} tabindex=${name === this.tab ? 0 : -1} @click=${() => { this.#wanted = name; this.tab = name; }}>${words}</button>`)}</div>
      <div class="grow step-panel ${["logs", "code"].includes(this.tab) ? "" : "pad"}" role="tabpanel" id="sp" aria-labelledby="s-${this.tab}" tabindex="-1">${this.#panel(m, s)}</div>`;
  }
  #kind(m) {
    const { type, path, language } = m.value ?? {}, here = `/w/${this.dataset.workspace}`;
    const link = type === "script" && path && !path.startsWith("hub/") ? html`<a class="link mono" href="${here}/scripts/${path}/">${path}</a>` : type === "flow" && path ? html`<a class="link mono" href="${here}/flows/${path}/">${path}</a>` : nothing;
    return html`${language ? html`<span class="lang">${LANGUAGE[language]?.[1] ?? language}</span>` : html`<span>${kindName(m)}</span>`}${link === nothing ? (bodies(m).length ? html`<span class="clip mono">${subtitle(m)}</span>` : nothing) : link}`;
  }
  #chip(s) {
    const status = this.attempt ? this.facts?.status ?? "failure" : s.status;
    return html`<span class="status" data-status=${status}>${STATUS[status] ? ico(statusIcon(status), status === "running" ? "spin" : "") : nothing}${s.off ? "Not chosen" : statusWord(status)}</span>`;
  }
  #facts(s) {
    const fact = (name, value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`, at = Object.entries(s.at ?? {});
    return html`${at.map(([loop, n]) => this.#walk(loop, n, this.loops?.[loop]))}
      ${this.attempt && this.facts?.durationMs != null ? fact("Duration", html`<span class="num">${duration(this.facts.durationMs)}</span>`) : s.duration_ms != null ? fact("Duration", html`<span class="num">${duration(s.duration_ms)}</span>`) : s.status === "running" && s.started_at ? fact("Running for", html`<time class="num" datetime=${s.started_at} data-elapsed></time>`) : nothing}
      ${s.started_at ? fact("Started", html`<time datetime=${s.started_at} title=${new Date(s.started_at).toLocaleString()}>${new Date(s.started_at).toLocaleTimeString()}</time>`) : nothing}
      ${s.branch != null ? fact("Branch", s.branch === "default" ? "default" : s.branch + 1) : nothing}
      ${s.iterations?.total ? fact("Iterations", html`<span class="num">${s.iterations.done} of ${s.iterations.total}${s.iterations.failed ? `, ${s.iterations.failed} failed` : ""}</span>`) : nothing}
      ${s.approvers?.length ? fact("Approved by", s.approvers.map((a) => a.approver).join(", ")) : nothing}
      ${s.failed_jobs?.length ? html`<div class="attempts"><dt>Attempt</dt><dd class="seg" role="group" aria-label="Attempts">${[...s.failed_jobs, s.job].filter(Boolean).map((job, i, all) => html`<button type="button" aria-pressed=${job === this.job} title=${i < all.length - 1 || s.status === "failure" ? "Failed" : statusWord(s.status)} @click=${() => { this.attempt = i === all.length - 1 ? "" : job; }}>${i + 1}</button>`)}</dd></div>` : nothing}
      ${this.job ? html`<div><dt class="vh">Run</dt><dd><a class="btn ghost sm" href=${this.#base()}>${ico("external-link")}${this.module.value?.type === "flow" ? "Open the flow’s run" : "Its own run"}</a></dd></div>` : nothing}
      ${this.may?.restart && s.status !== "pending" && !s.off ? html`<div><dt class="vh">Deeds</dt><dd><button class="btn sm" type="button" @click=${() => this.#tell("wm-restart", { id: this.module.id })}>${ico("rotate-ccw")}Restart from here</button></dd></div>` : nothing}`;
  }
  /** One iteration on and back, for steps inside of a loop. */
  #walk(loop, n, its) {
    const total = its?.total ?? n + 1, go = (to) => () => this.#tell("wm-iteration", { id: loop, n: to });
    return html`<div class="walk"><dt>Iteration of ${loop}</dt><dd><button class="btn ghost icon sm" type="button" aria-label="Iteration before" ?disabled=${n === 0} @click=${go(n - 1)}>${ico("chevron-left")}</button><span class="num">${n + 1} of ${its?.open ? "…" : total}</span><button class="btn ghost icon sm" type="button" aria-label="Next iteration" ?disabled=${n + 1 >= total} @click=${go(n + 1)}>${ico("chevron-right")}</button></dd></div>`;
  }
  #notes(s) {
    const when = s.until && html`<time datetime=${s.until} title=${new Date(s.until).toLocaleString()}>${new Date(s.until).toLocaleTimeString()}</time>`;
    return html`${s.status === "suspended" ? html`<div class="notice wait">${ico("hand")}<div><strong>Waits for approval before this step starts</strong>${when ? html`<p>Until ${when}.</p>` : nothing}</div></div>` : nothing}
      ${s.status === "scheduled" && when ? html`<div class="notice info">${ico("clock")}<div><strong>${s.retries ? "It is tried again at" : "Sleeping until"} ${when}</strong>${s.retries ? html`<p>${s.retries} attempt${s.retries === 1 ? "" : "s"} failed so far.</p>` : nothing}</div></div>` : nothing}
      ${s.status === "queued" ? html`<div class="notice info">${ico("clock")}<div><strong>In the queue.</strong> ${this.job ? html`<a class="link" href=${this.#base()}>Why it waits</a>` : nothing}</div></div>` : nothing}
      ${s.off ? html`<p class="help pad-x">Another branch was taken, so this step does not run.</p>` : nothing}`;
  }
  #panel(m, s) {
    const facts = this.facts, job = this.job, base = this.#base();
    const wait = html`<span class="vh" role="status">Loading</span><span class="skeleton"></span><span class="skeleton"></span>`;
    if (facts?.refused && ["result", "inputs", "logs"].includes(this.tab)) return html`<p class="dim pad-x">${facts.refused}</p>`;
    const done = facts && OVER.includes(facts.status);
    switch (this.tab) {
      case "result":
        if (!facts) return wait;
        if (!done) return html`<div class="empty-state">${ico("loader")}<h3>No result yet</h3><p>It appears here when the step ends.</p></div>`;
        return repeat([`${job} ${facts.status}`], (k) => k, () => html`<wm-result src="${base}result.json" size=${facts.resultSize} frame="${base}result.html" download="${base}result.json?download=1" file-name="step-${m.id}" lines @wm-goto-line=${(e) => this.#goto(e.detail.line)}></wm-result>`);
      case "logs":
        return repeat([job], (k) => k, () => html`<wm-logs src="/ws/w/${this.dataset.workspace}/jobs/${job}" download="${base}log.txt" label="Log of step ${m.id}"></wm-logs>`);
      case "inputs":
        if (!facts) return wait;
        if (facts.args === null && facts.argsSize > BIG) return html`<wm-result src="${base}args.json" size=${facts.argsSize} download="${base}args.json?download=1" file-name="step-${m.id}-inputs"></wm-result>`;
        if (!facts.args || !Object.keys(facts.args).length) return html`<p class="dim">This step took no inputs.</p>`;
        return html`<wm-json open="2" label="Inputs" .value=${facts.args}></wm-json>`;
      case "code":
        if (!this.code) return wait;
        if (this.code.code == null) return html`<p class="dim pad-x">${this.job ? "The code is gone, or not yours to read." : "The code of the script is shown once the step has started."}</p>`;
        return repeat([`${job} ${m.id}`], (k) => k, () => html`<wm-code language=${this.code.language} label="Code of step ${m.id}" readonly><pre tabindex="0">${this.code.code}</pre></wm-code>`);
      case "iterations": return this.#iterations(s);
      default: return html`<wm-json open="3" label="Settings of step ${m.id}" .value=${this.#settings(m)}></wm-json>`;
    }
  }
  /** The definition without code and inner steps, which have places of their own. */
  #settings(m) {
    const { content, lock, modules, branches, default: _default, ...value } = m.value ?? {};
    return { ...m, value: branches ? { ...value, branches: branches.map(({ modules: _m, ...b }) => b) } : value };
  }
  async #goto(line) {
    this.#wanted = this.tab = "code";
    await this.updateComplete;
    await import("./code.js");
    const show = () => { const code = this.querySelector("wm-code"); if (!code) return; const go = () => { code.diagnostics = [{ line, message: "The step failed here" }]; code.goto(line); }; if (code.hasAttribute("ready")) go(); else code.addEventListener("wm-ready", go, { once: true }); };
    if (this.code) show(); else setTimeout(show, 300);
  }
  #iterations(s) {
    const its = s.iterations;
    if (!its) return html`<p class="dim">The loop has not started.</p>`;
    if (!its.total) return html`<p class="dim">There was nothing to loop over.</p>`;
    const first = this.list?.rows.find((r) => r.status === "failure");
    return html`<div class="row its-bar"><div class="seg" role="group" aria-label="Which iterations">${FILTERS.map(([value, words]) => html`<button type="button" aria-pressed=${value === (this.filter || "")} @click=${() => { this.filter = value; this.#page(true); }}>${words}</button>`)}</div><span class="grow"></span>${its.failed ? html`<button class="btn sm" type="button" @click=${() => this.#jump(first)}>${ico("circle-x")}First failed</button>` : nothing}</div>
      ${this.list?.loading ? html`<span class="skeleton"></span>` : nothing}
      <ol class="its" aria-label="Iterations">${repeat(this.list?.rows ?? [], (r) => r.n, (r) => html`<li><button type="button" data-status=${r.status} aria-current=${r.n === its.at ? "true" : nothing} @click=${() => this.#choose(r.n)}>${ico(statusIcon(r.status), r.status === "running" ? "spin" : "")}<b class="num">${r.n + 1}</b><span class="its-word">${statusWord(r.status)}</span><span class="num">${r.duration_ms != null ? duration(r.duration_ms) : ""}</span></button></li>`)}</ol>
      ${this.list && !this.list.rows.length && !this.list.loading ? html`<p class="dim">No iteration stands so.</p>` : nothing}
      ${this.list?.more ? html`<div class="pager"><button class="btn" type="button" @click=${() => this.#page(false)}>Load more</button></div>` : nothing}`;
  }
  async #jump(first) {
    if (!first) {
      this.filter = "failure";
      await this.#page(true);
      [first] = this.list.rows;
    }
    if (first) this.#choose(first.n);
  }
  #choose(n) { this.#tell("wm-iteration", { id: this.module.id, n }); }
  #tell(name, detail = {}) { this.dispatchEvent(new CustomEvent(name, { bubbles: true, detail })); }
}
customElements.define("wm-flow-run-step", FlowRunStep);
