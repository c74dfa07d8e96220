// The shape of a flow, and its picture. A flow (OpenFlow) is a tree of sequences, branches and loops, so the picture is
// computed by one recursive pass: no graph library, no worker, and the same value always gives the same picture.
// Statuses take no part in it: what changes while a flow runs moves nothing.

export const NODE = { w: 238, h: 48 };
const COLUMN = 30; // between branches
const PILL = 24, END = 26; // heights of a branch's name and of "Inputs", "Result"
const STRIP = 26; // room for a loop's iterations
const SNUG = { gap: 34, pad: 18, empty: 10 };
const ROOMY = { gap: 46, pad: 30, empty: 34 }; // room for the + buttons of the editor

const list = (modules) => (Array.isArray(modules) ? modules : []);

/**
 * The bodies of a module: [{ref, branch, label, hint, modules, place}]. `ref` is the server's name of a body ("c" for a
 * loop, "b/0" and "b/default" for branches), `place` the way to its list from the module: ["value", "branches", 0, "modules"].
 */
export function bodies(module) {
  const value = module.value ?? {};
  const branches = (label) => list(value.branches).map((b, i) => ({
    ref: `${module.id}/${i}`, branch: i, label: b.summary || label(b, i), hint: b.expr || "", modules: list(b.modules), place: ["value", "branches", i, "modules"],
  }));
  switch (value.type) {
    case "forloopflow": case "whileloopflow":
      return [{ ref: module.id, branch: null, label: "", hint: "", modules: list(value.modules), place: ["value", "modules"] }];
    case "branchone":
      return [...branches((b, i) => b.expr || `branch ${i + 1}`), { ref: `${module.id}/default`, branch: "default", label: "default", hint: "When no condition is true", modules: list(value.default), place: ["value", "default"] }];
    case "branchall":
      return branches((_b, i) => `branch ${i + 1}`);
    default:
      return [];
  }
}
export const isLoop = (module) => module.value?.type === "forloopflow" || module.value?.type === "whileloopflow";
/** Do its iterations or branches run at the same time? */
export const isSideBySide = (module) => !!module.value?.parallel && (isLoop(module) || module.value.type === "branchall");

/**
 * Every module, depth first: {module, place, body, around, depth}. `place` is the way to it in the value, `body` the ref of the
 * body that holds it (null at the top), `around` the ids of the modules around it, outermost first.
 */
export function* everyModule(value) {
  function* walk(modules, place, body, around) {
    for (const [i, module] of modules.entries()) {
      const here = [...place, i];
      yield { module, place: here, body, around, depth: around.length };
      for (const b of bodies(module)) yield* walk(b.modules, [...here, ...b.place], b.ref, [...around, module.id]);
    }
  }
  if (value?.preprocessor_module) yield { module: value.preprocessor_module, place: ["preprocessor_module"], body: null, around: [], depth: 0 };
  yield* walk(list(value?.modules), ["modules"], null, []);
  if (value?.failure_module) yield { module: value.failure_module, place: ["failure_module"], body: null, around: [], depth: 0 };
}

/** How many steps are inside `module`, at any depth. */
export function stepsInside(module) {
  return bodies(module).reduce((sum, b) => sum + b.modules.length + b.modules.reduce((s, m) => s + stepsInside(m), 0), 0);
}

// --- measuring: every item knows its size and the x of its axis ---

