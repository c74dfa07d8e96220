// The editing model of a flow: pure operations on an OpenFlow value. Each answers a new value that shares every part it
// did not change with the old one, so undo is a list of values. Nothing here knows the DOM.
//
// A place in a flow is {list, index}: `list` is the path of a list of modules in the value, e.g. ["modules"] or
// ["modules", 1, "value", "branches", 0, "modules"].
import { bodies } from "./flow-layout.js";

export const RESERVED = new Set(["do", "bg", "ctx", "state", "if", "else", "for", "delete", "while", "new", "in", "failure", "preprocessor", "as", "Input", "Result", "Trigger"]);
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
export const at = (value, path) => path.reduce((o, k) => o?.[k], value);
/** A copy of `value` with what is at `path` replaced by edit(what was there). */
export function update(value, path, edit) {
  if (!path.length) return edit(value);
  const [key, ...rest] = path, copy = Array.isArray(value) ? [...value] : { ...value };
  copy[key] = update(value?.[key] ?? (typeof rest[0] === "number" ? [] : rest.length ? {} : undefined), rest, edit);
  return copy;
}
/** `object` with `key` set, or without it when `v` is undefined, null or "". */
export function assign(object, key, v) {
  const copy = { ...object };
  if (v === undefined || v === null || v === "") delete copy[key];
  else copy[key] = v;
  return copy;
}

// --- finding ---

/** The paths, from a module, of the lists of modules directly inside it. */
export const listsOf = (module) => bodies(module).map((b) => b.place);
/**
 * Every module, depth first: {module, path, list, index, parents: [{id, type, list}], special?}. The preprocessor comes
 * first and the failure module last; they are in no list (`special` names their field).
 */
export function walk(value) {
  const found = [];
  const into = (list, parents) => (at(value, list) || []).forEach((module, index) => {
    const path = [...list, index];
    found.push({ module, path, list, index, parents });
    for (const below of listsOf(module)) into([...path, ...below], [...parents, { id: module.id, type: module.value.type, list: [...path, ...below] }]);
  });
  const special = (name) => { if (value?.[name]) found.push({ module: value[name], path: [name], list: null, index: 0, parents: [], special: name }); };
  special("preprocessor_module");
  into(["modules"], []);
  special("failure_module");
  return found;
}
export const find = (value, id) => walk(value).find((e) => e.module.id === id);
export const ids = (value) => walk(value).map((e) => e.module.id);
/** Ids of a module and of all inside it. */
export const idsWithin = (module) => walk({ modules: [module] }).map((e) => e.module.id);

/** Modules that have run before `id` begins: those before it in its list and in the lists around it, with all inside them. */
export function earlier(value, id) {
  const entry = find(value, id);
  if (!entry) return [];
  if (entry.special === "preprocessor_module") return [];
  if (entry.special) return walk(value).filter((e) => !e.special);
  const places = [{ list: entry.list, index: entry.index }, ...entry.parents.map((p) => find(value, p.id)).map((e) => ({ list: e.list, index: e.index }))];
  const starts = (path, list, index) => path.length > list.length && list.every((k, i) => path[i] === k) && path[list.length] < index;
  return walk(value).filter((e) => !e.special && places.some((p) => starts(e.path, p.list, p.index)));
}

// --- ids ---

/** a, b, … z, aa, ab, …: the n-th of them. */
function letters(n) {
  let text = "";
  for (n += 1; n > 0; n = Math.floor((n - 1) / 26)) text = String.fromCharCode(97 + ((n - 1) % 26)) + text;
  return text;
}
/** The first free id; `taken` (a Set) counts as used too. */
export function nextId(value, taken = new Set()) {
  const used = new Set(ids(value));
  for (let n = 0; ; n++) {
    const id = letters(n);
    if (!used.has(id) && !taken.has(id) && !RESERVED.has(id)) return id;
  }
}
/** Why `id` cannot be the id of the module that is called `was` now; "" when it can. */
export function idProblem(value, id, was) {
  if (!IDENTIFIER.test(id)) return "An id is a name as in JavaScript: letters, digits and _, not beginning with a digit";
  if (RESERVED.has(id)) return `“${id}” is a reserved word`;
  if (id !== was && ids(value).includes(id)) return `Another step is called ${id}`;
  return "";
}

