// Looks and languages shared by wm-code and wm-diff. CodeMirror is loaded on first use only.
let kit;
export const load = () => (kit ??= import("../vendor/cm/cm.js"));

// Our language names -> CodeMirror's.
const NAMES = {
  python3: "python", py: "python", sh: "bash", shell: "bash", nu: "bash", ts: "typescript", deno: "typescript", bun: "typescript", bunnative: "typescript", nativets: "typescript",
  js: "javascript", postgresql: "sql", bigquery: "sql", snowflake: "sql", mssql: "sql", oracledb: "sql", dbt: "sql", yml: "yaml", ansible: "yaml", md: "markdown", rlang: "r",
};
const FOUR = new Set(["python", "rust", "java", "csharp", "php", "go"]); // indented by four

/** Extensions of a language name as scripts use it; plain text when unknown. */
export async function languageOf(cm, name) {
  const id = NAMES[name] || name, make = cm.languages[id];
  return [make ? await make() : [], cm.indentUnit.of(id === "go" ? "\t" : FOUR.has(id) ? "    " : "  ")];
}

export function look(cm) {
  const { EditorView, HighlightStyle, tags: t } = cm;
  const tint = (token, percent) => `color-mix(in srgb, var(${token}) ${percent}%, transparent)`;
  const theme = EditorView.theme({
    "&": { height: "100%", fontSize: "12.5px", backgroundColor: "transparent", color: "var(--ink)" },
    "&.cm-focused": { outline: "none" },
    ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", fontFeatureSettings: '"calt" 0' },
    ".cm-gutters": { backgroundColor: "transparent", border: "0", color: "var(--ink-3)", paddingLeft: "4px" },
    ".cm-lineNumbers .cm-gutterElement": { minWidth: "28px" },
    ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: tint("--accent", 6) },
    ".cm-content": { caretColor: "var(--accent)", padding: "8px 0" },
    ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
    "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: `${tint("--accent", 22)} !important` },
    ".cm-matchingBracket": { backgroundColor: tint("--accent", 18), outline: "0" },
    ".cm-placeholder": { color: "var(--ink-3)" },
    ".cm-tooltip": { border: "1px solid var(--line)", borderRadius: "8px", backgroundColor: "var(--surface)", color: "var(--ink)", overflow: "hidden", boxShadow: "var(--shadow-2)" },
    ".cm-tooltip-autocomplete ul li": { padding: "3px 8px" },
    ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--ink)" },
    ".cm-completionDetail": { color: "var(--ink-3)", fontStyle: "normal" },
    ".cm-panels": { backgroundColor: "var(--surface-2)", color: "var(--ink)", borderColor: "var(--line)" },
    ".cm-panels.cm-panels-top, .cm-panels.cm-panels-bottom": { borderColor: "var(--line)" },
    ".cm-textfield": { border: "1px solid var(--line-2)", borderRadius: "5px", backgroundColor: "var(--surface)", color: "var(--ink)" },
    ".cm-button": { border: "1px solid var(--line-2)", borderRadius: "5px", backgroundImage: "none", backgroundColor: "var(--surface)", color: "var(--ink)" },
    ".cm-searchMatch": { backgroundColor: tint("--run", 30) },
    ".cm-foldPlaceholder": { backgroundColor: "var(--surface-3)", border: "0", color: "var(--ink-2)", padding: "0 4px" },
    ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--fail) 1px", textUnderlineOffset: "3px" },
    ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--run) 1px", textUnderlineOffset: "3px" },
    ".cm-lint-marker": { width: "7px", height: "7px", margin: "6px 2px", borderRadius: "50%" },
    ".cm-lint-marker-error": { content: '""', backgroundColor: "var(--fail)" },
    ".cm-lint-marker-warning": { content: '""', backgroundColor: "var(--run)" },
    ".cm-diagnostic": { fontFamily: "var(--font)", fontSize: "12px", padding: "5px 9px" },
    ".cm-diagnostic-error": { borderLeft: "3px solid var(--fail)" },
    ".cm-diagnostic-warning": { borderLeft: "3px solid var(--run)" },
    // wm-diff
    "&.cm-merge-a .cm-changedLine, .cm-deletedChunk": { backgroundColor: tint("--fail", 7) },
    "&.cm-merge-b .cm-changedLine, .cm-inlineChangedLine": { backgroundColor: tint("--ok", 7) },
    "&.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText, .cm-deletedText": { background: tint("--fail", 12) },
    "&.cm-merge-b .cm-changedText, .cm-changedText": { background: tint("--ok", 12) },
    ".cm-insertedLine, .cm-deletedLine, .cm-deletedLine del": { background: "none", textDecoration: "none" },
    "&.cm-merge-a .cm-changedLineGutter, .cm-deletedLineGutter": { background: "var(--fail)" },
    "&.cm-merge-b .cm-changedLineGutter, .cm-changedLineGutter": { background: "var(--ok)" },
    ".cm-collapsedLines": { background: "var(--surface-2)", color: "var(--ink-3)", padding: "4px 12px", fontFamily: "var(--font)", fontSize: "12px", "&::before, &::after": { content: '"…"' } },
  });
  const style = HighlightStyle.define([
    { tag: [t.keyword, t.modifier, t.bool, t.null, t.self], color: "var(--syn-kw)" },
    { tag: [t.string, t.special(t.string), t.regexp], color: "var(--syn-str)" },
    { tag: [t.number, t.unit, t.atom], color: "var(--syn-num)" },
    { tag: [t.function(t.variableName), t.function(t.definition(t.variableName)), t.function(t.propertyName), t.standard(t.variableName)], color: "var(--syn-fn)" },
    { tag: [t.comment, t.meta], color: "var(--syn-com)", fontStyle: "italic" },
    { tag: [t.typeName, t.className, t.namespace, t.tagName], color: "var(--syn-type)" },
    { tag: [t.propertyName, t.attributeName], color: "var(--syn-prop)" },
    { tag: t.heading, fontWeight: "650" },
    { tag: t.link, color: "var(--accent)" },
  ]);
  return [theme, cm.syntaxHighlighting(style)];
}
