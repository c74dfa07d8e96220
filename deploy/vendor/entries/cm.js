// CodeMirror core in one chunk; each language and the diff view is a lazy chunk.
import { LanguageSupport } from "@codemirror/language";
export { EditorState, Compartment, EditorSelection } from "@codemirror/state";
export { EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, drawSelection, placeholder } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { searchKeymap, highlightSelectionMatches } from "@codemirror/search";
export { autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap, completeFromList } from "@codemirror/autocomplete";
export { lintGutter, setDiagnostics, lintKeymap } from "@codemirror/lint";
export { syntaxHighlighting, HighlightStyle, bracketMatching, foldGutter, foldKeymap, indentOnInput, indentUnit } from "@codemirror/language";
export { tags } from "@lezer/highlight";

// DuckDB's parser is PostgreSQL's with its own clauses and types; parameters are written $name.
const duckdb = ({ SQLDialect, PostgreSQL: { spec } }) => SQLDialect.define({
  ...spec,
  keywords: `${spec.keywords} anti asof columns describe exclude glob macro pivot positional qualify replace sample semi summarize try_cast unpivot use`,
  types: `${spec.types} blob double hugeint list map struct tinyint ubigint uhugeint uinteger union usmallint utinyint varint`,
});

const stream = (mod, name) => Promise.all([import("@codemirror/language"), mod]).then(([l, m]) => l.StreamLanguage.define(m[name]));
export const languages = {
  python: () => import("@codemirror/lang-python").then((m) => m.python()),
  typescript: () => import("@codemirror/lang-javascript").then((m) => m.javascript({ typescript: true })),
  javascript: () => import("@codemirror/lang-javascript").then((m) => m.javascript()),
  sql: () => import("@codemirror/lang-sql").then((m) => m.sql({ dialect: m.PostgreSQL, upperCaseKeywords: true })),
  mysql: () => import("@codemirror/lang-sql").then((m) => m.sql({ dialect: m.MySQL, upperCaseKeywords: true })),
  duckdb: () => import("@codemirror/lang-sql").then((m) => m.sql({ dialect: duckdb(m), upperCaseKeywords: true })),
  graphql: () => import("cm6-graphql").then((m) => new LanguageSupport(m.graphqlLanguage)),
  yaml: () => import("@codemirror/lang-yaml").then((m) => m.yaml()),
  json: () => import("@codemirror/lang-json").then((m) => m.json()),
  html: () => import("@codemirror/lang-html").then((m) => m.html()),
  css: () => import("@codemirror/lang-css").then((m) => m.css()),
  markdown: () => import("@codemirror/lang-markdown").then((m) => m.markdown()),
  php: () => import("@codemirror/lang-php").then((m) => m.php({ baseLanguage: null })),
  bash: () => stream(import("@codemirror/legacy-modes/mode/shell"), "shell"),
  powershell: () => stream(import("@codemirror/legacy-modes/mode/powershell"), "powerShell"),
  go: () => stream(import("@codemirror/legacy-modes/mode/go"), "go"),
  rust: () => stream(import("@codemirror/legacy-modes/mode/rust"), "rust"),
  ruby: () => stream(import("@codemirror/legacy-modes/mode/ruby"), "ruby"),
  r: () => stream(import("@codemirror/legacy-modes/mode/r"), "r"),
  java: () => stream(import("@codemirror/legacy-modes/mode/clike"), "java"),
  csharp: () => stream(import("@codemirror/legacy-modes/mode/clike"), "csharp"),
  dockerfile: () => stream(import("@codemirror/legacy-modes/mode/dockerfile"), "dockerFile"),
  toml: () => stream(import("@codemirror/legacy-modes/mode/toml"), "toml"),
};
export const merge = () => import("@codemirror/merge");
