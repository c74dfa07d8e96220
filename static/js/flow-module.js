// What a module of a flow is called and looks like: the same words and icons in the graph, the outline and the panels.
import { STATUS, statusIcon } from "./status.js";

const KINDS = {
  script: ["file-code", "Script"],
  rawscript: ["file-code", "Inline script"],
  flow: ["workflow", "Flow"],
  forloopflow: ["repeat", "For each"],
  whileloopflow: ["repeat-2", "While"],
  branchone: ["git-branch", "Branch to one"],
  branchall: ["git-fork", "Branch to all"],
  identity: ["arrow-down", "Pass on"],
  aiagent: ["zap", "AI agent"],
};
export const LANGUAGE = {
  python3: ["file-code", "Python"], bash: ["terminal", "Bash"], powershell: ["terminal", "PowerShell"], nu: ["terminal", "Nu"],
  deno: ["braces", "TypeScript (Deno)"], bun: ["braces", "TypeScript (Bun)"], bunnative: ["braces", "TypeScript (Bun, native)"], nativets: ["braces", "REST (TypeScript)"],
  go: ["file-code", "Go"], php: ["file-code", "PHP"], rust: ["file-code", "Rust"], csharp: ["file-code", "C#"], java: ["file-code", "Java"], ruby: ["file-code", "Ruby"], rlang: ["file-code", "R"],
  ansible: ["file-text", "Ansible"], graphql: ["globe", "GraphQL"], postgresql: ["database", "PostgreSQL"], mysql: ["database", "MySQL"], bigquery: ["database", "BigQuery"],
  snowflake: ["database", "Snowflake"], mssql: ["database", "SQL Server"], oracledb: ["database", "Oracle"], duckdb: ["database", "DuckDB"], dbt: ["database", "dbt"],
};
const kind = (module) => KINDS[module.value?.type] ?? ["circle-help", module.value?.type || "Step"];
const expression = (transform) => (transform?.type === "javascript" ? transform.expr : transform?.type === "static" ? JSON.stringify(transform.value) : "") ?? "";

export const kindName = (module) => kind(module)[1];
/** "Charge saved card"; without a summary its path, else what kind of step it is. */
export function title(module) {
  const value = module.value ?? {};
  return module.summary || (value.type === "script" || value.type === "flow" ? value.path : "") || (value.type === "rawscript" ? `${LANGUAGE[value.language]?.[1] ?? value.language ?? "Inline"} script` : kind(module)[1]);
}
/** The second line of a step: its path, language, iterator or rule. */
export function subtitle(module) {
  const value = module.value ?? {};
  switch (value.type) {
    case "script": return module.summary ? value.path : "Script";
    case "flow": return module.summary ? value.path : "Flow";
    case "rawscript": return LANGUAGE[value.language]?.[1] ?? value.language ?? "";
    case "forloopflow": return [expression(value.iterator), value.parallel ? (typeof value.parallelism === "number" || value.parallelism?.value ? `${value.parallelism?.value ?? value.parallelism} in parallel` : "in parallel") : ""].filter(Boolean).join(", ");
    case "whileloopflow": return "Until a step says stop";
    case "branchone": return "First branch that is true";
    case "branchall": return value.parallel ? "All branches, in parallel" : "All branches, in order";
    case "identity": return "Passes the previous result on";
    case "aiagent": return `${value.tools?.length ?? 0} tool${value.tools?.length === 1 ? "" : "s"}`;
    default: return value.type ?? "";
  }
}
export const moduleIcon = (module) => (module.suspend ? "hand" : module.value?.type === "rawscript" ? LANGUAGE[module.value.language]?.[0] ?? "file-code" : kind(module)[0]);
/** The icon of a step as it stands: of its status once it has one, before that of its kind. */
export const nodeIcon = (module, status) => (!status || ["pending", "queued", "skipped"].includes(status) || !STATUS[status] ? moduleIcon(module) : statusIcon(status));

/** Options worth a mark on the node: [[icon, words]]. */
export function marks(module) {
  const out = [];
  if (module.mock?.enabled) out.push(["pin", "Mocked: a fixed result stands in for it"]);
  if (module.skip_if) out.push(["circle-slash", `Skipped if ${module.skip_if.expr}`]);
  if (module.retry?.constant?.attempts || module.retry?.exponential?.attempts) out.push(["rotate-ccw", `Retried up to ${(module.retry.constant?.attempts || 0) + (module.retry.exponential?.attempts || 0)} times`]);
  if (module.suspend) out.push(["hand", `Waits for ${module.suspend.required_events ?? 1} approval${(module.suspend.required_events ?? 1) === 1 ? "" : "s"}`]);
  if (module.sleep) out.push(["clock", "Pauses afterwards"]);
  if (module.stop_after_if || module.stop_after_all_iters_if) out.push(["circle-stop", `May stop: ${(module.stop_after_if ?? module.stop_after_all_iters_if).expr}`]);
  if (module.cache_ttl) out.push(["database", `Cached for ${module.cache_ttl} s`]);
  if (module.continue_on_error) out.push(["arrow-down", "Errors do not stop the flow"]);
  return out;
}
