// Many calls, one after another, which come over a pipe: a warm process. What is said over it, and over the one for
// answers, and the marks in the log are described in workers/job_process/serving.py. Behind calling.mjs.

const [CALLS, ANSWERS, LOG] = [3, 4, 5];
const MOST_TOKENS = 10_000;
const LONG_MS = 100;
// Ours, whatever the script puts in their place.
const { setTimeout, clearTimeout, setImmediate } = globalThis;
const encoder = new TextEncoder();
const opened = new Map();
let current = null; // the call that runs: how to end it, and its function's name
let lastEnvironment = {};
const ownEnvironment = Deno ? Deno.env.toObject() : { ...process.env };

class Exited extends Error {}

function writeAll(descriptor, text) {
  let bytes = encoder.encode(text);
  while (bytes.length) {
    try {
      bytes = bytes.subarray(Deno ? file(descriptor).writeSync(bytes) : fs().writeSync(descriptor, bytes));
    } catch (error) {
      if (error?.code !== "EAGAIN" && error?.code !== "EINTR") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1); // the script made the pipe non-blocking
    }
  }
}

/** Deno does not take descriptors as they are. */
function file(descriptor) {
  if (!opened.has(descriptor)) {
    const way = descriptor === CALLS ? { read: true } : { write: true };
    opened.set(descriptor, Deno.openSync(`/proc/self/fd/${descriptor}`, way));
  }
  return opened.get(descriptor);
}

function answer(number, kind, text) {
  try {
    writeAll(ANSWERS, `${number} ${kind} ${text}\n`);
  } catch {
    leave(job.cannotAnswer);
  }
}

function say(number) {
  try {
    writeAll(LOG, `${job.mark}${number}\n`);
  } catch {
    leave(job.cannotAnswer);
  }
}

const leave = Deno ? Deno.exit.bind(Deno) : process.exit.bind(process);

/**
 * What comes over the pipe. While a call takes long nothing of ours keeps the event loop busy, so that it is noticed when
 * nothing is left to do.
 */
async function* chunks() {
  if (Bun) return yield* chunksOfStream();
  const place = new Uint8Array(65_536);
  for (let length; (length = await read(place)); ) yield place.subarray(0, length);
}

async function read(place) {
  if (Deno) return file(CALLS).read(place);
  for (;;) {
    const [error, length] = await new Promise((resolve) =>
      fs().read(CALLS, place, 0, place.length, null, (...told) => resolve(told)),
    );
    if (!error) return length;
    if (error.code !== "EAGAIN" && error.code !== "EINTR") throw error;
    await new Promise((resolve) => setTimeout(resolve, 1)); // the script made the pipe non-blocking
  }
}

/**
 * Bun's stream sees a line 0.1 ms sooner than such a read does, but counts as something to do; so it is let go for the
 * rest of a call that takes long. All that it has read is taken from it at once: nothing is lost then.
 */
async function* chunksOfStream() {
  const come = []; // null: the end
  let reader = null;
  let coming = null;
  const listen = () => {
    reader ??= Bun.file(CALLS).stream().getReader();
    const from = reader;
    coming ??= from.read().then(({ value, done }) => {
      if (from !== reader) return;
      coming = null;
      come.push(done ? null : value);
      if (!done) listen();
    });
  };
  const letGo = () => {
    const from = reader;
    reader = coming = null;
    from?.cancel().catch(() => {});
  };
  for (;;) {
    while (come.length === 0) {
      listen();
      await coming;
    }
    const chunk = come.shift();
    if (chunk === null) return;
    const timer = setTimeout(letGo, LONG_MS).unref();
    yield chunk;
    clearTimeout(timer);
  }
}

async function serve() {
  let module;
  try {
    module = await load();
  } catch (error) {
    answer(0, "E", errorText(error));
    leave(1);
  }
  if (Deno) Deno.exit = endCall;
  if (globalThis.process) process.exit = endCall;
  await flushed();
  say(0);
  answer(0, "L", "null");
  const decoder = new TextDecoder();
  let number = 0;
  let begun = []; // pieces of a line whose end has not come
  for await (const chunk of chunks()) {
    const text = decoder.decode(chunk, { stream: true });
    begun.push(text);
    if (!text.includes("\n")) continue;
    const lines = begun.join("").split("\n");
    begun = [lines.pop()];
    say(number + 1);
    for (const [at, line] of lines.entries()) {
      number += 1;
      await one(module, number, line, at + 1 < lines.length ? number + 1 : 0);
    }
  }
  leave(0);
}

