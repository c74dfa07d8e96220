import { follow } from "../job-socket.js";

/**
 * <wm-live src="/ws/w/acme/jobs/<id>">: turns a job's websocket into events on this element, which bubble:
 * "wm-status" (detail: the job's status object, only when it changed), "wm-done", "wm-connection" (detail: {state});
 * of a flow also "wm-flow" (detail: {whole, states}: the steps whose state changed).
 * Draws nothing by itself; what lies inside stays as the server rendered it.
 */
class Live extends HTMLElement {
  static observedAttributes = ["src"];
  #stop = null;
  connectedCallback() { this.#start(); }
  disconnectedCallback() { this.#stop?.(); this.#stop = null; }
  attributeChangedCallback(name, before, now) { if (this.isConnected && before !== now && this.#stop) this.#start(); }
  #start() {
    this.#stop?.();
    this.#stop = null;
    const src = this.getAttribute("src");
    if (!src) return;
    let last = "";
    const tell = (name, detail) => this.dispatchEvent(new CustomEvent(name, { bubbles: true, detail }));
    this.#stop = follow(src, {
      status: (job) => {
        const now = JSON.stringify(job);
        if (now !== last) { last = now; tell("wm-status", job); }
      },
      flow: (message) => tell("wm-flow", message),
      done: () => tell("wm-done", {}),
      state: (state, code) => { this.dataset.state = state; tell("wm-connection", { state, code }); },
    });
  }
}
customElements.define("wm-live", Live);