// --- new modules ---

/** What the + of the graph offers: [kind, icon, name, hint]. */
export const KINDS = [
  ["python3", "file-code", "Python", "Code written here"],
  ["bash", "terminal", "Bash", "Code written here"],
  ["bun", "braces", "TypeScript", "Code written here"],
  ["postgresql", "database", "SQL", "A query written here"],
  ["script", "link", "Script", "One from the workspace"],
  ["flow", "workflow", "Sub-flow", "A flow from the workspace"],
  ["branchone", "git-branch", "Branch to one", "The first condition that is true"],
  ["branchall", "git-fork", "Branch to all", "Every branch"],
  ["forloopflow", "repeat", "For each", "Once for every item of a list"],
  ["whileloopflow", "repeat-2", "While", "Again until a step says stop"],
  ["approval", "hand", "Approval", "Waits for a person"],
  ["wait", "clock", "Wait", "A while before the next step"],
  ["aiagent", "zap", "AI agent", "A model that may use tools"],
];
const fixed = (value) => ({ type: "static", value });
/** A new module. `kind` is one of KINDS; `options` of scripts and flows: {path, summary}; of code: {starter}. */
export function newModule(kind, id, options = {}) {
  const base = options.summary ? { id, summary: options.summary } : { id };
  switch (kind) {
    case "python3": case "bun": case "bash": case "postgresql": return { ...base, value: { type: "rawscript", language: kind, content: options.starter ?? "", input_transforms: {} } };
    case "script": case "flow": return { ...base, value: { type: kind, path: options.path, input_transforms: {} } };
    case "branchone": return { ...base, summary: "Choose a branch", value: { type: "branchone", branches: [{ summary: "", expr: "false", modules: [] }], default: [] } };
    case "branchall": return { ...base, summary: "All branches", value: { type: "branchall", parallel: true, branches: [{ summary: "", skip_failure: false, modules: [] }, { summary: "", skip_failure: false, modules: [] }] } };
    case "forloopflow": return { ...base, summary: "For each item", value: { type: "forloopflow", iterator: { type: "javascript", expr: "[]" }, skip_failures: false, parallel: false, modules: [] } };
    case "whileloopflow": return { ...base, summary: "Until it is enough", value: { type: "whileloopflow", skip_failures: false, modules: [] }, stop_after_if: { expr: "flow_input.iter.index >= 9", skip_if_stopped: false } };
    case "approval": return {
      ...base, summary: "Approval",
      value: { type: "rawscript", language: "python3", content: "import wmill\n\n\ndef main(approver: str = \"\"):\n    # Send these addresses to whoever decides.\n    return wmill.get_resume_urls(approver)\n", input_transforms: { approver: fixed("") } },
      suspend: { required_events: 1, timeout: 1800 },
    };
    case "wait": return { ...base, summary: "Wait", value: { type: "identity" }, sleep: fixed(60) };
    case "aiagent": return { ...base, summary: "AI agent", value: { type: "aiagent", tools: [], input_transforms: { provider: fixed(null), user_message: fixed(""), system_prompt: fixed(""), output_type: fixed("text") } } };
    default: throw new Error(`no kind of module is called ${kind}`);
  }
}
export const failureModule = () => ({ id: "failure", summary: "When a step fails", value: { type: "rawscript", language: "python3", content: "def main(message: str, name: str, step_id: str):\n    print(f\"step {step_id} failed: {name}: {message}\")\n    return {\"message\": message, \"name\": name, \"step_id\": step_id}\n", input_transforms: Object.fromEntries(["message", "name", "step_id"].map((k) => [k, { type: "javascript", expr: `error.${k}` }])) } });
export const preprocessorModule = () => ({ id: "preprocessor", summary: "Reads the trigger's event", value: { type: "rawscript", language: "python3", content: "def preprocessor(event: dict):\n    # What this returns becomes the inputs of the flow.\n    return event.get(\"body\") or {}\n", input_transforms: {} } });