async function one(module, number, line, nextNumber) {
  let kind = "R";
  let text;
  try {
    text = await new Promise((resolve, reject) => {
      const told = JSON.parse(line);
      current = { resolve, reject, name: told.main.name };
      setEnvironment(told.env);
      const asked = { args: told.args, main: told.main, preprocessor: told.pre };
      perform(module, asked, (args) => answer(number, "A", args)).then(resolve, reject);
    });
  } catch (error) {
    kind = "E";
    text = errorText(error);
  }
  current = null;
  // A character is three bytes at most: few texts have to be measured.
  if (text.length * 3 > job.resultBytes) {
    const size = encoder.encode(text).length;
    if (size > job.resultBytes) [kind, text] = ["E", JSON.stringify(tooLarge(size))];
  }
  await flushed();
  say(nextNumber);
  answer(number, kind, text);
}

function tooLarge(size) {
  const count = (number) => number.toLocaleString("en-US");
  const message =
    `The result has ${count(size)} bytes; the limit is ${count(job.resultBytes)}. Return less, or store the data and ` +
    "return where it is.";
  return { name: "ResultTooLarge", message, stack: "" };
}

/** What was written to the streams of Node is on its way yet; what console printed is there. */
async function flushed() {
  if (Deno) return;
  for (const stream of [process.stdout, process.stderr]) {
    if (stream.writableLength) await new Promise((resolve) => stream.write("", resolve));
  }
}

function setEnvironment(env) {
  const put = Deno ? Deno.env.set.bind(Deno.env) : (name, value) => (process.env[name] = value);
  for (const [name, value] of Object.entries(env)) if (lastEnvironment[name] !== value) put(name, value);
  for (const name of Object.keys(lastEnvironment)) {
    if (Object.hasOwn(env, name)) continue;
    if (Object.hasOwn(ownEnvironment, name)) put(name, ownEnvironment[name]);
    else if (Deno) Deno.env.delete(name);
    else delete process.env[name];
  }
  lastEnvironment = env;
  renewToken(env.WM_TOKEN);
}

// Clients of the API that the script keeps between calls remember the token of the job in which they were made, which
// ends with it. They may lie in a bundle, where nobody finds them; so it is renewed when they use it.
let token = ownEnvironment.WM_TOKEN;
const earlierTokens = new Set();

function renewToken(given) {
  if (!given || given === token) return;
  if (token) earlierTokens.add(token);
  if (earlierTokens.size > MOST_TOKENS) earlierTokens.delete(earlierTokens.values().next().value);
  earlierTokens.delete(given);
  token = given;
}

const plainFetch = globalThis.fetch;
globalThis.fetch = Object.assign(function fetch(input, init) {
  if (earlierTokens.size) {
    const given = init?.headers ?? (input instanceof Request ? input.headers : undefined);
    if (given) {
      const headers = new Headers(given);
      const [scheme, used] = (headers.get("authorization") ?? "").split(" ");
      if (scheme === "Bearer" && earlierTokens.has(used)) {
        headers.set("authorization", `Bearer ${token}`);
        init = { ...init, headers };
      }
    }
  }
  return plainFetch(input, init);
}, plainFetch);

/** process.exit of a loaded script ends the call, not the process, which others need. */
function endCall(code) {
  const exitCode = Number(code ?? 0);
  const why = `The script ended with exit code ${exitCode} before its function returned; process.exit does that`;
  if (exitCode === 0) current?.resolve("null");
  else current?.reject(new Refusal("ExecutionErr", why));
  throw new Exited();
}

function onStray(error) {
  if (!(error instanceof Exited)) current?.reject(error);
}

/** Nothing is left to do: what a call waits for cannot happen any more. */
function onIdle(event) {
  if (current === null) return;
  event?.preventDefault?.(); // Deno would end; the others do unless there is something new
  setImmediate(current.reject, neverReturned(current.name));
}

if (Deno) {
  addEventListener("beforeunload", onIdle);
  addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    onStray(event.reason);
  });
  addEventListener("error", (event) => {
    event.preventDefault();
    onStray(event.error);
  });
} else {
  process.on("beforeExit", onIdle);
  process.on("unhandledRejection", onStray);
  process.on("uncaughtException", onStray);
}
serve();
