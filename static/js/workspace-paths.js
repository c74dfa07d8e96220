// Completion of the workspace's paths in code: which ones the text before the cursor asks for, and how they are written.
const KEPT = 20_000; // ms that an answer is used again
const PARTS = /^[uf]\/[\w-]+\//; // a path, after its owner
const TYPESCRIPT = ["bun", "bunnative", "nativets", "deno"];
const SQL = ["postgresql", "mysql", "duckdb"];
const folderOf = (path) => path.split("/").slice(0, -1).join("/");
const anywhere = { kinds: ["script", "flow", "variable", "resource"], write: (path) => path };

/**
 * What the end of `before` asks for, in code of `language` that will be at `path`: null, or
 *   kinds: of what the paths are;  languages, resourceType: narrower, for scripts and resources
 *   prefix: what they begin with
 *   typed: the text that a choice replaces, up to the cursor
 *   write(path): how a path is written there; null when it cannot be
 */
export function wanted(before, language, path) {
  const line = before.slice(before.lastIndexOf("\n") + 1);
  let m;
  if (language === "python3" && (m = /^\s*from\s+(\.+|[uf](?:\.\w+)+)\s+import\s+(?:\(?[\w\s,]*[\s,(])?(\w*)$/.exec(line))) return pythonNames(m[1], m[2], path);
  if (language === "python3" && (m = /^\s*(?:from|import)\s+((?:\.+|[uf]\.)[\w.]*)$/.exec(line))) return pythonModule(m[1], path);
  if (TYPESCRIPT.includes(language) && (m = /(?:\bfrom|\bimport|\bexport|\brequire)\s*\(?\s*["']((?:\.{1,2}\/|\/)[^"'\n]*)$/.exec(line))) return typescriptModule(m[1], path);
  if ((m = /\$(res|var):([\w/-]*)$/.exec(line))) return { ...anywhere, kinds: [m[1] === "res" ? "resource" : "variable"], prefix: m[2], typed: m[2] };
  if (SQL.includes(language) && (m = /^\s*--\s*database\s+([\w/-]*)$/.exec(line))) return { ...anywhere, kinds: ["resource"], resourceType: language, prefix: m[1], typed: m[1] };
  if ((m = /\b[gs]et_?(variable|resource)\w*\(\s*(?:path\s*=\s*)?["'`]([\w/-]*)$/i.exec(line))) return { ...anywhere, kinds: [m[1].toLowerCase()], prefix: m[2], typed: m[2] };
  if ((m = /\brun_?(script|flow)\w*\(\s*(?:path\s*=\s*)?["'`]([\w/-]*)$/i.exec(line))) return { ...anywhere, kinds: [m[1].toLowerCase()], prefix: m[2], typed: m[2] };
  if ((m = /\/(variable|resource)s\/get_value\w*\/([\w/-]*)$/.exec(line))) return { ...anywhere, kinds: [m[1]], prefix: m[2], typed: m[2] };
  if ((m = /["'`]([ufg]\/[\w/-]*)$/.exec(line))) return { ...anywhere, prefix: m[1], typed: m[1] };
  return null;
}

const dotted = (path) => (/^[\w/]+$/.test(path) && !/\/\d/.test(path) ? path.replaceAll("/", ".") : null);
function pythonModule(typed, path) {
  const python = { kinds: ["script"], languages: ["python3"], typed };
  if (typed[0] !== ".") return { ...python, prefix: typed.replaceAll(".", "/"), write: dotted };
  const base = above(path, /^\.+/.exec(typed)[0].length), rest = typed.replace(/^\.+/, "");
  if (!base) return null;
  const written = typed.slice(0, typed.length - rest.length);
  return { ...python, prefix: `${base}/${rest.replaceAll(".", "/")}`, write: (p) => (p === path ? null : dotted(p) && written + dotted(p.slice(base.length + 1))) };
}
function pythonNames(module, typed, path) {
  const dots = /^\.*/.exec(module)[0].length, base = dots ? above(path, dots) : module.replaceAll(".", "/");
  if (!base || base.split("/").length < 2) return null;
  const direct = (p) => (folderOf(p) === base && p !== path && dotted(p) ? p.slice(base.length + 1) : null);
  return { kinds: ["script"], languages: ["python3"], prefix: `${base}/${typed}`, typed, write: direct };
}
function typescriptModule(typed, path) {
  const typescript = { kinds: ["script"], languages: TYPESCRIPT, typed };
  if (typed[0] === "/") return { ...typescript, prefix: typed.slice(1), write: (p) => `/${p}.ts` };
  const ups = /^(?:\.\.?\/)+/.exec(typed)[0], base = above(path, 1 + (ups.match(/\.\.\//g) || []).length);
  if (!base) return null;
  return { ...typescript, prefix: `${base}/${typed.slice(ups.length)}`, write: (p) => (p === path ? null : `${ups}${p.slice(base.length + 1)}.ts`) };
}
/** The folder `levels` above the script, "" when that is outside of any workspace folder. */
function above(path, levels) {
  let at = path;
  for (let i = 0; i < levels; i++) at = folderOf(at);
  return PARTS.test(`${at}/`) ? at : "";
}

/** An async function as wm-code's `completions` wants it. `at()` answers {language, path} of the code. */
export function pathCompletions(url, at) {
  const known = new Map(); // address -> promise of {items, isWhole}
  return async (before) => {
    const { language, path } = at(), asked = wanted(before, language, path);
    if (!asked) return null;
    const query = new URLSearchParams({ prefix: asked.prefix });
    for (const kind of asked.kinds) query.append("kind", kind);
    for (const one of asked.languages || []) query.append("language", one);
    if (asked.resourceType) query.set("resource_type", asked.resourceType);
    const address = `${url}?${query}`;
    if (!known.has(address)) {
      known.set(address, fetch(address).then((r) => (r.ok ? r.json() : Promise.reject(new Error(r.status)))));
      setTimeout(() => known.delete(address), KEPT);
    }
    let found;
    try {
      found = await known.get(address);
    } catch {
      known.delete(address);
      return null;
    }
    const options = found.items.map((item) => ({ label: asked.write(item.path), detail: item.type, info: item.note || undefined, type: "constant", boost: 50 })).filter((o) => o.label);
    return { options, typed: asked.typed, isWhole: found.isWhole };
  };
}