// --- changing the tree ---

export const insert = (value, { list, index }, ...modules) => update(value, list, (all) => [...(all || []).slice(0, index), ...modules, ...(all || []).slice(index)]);
export function remove(value, id) {
  const entry = find(value, id);
  if (!entry) return value;
  if (entry.special) return assign(value, entry.special, undefined);
  const next = update(value, entry.list, (all) => all.filter((_, i) => i !== entry.index));
  return next.early_return === id || idsWithin(entry.module).includes(next.early_return) ? assign(next, "early_return", undefined) : next;
}
export function setModule(value, id, edit) {
  const entry = find(value, id);
  return entry ? update(value, entry.path, edit) : value;
}
/** May `id` be moved to this place? Not into itself. */
export function canMove(value, id, { list }) {
  const entry = find(value, id);
  return Boolean(entry && !entry.special) && !(list.length > entry.path.length && entry.path.every((k, i) => list[i] === k));
}
/** Moves a module to a place named in the value as it is now. */
export function move(value, id, to) {
  const entry = find(value, id);
  if (!entry || !canMove(value, id, to)) return value;
  const same = to.list.length === entry.list.length && to.list.every((k, i) => k === entry.list[i]);
  if (same && (to.index === entry.index || to.index === entry.index + 1)) return value;
  // Put in first, as a mark that shifts no other path, then take the old one out.
  const added = insert(value, to, entry.module), old = same && to.index <= entry.index ? entry.index + 1 : entry.index;
  const list = shifted(entry.list, to);
  return update(added, list, (all) => all.filter((_, i) => i !== old));
}
/** The path `path` after something was put in at `to`. */
function shifted(path, to) {
  const n = to.list.length;
  if (path.length <= n || !to.list.every((k, i) => path[i] === k) || typeof path[n] !== "number" || path[n] < to.index) return path;
  return [...path.slice(0, n), path[n] + 1, ...path.slice(n + 1)];
}
/** Where Alt with an arrow moves a module: up, down (into a container it meets, out of one it leaves), left, right (branches). */
export function neighbour(value, id, direction) {
  const entry = find(value, id);
  if (!entry || entry.special) return null;
  const { list, index, parents } = entry, siblings = at(value, list), around = parents.at(-1);
  if (direction === "left" || direction === "right") {
    if (!around) return null;
    const lists = listsOf(find(value, around.id).module), base = find(value, around.id).path;
    const here = lists.findIndex((below) => [...base, ...below].join() === list.join()), other = lists[here + (direction === "right" ? 1 : -1)];
    return other ? { list: [...base, ...other], index: Math.min(index, (at(value, [...base, ...other]) || []).length) } : null;
  }
  const next = siblings[direction === "up" ? index - 1 : index + 1];
  if (next) {
    const inner = listsOf(next), step = direction === "up" ? index - 1 : index + 1;
    if (!inner.length) return { list, index: direction === "up" ? index - 1 : index + 2 };
    const into = [...list, step, ...inner[0]];
    return { list: into, index: direction === "up" ? (at(value, into) || []).length : 0 };
  }
  if (!around) return null;
  const parent = find(value, around.id);
  return { list: parent.list, index: direction === "up" ? parent.index : parent.index + 1 };
}

// --- copies ---

