// One websocket per job and page, shared by every element that follows the job. It resumes by offset, so a lost
// connection loses and repeats nothing. The server's messages are described in docs/ui.md.

const GIVE_UP = new Set([4401, 4403, 4404]); // not signed in, not allowed, no such job
const sockets = new Map(); // path -> JobSocket

/** Offsets count Unicode code points, as the server does; JavaScript's own indices count UTF-16 units. */
const skip = (text, count) => (count > 0 ? [...text].slice(count).join("") : text);

class JobSocket {
  #path; #ws = null; #followers = new Set(); #retry = 0; #timer = 0; #offset = 0; #status = null; #finished = false; #state = "connecting"; #watch; #paused = false;
  constructor(path) { this.#path = path; }

  add(follower) {
    follower.next = follower.offset ?? 0;
    const first = !this.#followers.size;
    this.#followers.add(follower);
    if (this.#status) follower.status?.(this.#status);
    follower.state?.(this.#state);
    const behind = follower.log && follower.next < this.#offset;
    if (first && !follower.log) this.#offset = follower.next;
    if (first || behind) {
      // Log text before the common offset was sent already: ask for it again, the others drop what they have.
      if (follower.log) this.#offset = follower.next;
      if (this.#finished && !behind && !first) return follower.done?.();
      this.#finished = false;
      this.#dial();
    } else if (this.#finished) follower.done?.();
  }

  remove(follower) {
    this.#followers.delete(follower);
    if (this.#followers.size) return;
    clearTimeout(this.#timer);
    sockets.delete(this.#path);
    this.#drop();
  }

  /** Of a flow: which iterations to tell about ({loop id: n}); null: none, nobody looks. */
  watch(iterations) {
    this.#paused = iterations === null;
    if (iterations) this.#watch = iterations;
    if (this.#ws?.readyState === WebSocket.OPEN) this.#ws.send(JSON.stringify({ watch: iterations }));
  }

  #drop() {
    const old = this.#ws;
    this.#ws = null;
    old?.close(1000);
  }

  #dial() {
    clearTimeout(this.#timer);
    this.#drop();
    const url = new URL(this.#path, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("log_offset", this.#offset);
    const dialed = this.#watch && JSON.stringify(this.#watch);
    if (dialed) url.searchParams.set("watch", dialed);
    const ws = (this.#ws = new WebSocket(url));
    ws.onopen = () => {
      this.#say("open");
      if (this.#paused) ws.send('{"watch": null}');
      else if (this.#watch && JSON.stringify(this.#watch) !== dialed) this.watch(this.#watch);
    };
    ws.onmessage = (e) => { if (ws === this.#ws) this.#take(JSON.parse(e.data)); };
    ws.onclose = (e) => {
      if (ws !== this.#ws) return;
      this.#ws = null;
      if (this.#finished) return this.#say("closed");
      if (GIVE_UP.has(e.code)) return this.#say("refused", e.code);
      this.#say("reconnecting");
      // 0.5, 1, 2 ... 15 s, spread so that a restarted server is not met by everybody at once.
      const wait = Math.min(15000, 500 * 2 ** this.#retry++) * (0.75 + Math.random() / 2);
      this.#timer = setTimeout(() => this.#dial(), wait);
    };
  }

  #say(state, code) {
    this.#state = state;
    for (const f of this.#followers) f.state?.(state, code);
  }

  #take(message) {
    this.#retry = 0;
    if (message.type === "log") {
      this.#offset = Math.max(this.#offset, message.next);
      for (const f of this.#followers) {
        if (!f.log || message.next <= f.next) continue;
        f.log(skip(message.text, f.next - message.offset));
        f.next = message.next;
      }
    } else if (message.type === "status") {
      this.#status = message.job;
      for (const f of this.#followers) f.status?.(message.job);
    } else if (message.type === "flow") {
      for (const f of this.#followers) f.flow?.(message);
    } else if (message.type === "done") {
      this.#finished = true;
      for (const f of this.#followers) f.done?.();
    }
  }
}

/**
 * Follow a job. `follower` may hold: offset (code points of log already shown), log(text), status(job), done(),
 * state("connecting" | "open" | "reconnecting" | "refused" | "closed", code?), and for flows flow({whole, states}).
 * Returns a function that stops following.
 */
export function follow(path, follower) {
  if (!sockets.has(path)) sockets.set(path, new JobSocket(path));
  const socket = sockets.get(path);
  socket.add(follower);
  return () => socket.remove(follower);
}

/** Choose the iterations that a followed flow tells about; null: none for now. The answer is a whole new picture. */
export const watch = (path, iterations) => sockets.get(path)?.watch(iterations);
