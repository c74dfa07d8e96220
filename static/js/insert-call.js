// How code of each language reads a variable or a resource, for the buttons that insert such a call.
const WMILL = /^\s*(?:import wmill\b|from wmill import)/m;
const route = (kind) => (kind === "variable" ? "variables/get_value" : "resources/get_value_interpolated");
const camel = (kind) => (kind === "variable" ? "getVariable" : "getResource");

const typescript = (from) => ({
  call: (kind, path) => `await wmill.${camel(kind)}("${path}")`,
  needs: (code) => (/\bas wmill\b|\bimport wmill\b/.test(code) ? null : `import * as wmill from "${from}";\n`),
});
const sql = { call: (kind, path) => (kind === "resource" ? { line: `-- database ${path}\n` } : null) };
const CALLS = {
  python3: { call: (kind, path) => `wmill.get_${kind}("${path}")`, needs: (code) => (WMILL.test(code) ? null : "import wmill\n\n") },
  bun: typescript("windmill-client"), bunnative: typescript("windmill-client"), nativets: typescript("windmill-client"), deno: typescript("npm:windmill-client"),
  bash: { call: (kind, path) => `$(curl -sf -H "Authorization: Bearer $WM_TOKEN" "$BASE_INTERNAL_URL/api/w/$WM_WORKSPACE/${route(kind)}/${path}")` },
  powershell: { call: (kind, path) => `(Invoke-RestMethod -Headers @{ Authorization = "Bearer $Env:WM_TOKEN" } -Uri "$Env:BASE_INTERNAL_URL/api/w/$Env:WM_WORKSPACE/${route(kind)}/${path}")` },
  php: { call: (kind, path) => `json_decode(file_get_contents(getenv("BASE_INTERNAL_URL") . "/api/w/" . getenv("WM_WORKSPACE") . "/${route(kind)}/${path}", false, stream_context_create(["http" => ["header" => "Authorization: Bearer " . getenv("WM_TOKEN")]])))` },
  postgresql: sql, mysql: sql,
  duckdb: { call: (kind, path) => (kind === "resource" ? { line: `ATTACH '$res:${path}' AS db (TYPE postgres);\n` } : null) },
};

/** Whether code of `language` can read a "variable" or "resource" by a call that we know how to write. */
export const canInsert = (language, kind) => Boolean(CALLS[language]?.call(kind, ""));

/** Puts the call at the cursor of `code` (a wm-code), and on top what it needs: one change each, both can be undone. */
export function insertCall(code, language, kind, path) {
  const { call, needs } = CALLS[language], text = call(kind, path);
  if (text.line) code.value = text.line + code.value;
  else code.insert(text);
  const above = text.line ? null : needs?.(code.value);
  if (above) code.value = above + code.value;
  code.focus();
}