/** `module` with ids that are free in `value`; expressions inside it follow. */
export function renewed(value, module, taken = new Set()) {
  const map = new Map();
  for (const id of idsWithin(module)) {
    const fresh = nextId(value, new Set([...taken, ...map.values()]));
    map.set(id, fresh);
  }
  for (const id of map.values()) taken.add(id);
  return rewrite(renumber(module, map), map);
}
function renumber(module, map) {
  let next = { ...module, id: map.get(module.id) ?? module.id };
  for (const below of listsOf(module)) next = update(next, below, (all) => (all || []).map((m) => renumber(m, map)));
  return next;
}
export function duplicate(value, id) {
  const entry = find(value, id);
  if (!entry || entry.special) return { value, id };
  const copy = renewed(value, entry.module);
  return { value: insert(value, { list: entry.list, index: entry.index + 1 }, copy), id: copy.id };
}
/** The text that goes to the clipboard, and back: null for any other text. */
export const toClipboard = (module) => JSON.stringify({ "windmill/step": 1, module }, null, 2);
export function fromClipboard(text) {
  try {
    const found = JSON.parse(text);
    return found?.["windmill/step"] === 1 && isObject(found.module?.value) && typeof found.module.id === "string" ? found.module : null;
  } catch { return null; }
}

// --- references ---

/** Pieces of JavaScript: [kind, text], kind "code", "string" or "comment". The code inside `${…}` is code. */
export function pieces(source) {
  const out = [], stack = [];
  let from = 0, i = 0;
  const cut = (kind, to) => { if (to > from) out.push([kind, source.slice(from, to)]); from = to; };
  const template = () => {
    // Inside a template literal: up to its end, or to the next ${.
    while (i < source.length && source[i] !== "`") {
      if (source[i] === "\\") i++;
      else if (source[i] === "$" && source[i + 1] === "{") { i += 2; cut("string", i); stack.push(0); return; }
      i++;
    }
    i = Math.min(i + 1, source.length);
    cut("string", i);
  };
  while (i < source.length) {
    const c = source[i], two = source.slice(i, i + 2);
    if (c === '"' || c === "'") {
      cut("code", i);
      for (i++; i < source.length && source[i] !== c && source[i] !== "\n"; i++) if (source[i] === "\\") i++;
      i = Math.min(i + 1, source.length);
      cut("string", i);
    } else if (c === "`") { cut("code", i); i++; template(); }
    else if (two === "//") { cut("code", i); const end = source.indexOf("\n", i); i = end < 0 ? source.length : end; cut("comment", i); }
    else if (two === "/*") { cut("code", i); const end = source.indexOf("*/", i + 2); i = end < 0 ? source.length : end + 2; cut("comment", i); }
    else if (c === "{" && stack.length) { stack[stack.length - 1]++; i++; }
    else if (c === "}" && stack.length) {
      if (stack.at(-1) > 0) { stack[stack.length - 1]--; i++; }
      else { cut("code", i); stack.pop(); i++; template(); }
    } else i++;
  }
  cut("code", i);
  return out;
}
const BY_DOT = /((?<![\w$.])results\s*\??\.\s*)([A-Za-z_$][\w$]*)/g;
const BY_KEY = /(?<![\w$.])results\s*(?:\?\.\s*)?\[\s*$/;

/** Calls edit(id) for each step that an expression names as results.id or results["id"], and answers the expression with what it returned. */
function eachReference(expr, edit) {
  const parts = pieces(expr);
  return parts.map(([kind, text], i) => {
    if (kind === "code") return text.replace(BY_DOT, (_, head, id) => head + edit(id));
    const before = parts[i - 1], after = parts[i + 1];
    if (kind === "string" && text[0] !== "`" && text[0] !== "}" && before?.[0] === "code" && BY_KEY.test(before[1]) && /^\s*\]/.test(after?.[1] ?? "")) return text[0] + edit(text.slice(1, -1)) + text.at(-1);
    return text;
  }).join("");
}
/** Steps whose results an expression reads. */
export function mentioned(expr) {
  const found = new Set();
  if (typeof expr === "string") eachReference(expr, (id) => (found.add(id), id));
  return found;
}
const OPAQUE = new Set(["content", "lock", "schema", "resume_form", "mock", "flow_env"]);
/** Calls edit(expr, path) for every expression in a part of a flow and answers that part with what it returned. */
export function mapExpressions(part, edit, path = []) {
  if (Array.isArray(part)) {
    let changed = false;
    const next = part.map((x, i) => { const y = mapExpressions(x, edit, [...path, i]); changed ||= y !== x; return y; });
    return changed ? next : part;
  }
  if (!isObject(part) || part.type === "static") return part;
  let next = part;
  for (const [key, v] of Object.entries(part)) {
    if (OPAQUE.has(key)) continue;
    const made = (key === "expr" || key === "skip_expr") && typeof v === "string" ? edit(v, [...path, key]) : mapExpressions(v, edit, [...path, key]);
    if (made !== v) next = { ...next, [key]: made };
  }
  return next;
}
/** A part of a flow whose expressions name steps as `map` (old id -> new id) says. */
const rewrite = (part, map) => mapExpressions(part, (expr) => eachReference(expr, (id) => map.get(id) ?? id));

