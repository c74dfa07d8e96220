// What an expression can name at a step: inputs, results of earlier steps with the values of the last test, variables
// and resources; as a dialog to pick from, and as completions while typing.
import "../elements/flow-picker.js";
import { member } from "../elements/flow-picker.js";
import * as model from "../flow-model.js";
import { insertCall as insertCallInto } from "../insert-call.js";
import { moduleIcon, title } from "../flow-module.js";
import { names, typeOf } from "../schema.js";

const FUNCTIONS = [["get_variable", "(path) value of a variable"], ["set_variable", "(path, value)"], ["get_resource", "(path) value of a resource"], ["set_resource", "(value, path, resource_type)"], ["run_script_by_path", "(path, args) result"], ["get_state", "() state of this step"], ["set_state", "(value)"], ["get_resume_urls", "(approver) addresses to approve at"], ["get_flow_user_state", "(key)"], ["set_flow_user_state", "(key, value)"]];

export function picker({ $, urls, editor, state }) {
  let into = null;
  const paths = {}; // kind -> promise of [{path, note, type}]
  const known = (kind) => (paths[kind] ??= fetch(`${urls.picks}?kind=${kind}`).then((r) => (r.ok ? r.json() : { items: [] })).then((r) => r.items));
  const testId = () => state.lastTest?.id ?? null;
  async function peek(root, way, offset) {
    const answer = await fetch(`${urls.peek}?job=${testId()}&root=${encodeURIComponent(root)}&at=${encodeURIComponent(JSON.stringify(way))}&offset=${offset}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  }
  const level = (root) => async (way, offset) => {
    if (!testId()) throw new Error("No value yet: test the flow first");
    return peek(root, way, offset);
  };
  /** Items of flow_input: those of the schema, with the values of the last test. */
  const inputItems = (schema) => names(schema || {}).map((key) => ({ key, type: typeOf(schema.properties[key]) || "any", preview: "", note: schema.properties[key].description || "", size: null }));

  function roots(id) {
    const value = editor.value, schema = editor.doc.schema, entry = id ? model.find(value, id) : null, before = id ? model.earlier(value, id) : model.walk(value).filter((e) => !e.special);
    const found = [];
    const declared = inputItems(schema);
    found.push({ expr: "flow_input", label: "flow_input", icon: "log-out", note: "Inputs of the flow", open: true, searchable: true, level: async (way, offset) => {
      if (way.length) return peek("args", way, offset);
      let got = { items: [], more: false };
      if (testId()) try { got = await peek("args", [], offset); } catch { /* the declared ones remain */ }
      const values = new Map(got.items.map((x) => [x.key, x]));
      return { items: [...declared.map((d) => ({ ...d, ...values.get(d.key), note: d.note })), ...got.items.filter((x) => !declared.some((d) => d.key === x.key))], more: got.more };
    } });
    const loops = entry ? entry.parents.filter((p) => p.type === "forloopflow" || p.type === "whileloopflow") : [];
    if (loops.length) found.push({ expr: "flow_input.iter.value", label: "iter.value", icon: "repeat", note: `Item of ${loops.at(-1).id}` }, { expr: "flow_input.iter.index", label: "iter.index", icon: "repeat", note: "Its place, from 0" });
    if (entry?.special === "failure_module") found.push(...["message", "name", "stack", "step_id"].map((k) => ({ expr: `error.${k}`, label: `error.${k}`, icon: "triangle-alert", note: k === "step_id" ? "The step that failed" : "" })));
    const previous = entry && !entry.special && (entry.index > 0 ? model.at(value, [...entry.list, entry.index - 1]) : null);
    if (previous?.suspend) found.push({ expr: "resume", label: "resume", icon: "hand", note: "What the last approver filled in", items: inputItems(previous.suspend.resume_form?.schema) }, { expr: "resumes", label: "resumes", icon: "hand", note: "The same of all approvers" }, { expr: "approvers", label: "approvers", icon: "hand", note: "Who approved" });
    if (entry && !entry.special) found.push({ expr: "previous_result", label: "previous_result", icon: "arrow-up", note: previous ? `Result of ${previous.id}` : entry.list.length === 1 ? "The inputs of the flow" : "The result before this body", ...(previous ? { level: level(`step:${previous.id}`) } : {}) });
    // The nearest first; then steps inside of loops and branches that are over.
    const around = new Set(entry?.parents.map((p) => p.id)), inside = (e) => e.parents.findLast((p) => !around.has(p.id));
    const alone = (e) => e.parents.at(-1)?.type.endsWith("loopflow") && !around.has(e.parents.at(-1).id) && model.at(value, e.list).length === 1; // no result of its own is kept
    for (const e of before.filter((e) => !alone(e)).reverse().sort((a, b) => Boolean(inside(a)) - Boolean(inside(b)))) found.push({ expr: member("results", e.module.id), label: `results.${e.module.id}`, icon: moduleIcon(e.module), note: inside(e) ? `${title(e.module)}, in ${inside(e).id}` : title(e.module), level: level(`step:${e.module.id}`) });
    if (Object.keys(value.flow_env || {}).length) found.push({ expr: "flow_env", label: "flow_env", icon: "settings", items: Object.entries(value.flow_env).map(([key, v]) => ({ key, type: typeof v, preview: JSON.stringify(v).slice(0, 60), size: null })) });
    const listed = (kind, ico, words) => ({ label: words, icon: ico, searchable: true, level: async () => ({ items: (await known(kind)).map((p) => ({ key: p.path, type: "text", preview: "", note: [p.type, p.note].filter(Boolean).join(", "), size: null })), more: false }), write: ([p]) => `${kind}("${p}")` });
    found.push(listed("variable", "key-round", "Variables"), listed("resource", "boxes", "Resources"));
    return found.map((root) => (root.write ? { ...root, level: async (way) => (way.length ? { items: [], more: false } : root.level(way)) } : root));
  }

  function open(target) {
    into = target;
    const tree = $("pick-tree");
    $("pick-filter").value = "";
    tree.filter = "";
    tree.roots = roots(editor.selected);
    $("pick-title").textContent = "Connect to a value";
    $("pick-note").textContent = state.lastTest ? "Values are those of the last test." : "Values appear after the first test.";
    $("pick-dialog").showModal();
    $("pick-filter").focus();
  }
  $("pick-filter").addEventListener("input", (e) => { $("pick-tree").filter = e.target.value; });
  $("pick-filter").addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "Enter") { e.preventDefault(); const row = $("pick-tree").querySelector(".fp-row"); if (e.key === "Enter") row?.click(); else row?.focus(); }
  });
  $("pick-tree").addEventListener("wm-picked", (e) => {
    $("pick-dialog").close();
    into.insert(e.detail.expr);
  });

  /** Inserts a call that reads a variable or resource into the code of a step. */
  async function insertCall(kind, id) {
    const code = document.getElementById("step-code"), module = model.find(editor.value, id)?.module;
    const all = await known(kind);
    into = { insert: (path) => insertCallInto(code, module.value.language, kind, path) };
    const tree = $("pick-tree");
    $("pick-filter").value = "";
    tree.filter = "";
    tree.roots = all.map((p) => ({ expr: p.path, label: p.path, note: [p.type, p.note].filter(Boolean).join(", ") }));
    $("pick-title").textContent = kind === "variable" ? "Insert a variable" : "Insert a resource";
    $("pick-note").textContent = all.length ? "" : `There is no ${kind} that you may read yet.`;
    $("pick-dialog").showModal();
    $("pick-filter").focus();
  }

  // --- completions ---
  const word = (label, detail, type = "variable") => ({ label, detail, type });
  async function complete(before) {
    const id = editor.selected, call = /\b(variable|resource)\(\s*["'`][^"'`]*$/.exec(before) || /(?:get|set)_(variable|resource)\(\s*["'][^"']*$/.exec(before);
    if (call) return (await known(call[1])).map((p) => word(p.path, p.type, "constant"));
    if (/\bwmill\.\w*$/.test(before)) return FUNCTIONS.map(([label, info]) => word(`wmill.${label}`, info, "function"));
    const earlier = id ? model.earlier(editor.value, id) : model.walk(editor.value).filter((e) => !e.special);
    const chain = /(flow_input|results|previous_result)((?:\.[\w$]+|\[\d+\])*)\.[\w$]*$/.exec(before);
    if (chain) {
      const keys = (chain[2].match(/[\w$]+/g) || []).map((k) => (/^\d+$/.test(k) ? +k : k));
      if (chain[1] === "results" && !keys.length) return earlier.map((e) => word(`results.${e.module.id}`, title(e.module)));
      const declared = chain[1] === "flow_input" && !keys.length ? names(editor.doc.schema || {}) : [];
      const entry = id && model.find(editor.value, id), previous = entry?.list && entry.index > 0 ? model.at(editor.value, [...entry.list, entry.index - 1]).id : null;
      const root = chain[1] === "flow_input" ? "args" : chain[1] === "results" ? `step:${keys.shift()}` : previous && `step:${previous}`;
      const got = testId() && root ? await peek(root, keys, 0).catch(() => ({ items: [] })) : { items: [] };
      const base = `${chain[1]}${chain[2]}`, shown = new Map(got.items.filter((x) => typeof x.key === "string").map((x) => [x.key, x.preview]));
      for (const k of declared) if (!shown.has(k)) shown.set(k, typeOf(editor.doc.schema.properties[k]) || "");
      return [...shown].map(([k, preview]) => word(member(base, k), preview, "property"));
    }
    const entry = id && model.find(editor.value, id), list = [word("flow_input", "inputs of the flow"), word("results", "results of steps"), word("previous_result", "of the step before"), word("variable", "(path)", "function"), word("resource", "(path)", "function"), word("flow_env", "values for all steps")];
    if (entry?.parents.some((p) => p.type.endsWith("loopflow"))) list.push(word("flow_input.iter.value", "item"), word("flow_input.iter.index", "its place"));
    if (entry?.special === "failure_module") list.push(...["message", "name", "stack", "step_id"].map((k) => word(`error.${k}`, "")));
    return [...list, ...earlier.map((e) => word(`results.${e.module.id}`, title(e.module)))];
  }
  return { open, insertCall, complete };
}
