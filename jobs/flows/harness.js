// Runs in a new isolate, before the code of users: evaluates expressions of one call and answers in text.
// Whatever users change in here (prototypes, globals) ends with the isolate, that is with the call; where many calls
// share the isolate, hardening.js runs next and nothing can be changed.
(function () {
  "use strict";
  const { parse, stringify } = JSON;
  const { Function: SyncFunction, Proxy } = globalThis; // not there any more in shared isolates
  const AsyncFunction = (async () => {}).constructor;
  const { getOwnPropertyDescriptor, create } = Object;
  const promiseOf = Promise.resolve.bind(Promise);
  const LINES_BEFORE = 3; // of a function made from text, before the first line of its author

  const hasOwn = (object, key) => getOwnPropertyDescriptor(object, key) !== undefined;
  const MISSING = Object.freeze(create(null)); // thrown where a value is not here yet: Python brings it and evaluates anew

  let request; // { programs, values, results, calls }
  let texts; // JSON texts that `request` points at, by number
  let shared; // values read by programs that cannot change them: parsed once
  let outcomes;
  let isBusy = false;

  function valueOf(index, isPure) {
    if (!isPure) return parse(texts[index]);
    if (!hasOwn(shared, index)) shared[index] = parse(texts[index]);
    return shared[index];
  }

  function resultsFor(program, need) {
    const here = create(null);
    const read = (id) => {
      if (hasOwn(here, id)) return here[id];
      if (!hasOwn(request.results, id)) return need("results", id);
      return (here[id] = valueOf(request.results[id], program.pure));
    };
    return new Proxy(here, {
      get: (target, key) => (typeof key === "string" ? read(key) : undefined),
      has: (target, key) => typeof key === "string" && read(key) !== null,
      getOwnPropertyDescriptor: (target, key) => {
        if (typeof key !== "string" || read(key) === null) return undefined;
        return { value: here[key], writable: true, enumerable: true, configurable: true };
      },
      set: (target, key, value) => {
        here[key] = value;
        return true;
      },
    });
  }

  // variable(), resource(), flow_user_state(): the value at once, which `await` accepts as well; a promise for
  // authors who write .then().
  function callable(kind, program, need) {
    return (name) => {
      const key = String(name);
      const known = request.calls[kind];
      const value = hasOwn(known, key) ? valueOf(known[key], false) : need(kind, key);
      return program.thens ? promiseOf(value) : value;
    };
  }

  // An expression is what stands between brackets, of both kinds: `1); (2` passes one of them only.
  function compile(program) {
    const Made = program.awaits ? AsyncFunction : SyncFunction;
    const { source } = program;
    const url = "\n//# sourceURL=expression";
    // A last semicolon, also before a comment, leaves it an expression.
    for (const expression of [source.replace(/[\s;]+$/, ""), source.replace(/;\s*\/\/[^\n]*\s*$/, "")]) {
      try {
        new Made("[\n" + expression + "\n]");
        return new Made(...program.names, "return (\n" + expression + "\n)" + url);
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
      }
    }
    new Made(source); // closes no bracket of ours
    const open = program.awaits ? "return (async () => {\n" : "return (() => {\n";
    return new Made(...program.names, open + source + "\n})()" + url);
  }

  function failure(error) {
    let name = "Error";
    let message;
    let line = null;
    try {
      if (error instanceof Error || (typeof error === "object" && error !== null && typeof error.message === "string")) {
        name = typeof error.name === "string" ? error.name : name;
        message = String(error.message);
        const place = /expression:(\d+):\d+/.exec(String(error.stack));
        if (place) line = Number(place[1]) - LINES_BEFORE;
      } else {
        message = typeof error === "string" ? error : stringify(error);
      }
    } catch {
      // An error whose own properties throw.
    }
    return { failed: { name, message: message === undefined ? "failed without a message" : message, line } };
  }

  function finish(outcome, value) {
    try {
      if (outcome.program.truth) {
        outcome.text = value ? "true" : "false";
        return;
      }
      const text = stringify(value);
      if (text !== undefined && text.length > request.maxLength) {
        outcome.failed = { name: "RangeError", message: "the value is too large", line: null };
      } else {
        outcome.text = text === undefined ? "null" : text;
      }
    } catch (error) {
      outcome.failed = failure(error).failed;
    }
  }

  function run(program) {
    const outcome = { program, needs: [], text: undefined, failed: undefined };
    const need = (kind, key) => {
      outcome.needs.push([kind, key]);
      throw MISSING;
    };
    try {
      const values = program.names.map((name) => {
        if (hasOwn(request.values, name)) return valueOf(request.values[name], program.pure);
        return name === "results" ? resultsFor(program, need) : callable(name, program, need);
      });
      const value = compile(program)(...values);
      if (value !== null && (typeof value === "object" || typeof value === "function") && typeof value.then === "function") {
        promiseOf(value).then(
          (settled) => finish(outcome, settled),
          (error) => (outcome.failed = failure(error).failed),
        );
      } else {
        finish(outcome, value);
      }
    } catch (error) {
      outcome.failed = failure(error).failed;
    }
    return outcome;
  }

  // First line: what became of each program; then the values, a line each (JSON text has no line breaks).
  function answer(isFinal) {
    const lines = [""];
    let isPending = false;
    const about = outcomes.map((outcome) => {
      if (outcome.needs.length) return { needs: outcome.needs };
      if (outcome.failed) return { failed: outcome.failed };
      if (outcome.text === undefined) {
        isPending = true;
        return { pending: true };
      }
      lines.push(outcome.text);
      return { line: lines.length - 1 };
    });
    if (isPending && !isFinal) return "";
    lines[0] = stringify(about);
    return lines.join("\n");
  }

  function main(header, ...blobs) {
    if (header === undefined) return answer(true); // all that could settle has settled since the first call
    if (isBusy) throw new Error("not here"); // an expression that calls its evaluator
    isBusy = true;
    request = parse(header);
    if (request.isOnly) delete globalThis.__evaluate;
    try {
      texts = blobs;
      shared = create(null);
      outcomes = request.programs.map(run);
      return answer(!request.isOnly); // a shared isolate waits for nothing
    } finally {
      isBusy = false;
      if (!request.isOnly) request = texts = shared = outcomes = undefined;
    }
  }
  globalThis.__evaluate = main;
  return main;
})();