/** Gives a step another id; expressions and early_return that name it follow. */
export function rename(value, id, to) {
  if (id === to || idProblem(value, to, id)) return value;
  const next = rewrite(setModule(value, id, (m) => ({ ...m, id: to })), new Map([[id, to]]));
  return next.early_return === id ? { ...next, early_return: to } : next;
}

// --- branches ---

export const addBranch = (value, id) => setModule(value, id, (m) => update(m, ["value", "branches"], (all) => [...(all || []), m.value.type === "branchone" ? { summary: "", expr: "false", modules: [] } : { summary: "", skip_failure: false, modules: [] }]));
export const removeBranch = (value, id, n) => setModule(value, id, (m) => update(m, ["value", "branches"], (all) => all.filter((_, i) => i !== n)));
export function moveBranch(value, id, n, by) {
  return setModule(value, id, (m) => update(m, ["value", "branches"], (all) => {
    const to = n + by;
    if (to < 0 || to >= all.length) return all;
    const next = [...all];
    [next[n], next[to]] = [next[to], next[n]];
    return next;
  }));
}

/** The flow up to and including a step: what comes after it, in its list and those around it, is left out. */
export function upTo(value, id) {
  const entry = find(value, id);
  if (!entry || entry.special) return value;
  let next = value;
  for (const e of [entry, ...entry.parents.map((p) => find(value, p.id))]) next = update(next, e.list, (all) => all.slice(0, e.index + 1));
  return next;
}

// --- values from outside ---

/** Why a value that was typed as text cannot be drawn, with the place; "" when it can. Ids may be missing. */
export function malformed(value) {
  const lists = [["modules", value?.modules]];
  for (const name of ["failure_module", "preprocessor_module"]) if (value?.[name] !== undefined && value[name] !== null) lists.push([name, [value[name]]]);
  while (lists.length) {
    const [place, list] = lists.pop();
    if (!Array.isArray(list)) return `${place} should be a list of steps`;
    for (const [i, m] of list.entries()) {
      const here = place.endsWith("modules") || place.endsWith("default") ? `${place}[${i}]` : place, v = m?.value;
      if (!isObject(m) || !isObject(v) || typeof v.type !== "string") return `${here} is no step: it needs a value with a type`;
      if (m.id !== undefined && typeof m.id !== "string") return `${here}.id should be text`;
      if (v.type.endsWith("loopflow")) lists.push([`${here}.value.modules`, v.modules]);
      if (v.type === "branchone") lists.push([`${here}.value.default`, v.default]);
      if (!v.type.startsWith("branch")) continue;
      if (!Array.isArray(v.branches) || !v.branches.every(isObject)) return `${here}.value.branches should be a list of branches`;
      v.branches.forEach((b, n) => lists.push([`${here}.value.branches[${n}].modules`, b.modules]));
    }
  }
  return "";
}
/** The value with an id for every step that has none. */
export function withIds(value) {
  let next = value;
  for (const { module, path } of walk(value)) if (!module.id) next = update(next, [...path, "id"], () => nextId(next));
  return next;
}

