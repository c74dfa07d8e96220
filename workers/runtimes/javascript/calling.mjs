// @bun
// (Bun takes a file that begins like this as it is, which saves most of a millisecond; so import.meta.require.)
// Calls a function of a script: what all ways to do it have in common, as plain JavaScript for Bun, Deno and Node alike.
// Behind it comes wrapper.mjs (one call, given with the text) or serving.mjs (many, which come over a pipe); the worker
// puts what it knows in place of the name JOB (see call.py). Bun and Deno load node:fs slower than they do all the rest
// (3 and 35 ms), so a run that succeeds gets by without it.
const job = JSON.parse(JOB);
const folder = import.meta.dirname;
const { Bun, Deno } = globalThis;
const print = console.log.bind(console);
const STREAM_PREFIX = "WM_STREAM: ";

class Refusal extends Error {
  constructor(name, message) {
    super(message);
    this.name = name;
    this.stack = "";
  }
}

function neverReturned(name) {
  const why = "waits for something that can no longer happen: nothing is left to do, and it has not returned";
  return new Refusal("NeverReturned", `${name} ${why}`);
}

async function load() {
  if (Bun) {
    try {
      return import.meta.require(job.module); // a millisecond faster than import()
    } catch (error) {
      if (!String(error?.message).startsWith("require() async module")) throw error;
    }
  }
  return import(job.module);
}

/** The result of one call, as JSON. `onPreprocessed` gets what the preprocessor returned, before main is called. */
async function perform(module, { args, main, preprocessor }, onPreprocessed) {
  if (preprocessor) {
    const text = toJson(await call(module, preprocessor, args));
    args = JSON.parse(text);
    if (args === null || typeof args !== "object" || Array.isArray(args)) {
      throw new Refusal(
        "PreprocessorError",
        `preprocessor returned ${text.slice(0, 100)}; it must return an object with the arguments of ${main.name}`,
      );
    }
    await onPreprocessed(text);
  }
  let value = await call(module, main, args);
  if (value?.[Symbol.asyncIterator] || value?.[Symbol.iterator]) value = await streamed(value);
  return toJson(value);
}

function call(module, { name, parameters, dates }, args) {
  const callee = module[name] ?? module.default?.[name];
  if (typeof callee !== "function") {
    const example = `export async function ${name}(name: string) { ... }`;
    throw new Refusal(
      "MissingEntrypoint",
      `${job.file} exports no function named ${name}; define it and export it, for example: ${example}`,
    );
  }
  if (parameters === null) return callee(...Object.values(args));
  return callee(
    ...parameters.map((parameter) => {
      const value = Object.hasOwn(args, parameter) ? args[parameter] : undefined;
      return dates.includes(parameter) && typeof value === "string" ? new Date(value) : value;
    }),
  );
}

/** What a generator yields goes to the log piece by piece; all of it together is the result. */
async function streamed(value) {
  const isStream =
    typeof value?.[Symbol.asyncIterator] === "function" ||
    (typeof value?.[Symbol.iterator] === "function" && typeof value.next === "function");
  if (!isStream) return value;
  const sent = [];
  for await (const piece of value) {
    const text = typeof piece === "string" ? piece : toJson(piece);
    print(STREAM_PREFIX + text.replaceAll("\n", "\\n"));
    sent.push(piece);
  }
  return sent.length && sent.every((piece) => typeof piece === "string") ? sent.join("") : sent;
}

function toJson(value) {
  try {
    return JSON.stringify(value, plain) ?? "null";
  } catch (error) {
    if (error instanceof TypeError && /cyclic|circular/.test(error.message)) {
      throw new Refusal("InvalidResult", "the result contains itself, which JSON cannot express");
    }
    if (error instanceof RangeError && /stack/.test(error.message)) {
      throw new Refusal("InvalidResult", "the result is nested too deeply");
    }
    throw error;
  }
}

function plain(_key, value) {
  if (typeof value === "bigint") {
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  }
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Map) {
    const entries = [...value];
    return entries.every(([key]) => typeof key === "string") ? Object.fromEntries(entries) : entries;
  }
  if (value instanceof Set) return [...value];
  if (value instanceof Error) return { ...value, name: value.name, message: value.message };
  if (value instanceof ArrayBuffer) return base64(new Uint8Array(value));
  if (value instanceof Uint8Array) return base64(value);
  return value;
}

function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

function fs() {
  return Bun ? import.meta.require("node:fs") : process.getBuiltinModule("node:fs");
}

/** An error as JSON, in the places of the script's author. */
function errorText(error) {
  let text;
  try {
    text = JSON.stringify(described(error));
  } catch {
    text = JSON.stringify({ name: "Error", message: "the error could not be described", stack: "" });
  }
  for (const root of [folder, job.folder].filter(Boolean)) {
    text = text.replaceAll(`file://${root}/`, "").replaceAll(`${root}/`, "");
  }
  return text;
}

function described(error) {
  if (typeof error !== "object" || error === null) {
    return { name: "Error", message: typeof error === "string" ? error : `thrown: ${String(error)}`, stack: "" };
  }
  const isError = typeof error.message === "string";
  const told = {
    name: isError && error.name ? String(error.name) : "Error",
    message: isError ? error.message : toJson(error),
    stack: traced(error),
  };
  for (const field of ["position", "specifier", "referrer"]) {
    if (error[field] && ["BuildMessage", "ResolveMessage"].includes(told.name)) told[field] = error[field];
  }
  if (error instanceof AggregateError && !told.stack.includes("\n    at ")) told.errors = error.errors.map(described);
  const extra = {};
  for (const [key, value] of Object.entries(error)) {
    if (["name", "message", "stack"].includes(key)) continue;
    try {
      extra[key] = JSON.parse(toJson(value));
    } catch {
      extra[key] = String(value);
    }
  }
  if (Object.keys(extra).length) told.extra = extra;
  return told;
}

function traced(error, depth = 0) {
  let stack = typeof error.stack === "string" ? error.stack : "";
  if (error.cause instanceof Error && depth < 5) stack += `\nCaused by: ${traced(error.cause, depth + 1)}`;
  return stack;
}