function sequence(modules, opt) {
  const items = modules.map((m) => measure(m, opt));
  // Items share one vertical axis; the width is only what each side needs.
  const left = Math.max(NODE.w / 2, ...items.map((i) => i.axis));
  const right = Math.max(NODE.w / 2, ...items.map((i) => i.w - i.axis));
  const h = items.length ? items.reduce((sum, i) => sum + i.h, 0) + opt.gap * (items.length - 1) : opt.empty;
  return { items, w: left + right, axis: left, h };
}
function measure(m, opt) {
  const inside = bodies(m);
  if (!inside.length || opt.collapsed.has(m.id)) return { m, type: "leaf", w: NODE.w, axis: NODE.w / 2, h: NODE.h, folded: inside.length > 0 };
  if (isLoop(m)) {
    const body = sequence(inside[0].modules, opt);
    return { m, type: "loop", body, place: inside[0].place, w: body.w + opt.pad * 2, axis: body.axis + opt.pad, h: 10 + NODE.h + STRIP + opt.gap * 0.7 + body.h + opt.pad };
  }
  const columns = inside.map((b) => ({ ...b, ...sequence(b.modules, opt) }));
  const w = columns.reduce((sum, c) => sum + c.w, 0) + COLUMN * (columns.length - 1);
  const inner = Math.max(...columns.map((c) => c.h));
  // The trunk leaves from the middle of the first and the last column's axes.
  const first = columns[0].axis, last = w - columns.at(-1).w + columns.at(-1).axis;
  return { m, type: "branch", columns, w, axis: (first + last) / 2, h: NODE.h + opt.gap + PILL + opt.gap * 0.7 + inner + opt.gap };
}

/**
 * Places `value` (a FlowValue). `collapsed`: ids of containers drawn as one node; `roomy`: wider gaps for the editor.
 *
 * Returns {w, h, nodes, edges, boxes, pills, dots, strips, slots}:
 *   nodes  {id, x, y, module, place, body, role: "step" | "failure" | "preprocessor", container, folded, inside}
 *   edges  {key, d, from, to, branch}: `from` and `to` are step ids, null at the ends; `branch` {id, branch} inside of one
 *   boxes  {id, x, y, w, h} of loops and of the failure module
 *   pills  {key, x (middle), y, w, h, text, hint, id, branch, end}
 *   dots   {key, x, y} where branches join      strips {id, x, y, w}: the place of a loop's iterations
 *   slots  {x, y, list (place of the array in the value), index, empty}: where a step can be added
 */
