// Runs after harness.js in the isolate that many calls share. Afterwards nothing that code of users can reach can be
// changed, so that no call finds anything of another one. Only expressions that change nothing get here (see `is_tame`
// in expressions.py); this is the second wall, for what their text does not show.
(function () {
  "use strict";
  const { ownKeys, getOwnPropertyDescriptor, getPrototypeOf, deleteProperty } = Reflect;
  const { freeze } = Object;
  const global = globalThis;
  const KEPT = new Set([
    ..."Object Function Array Number Boolean String Symbol BigInt Date RegExp Math JSON Map Set".split(" "),
    ..."Error AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError".split(" "),
    ..."parseFloat parseInt isFinite isNaN Infinity NaN undefined".split(" "),
    ..."decodeURI decodeURIComponent encodeURI encodeURIComponent escape unescape __evaluate".split(" "),
  ]);

  // Kinds of functions, iterators and promises that have no name but are made by syntax and by methods.
  const unnamed = [
    function () {},
    function* () {},
    async function () {},
    async function* () {},
    (function* () {})(),
    (async function* () {})(),
    (async function () {})(),
    (() => {
      "use strict";
      return arguments;
    })(),
    (function () {
      return arguments;
    })(),
    [][Symbol.iterator](),
    ""[Symbol.iterator](),
    new Map()[Symbol.iterator](),
    new Set()[Symbol.iterator](),
    "".matchAll(/a/g),
    [].values().map((x) => x),
    Iterator.from({ next() {} }),
    Array.prototype[Symbol.unscopables],
    getOwnPropertyDescriptor(function () { "use strict"; return arguments; }.call(), "callee").get,
    /a/d.exec("a").indices,
    (strings => strings)``,
  ];

  function remove(object, name) {
    if (getOwnPropertyDescriptor(object, name) && !deleteProperty(object, name)) {
      throw new Error(`cannot remove ${String(name)}`);
    }
  }

  // What makes code of text, what changes objects other than by assignment, and what remembers.
  for (const made of unnamed.slice(0, 4)) remove(getPrototypeOf(made), "constructor");
  for (const name of "defineProperty defineProperties setPrototypeOf".split(" ")) remove(Object, name);
  for (const name of "__proto__ __defineGetter__ __defineSetter__".split(" ")) remove(Object.prototype, name);
  for (const name of ownKeys(RegExp)) {
    if (!["length", "name", "prototype", Symbol.species, "escape"].includes(name)) remove(RegExp, name);
  }
  for (const name of "captureStackTrace prepareStackTrace".split(" ")) remove(Error, name);
  for (const name of "for keyFor".split(" ")) remove(Symbol, name);
  remove(RegExp.prototype, "compile");
  remove(Array, "fromAsync"); // promises run code after the answer

  const removed = ownKeys(global).filter((name) => !KEPT.has(name));
  for (const name of removed) remove(global, name);

  const seen = new Set();
  const waiting = [global, ...unnamed];
  while (waiting.length) {
    const object = waiting.pop();
    if (object === null || (typeof object !== "object" && typeof object !== "function") || seen.has(object)) continue;
    seen.add(object);
    freeze(object);
    waiting.push(getPrototypeOf(object));
    for (const key of ownKeys(object)) {
      const { value, get, set } = getOwnPropertyDescriptor(object, key);
      waiting.push(value, get, set);
    }
  }
})();