// --- faults that can be seen without the server ---

/** The module a place such as "modules[2].value.branches[0].expr" is in: its id, else null. */
export function moduleAt(value, place) {
  const path = (place.match(/[^.[\]]+/g) || []).map((k) => (/^\d+$/.test(k) ? Number(k) : k));
  let node = value, id = null;
  for (const key of path) {
    node = node?.[key];
    if (isObject(node) && typeof node.id === "string" && isObject(node.value)) id = node.id;
  }
  return id;
}
/**
 * What is wrong or doubtful: [{id (of the step, null for the flow), place, message, level: "error" | "warning"}].
 * The server's check is the whole truth; this one answers while typing.
 */
export function problems(value) {
  const found = [], all = walk(value), known = new Map();
  const say = (id, place, message, level = "error") => found.push({ id, place, message, level });
  for (const { module } of all) known.set(module.id, (known.get(module.id) || 0) + 1);
  for (const { module: m, special } of all) {
    const v = m.value || {};
    if (known.get(m.id) > 1) say(m.id, "id", `Two steps are called ${m.id}`);
    if (!special && RESERVED.has(m.id)) say(m.id, "id", `“${m.id}” is a reserved word and cannot be an id`);
    if ((v.type === "script" || v.type === "flow") && !v.path) say(m.id, "path", "Choose what to run");
    if (v.type === "forloopflow" && isObject(v.iterator) && v.iterator.type === "javascript" && !v.iterator.expr?.trim()) say(m.id, "iterator", "The list to go through is missing");
    if (v.type === "branchone") (v.branches || []).forEach((b, i) => { if (!b.expr?.trim()) say(m.id, `branches[${i}]`, `Branch ${i + 1} has no condition`); });
    if (v.type === "whileloopflow" && !m.stop_after_if?.expr && !walk({ modules: v.modules }).some((e) => e.module.stop_after_if)) say(m.id, "stop_after_if", "Nothing ends this loop: give it, or a step in it, “stop after”", "warning");
    const own = listsOf(m).length ? { ...m, value: { ...v, modules: [], default: [], branches: (v.branches || []).map((b) => ({ ...b, modules: [] })) } } : m;
    mapExpressions(own, (expr, path) => {
      for (const id of mentioned(expr)) if (!known.has(id)) say(m.id, path.join("."), `results.${id}: no step is called ${id}`, "warning");
      return expr;
    });
  }
  if (value.early_return && !known.has(value.early_return)) say(null, "early_return", `Early return: no step is called ${value.early_return}`);
  return found;
}

// --- undo ---

const QUIET = 900; // ms: changes of the same thing within this time are one step back

/** Versions of anything, back and forth. Changes with the same `tag` in quick succession (typing) are one step. */
export class History {
  #past = []; #future = []; #tag = null; #when = 0; #most;
  constructor(present, most = 200) { this.present = present; this.#most = most; }
  /** `aside` (e.g. what is selected) is handed back by the undo of this change. */
  push(next, { tag = null, now = Date.now(), aside = null } = {}) {
    if (next === this.present) return;
    if (!(tag && tag === this.#tag && now - this.#when < QUIET && this.#past.length)) {
      this.#past.push([this.present, aside]);
      if (this.#past.length > this.#most) this.#past.shift();
    }
    this.#future = [];
    this.#tag = tag;
    this.#when = now;
    this.present = next;
  }
  get canUndo() { return this.#past.length > 0; }
  get canRedo() { return this.#future.length > 0; }
  /** Answers what was given as `aside`; undefined when there is nothing to undo. */
  undo() { return this.#go(this.#past, this.#future); }
  redo() { return this.#go(this.#future, this.#past); }
  #go(from, to) {
    if (!from.length) return undefined;
    const [value, aside] = from.pop();
    to.push([this.present, aside]);
    this.present = value;
    this.#tag = null;
    return aside;
  }
}