export function layout(value, { collapsed = new Set(), roomy = false } = {}) {
  const opt = { ...(roomy ? ROOMY : SNUG), collapsed };
  const { gap, pad } = opt;
  const nodes = [], edges = [], boxes = [], pills = [], dots = [], strips = [], slots = [];
  const edge = (x1, y1, x2, y2, from, to, { bend, branch = null } = {}) => edges.push({ key: `${edges.length}`, d: elbow(x1, y1, x2, y2, bend), from, to, branch });
  const node = (m, x, y, place, body, more = {}) => nodes.push({ id: m.id, x, y, module: m, place, body, role: "step", container: false, folded: false, inside: 0, ...more });

  function putSequence(seq, x, y, place, body, branch) {
    const cx = x + seq.axis, nested = place.length > 1;
    slots.push({ x: cx, y: seq.items.length ? y - (nested ? Math.min(16, gap * 0.35) : gap / 2) : y + seq.h / 2, list: place, index: 0, empty: !seq.items.length });
    seq.items.forEach((item, i) => {
      put(item, cx - item.axis, y, [...place, i], body, branch);
      const next = seq.items[i + 1];
      slots.push({ x: cx, y: y + item.h + (next ? gap / 2 : nested ? 14 : gap / 2), list: place, index: i + 1, empty: false });
      if (next) edge(cx, y + item.h, cx, y + item.h + gap, item.m.id, next.m.id, { branch });
      y += item.h + gap;
    });
  }
  function put(item, x, y, place, body, branch) {
    const cx = x + item.axis, { id } = item.m;
    node(item.m, cx - NODE.w / 2, item.type === "loop" ? y + 10 : y, place, body, { container: item.type !== "leaf" || item.folded, folded: !!item.folded, inside: item.folded ? stepsInside(item.m) : 0 });
    if (item.type === "loop") {
      boxes.push({ id, x, y, w: item.w, h: item.h });
      const under = y + 10 + NODE.h, start = under + STRIP + gap * 0.7;
      strips.push({ id, x: cx - NODE.w / 2, y: under + 7, w: NODE.w });
      edge(cx, under + STRIP, cx, start, id, item.body.items[0]?.m.id ?? null, { branch });
      putSequence(item.body, x + pad, start, [...place, ...item.place], id, branch);
    }
    if (item.type === "branch") {
      const out = y + NODE.h + gap * 0.5, join = y + item.h - gap * 0.45;
      let bx = x;
      for (const c of item.columns) {
        const ax = bx + c.axis, py = y + NODE.h + gap, start = py + PILL + gap * 0.7, mine = { id, branch: c.branch };
        const w = Math.min(NODE.w - 16, 24 + c.label.length * 6.9);
        edge(cx, y + NODE.h, ax, py, id, c.modules[0]?.id ?? null, { bend: out, branch: mine });
        pills.push({ key: c.ref, x: ax, y: py, w, h: PILL, text: c.label, hint: c.hint || c.label, id, branch: c.branch, end: false });
        edge(ax, py + PILL, ax, start, id, c.modules[0]?.id ?? null, { branch: mine });
        putSequence(c, bx, start, [...place, ...c.place], c.ref, mine);
        if (!c.items.length) edge(ax, start, ax, start + c.h, id, null, { branch: mine });
        edge(ax, start + c.h, cx, y + item.h, c.items.at(-1)?.m.id ?? id, null, { bend: join, branch: mine });
        bx += c.w + COLUMN;
      }
      dots.push({ key: id, x: cx, y: y + item.h });
    }
  }

  const modules = list(value?.modules), root = sequence(modules, opt), before = value?.preprocessor_module, failure = value?.failure_module;
  // The frame of the failure module is a little wider than a node.
  const frame = failure ? NODE.w / 2 + 12 : 0, axis = Math.max(root.axis, frame), x = axis - root.axis;
  let y = 0;
  const end = (text, key) => { pills.push({ key, x: axis, y, w: 84, h: END, text, hint: "", id: null, branch: null, end: true }); y += END; };
  if (before) {
    end("Trigger", "trigger");
    edge(axis, y, axis, y + gap, null, before.id);
    y += gap;
    node(before, axis - NODE.w / 2, y, ["preprocessor_module"], null, { role: "preprocessor" });
    y += NODE.h;
    edge(axis, y, axis, y + gap, before.id, null);
    y += gap;
  }
  end("Inputs", "inputs");
  edge(axis, y, axis, y + gap, null, modules[0]?.id ?? null);
  y += gap;
  putSequence(root, x, y, ["modules"], null, null);
  if (!modules.length) edge(axis, y, axis, y + root.h, null, null);
  y += root.h;
  edge(axis, y, axis, y + gap, modules.at(-1)?.id ?? null, null);
  y += gap;
  end("Result", "result");
  if (failure) {
    // Apart from the flow, without an edge: any step may lead to it.
    y += gap * 0.8;
    boxes.push({ id: failure.id, x: axis - NODE.w / 2 - 12, y, w: NODE.w + 24, h: NODE.h + PILL + 26, role: "failure" });
    pills.push({ key: "failure", x: axis, y: y + 8, w: 118, h: PILL, text: "If a step fails", hint: "", id: failure.id, branch: null, end: true });
    node(failure, axis - NODE.w / 2, y + PILL + 14, ["failure_module"], null, { role: "failure" });
    y += NODE.h + PILL + 26;
  }
  return { w: Math.max(x + root.w, axis + frame), h: y, nodes, edges, boxes, pills, dots, strips, slots };
}

/** From (x1, y1) down to (x2, y2), turning at the height `bend` with round corners. */
function elbow(x1, y1, x2, y2, bend) {
  if (Math.abs(x1 - x2) < 1) return `M${x1} ${y1}V${y2}`;
  const r = Math.min(10, Math.abs(x2 - x1) / 2, Math.abs(bend - y1) || 10, Math.abs(y2 - bend) || 10), s = Math.sign(x2 - x1);
  return `M${x1} ${y1}V${bend - r}Q${x1} ${bend} ${x1 + s * r} ${bend}H${x2 - s * r}Q${x2} ${bend} ${x2} ${bend + r}V${y2}`;
}
