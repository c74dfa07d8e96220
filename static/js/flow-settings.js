// The panels of the flow itself: inputs, settings, what happens around it.
import { html, live, nothing } from "../vendor/lit.js";
import "./elements/schema-edit.js";
import { area, choice, expression, ico, number, section, text, toggle } from "./flow-fields.js";
import { walk } from "./flow-model.js";
import { title } from "./flow-module.js";

export const inputs = (schema, change) => html`<div class="fi-body pad stack"><p class="help">Whoever starts the flow fills these in. Steps read them as flow_input.&lt;name&gt;.</p><wm-schema-edit .schema=${schema} @wm-schema=${(e) => { e.stopPropagation(); change(e.detail.schema); }}></wm-schema-edit></div>`;

/** `on` edits the document {summary, value: FlowValue, …}; `known`: {tags, isNew, path, setPath}. */
export function settings(on, doc, known) {
  const steps = walk(doc.value).filter((e) => !e.special).map((e) => [e.module.id, `${e.module.id}: ${title(e.module)}`]);
  const v = (key) => ["value", key];
  return html`<div class="fi-body pad stack">
    <div class="form-grid">
      ${text(on, ["summary"], "Summary", { wide: true, hint: "What people call it, in a few words." })}
      ${known.isNew ? nothing : html`<div class="field wide"><label for="flow-path">Path</label><input class="input mono" id="flow-path" .value=${live(known.path)} maxlength="255" spellcheck="false" pattern="[ufg]/[A-Za-z0-9_\\-]+(/[A-Za-z0-9_\\-]+)+" @change=${(e) => { if (e.target.reportValidity()) known.setPath(e.target.value); }}><p class="help">Another one moves the flow when it is deployed; its history goes along.</p></div>`}
      ${area(on, ["description"], "Description", { hint: "Markdown. Shown above the form." })}
      <div class="field wide"><label for="flow-labels">Labels</label><input class="input" id="flow-labels" .value=${live((doc.labels || []).join(", "))} @change=${(e) => { const list = e.target.value.split(",").map((x) => x.trim()).filter(Boolean); on.set(["labels"], list.length ? list : undefined); }}><p class="help">Separated by commas.</p></div>
      ${text(on, ["tag"], "Tag", { list: known.tags, mono: true, placeholder: "flow", max: 50 })}
      ${number(on, ["timeout"], "Timeout", { unit: "seconds", min: 1 })}
      ${number(on, ["priority"], "Priority", { unit: "1 to 100", max: 100 })}
      ${choice(on, v("early_return"), "Early return", steps, { hint: "Callers who wait get this step's result; the flow goes on.", empty: "No: the last result" })}
    </div>
    ${section("Running", Boolean(doc.dedicated_worker || doc.value.same_worker || doc.value.preserve_step_tags || doc.value.skip_expr || doc.value.concurrent_limit || doc.value.cache_ttl), html`
      ${toggle(on, ["dedicated_worker"], "Dedicated worker", { hint: "Its steps in Python, TypeScript and Deno stay loaded, on workers whose group names this flow." })}
      ${toggle(on, v("same_worker"), "All steps on one worker", { hint: "They share the folder ./shared." })}
      ${toggle(on, v("preserve_step_tags"), "Steps keep their own tags")}
      ${number(on, v("cache_ttl"), "Cache for", { unit: "seconds", min: 1, hint: "The same inputs give the kept result." })}
      ${number(on, v("concurrent_limit"), "At most at once", { unit: "runs", min: 1 })}
      ${doc.value.concurrent_limit ? html`${number(on, v("concurrency_time_window_s"), "Within", { unit: "seconds" })}${text(on, v("concurrency_key"), "Counted by", { mono: true, placeholder: "$workspace/path-$args[name]" })}` : nothing}
      ${expression(on, v("skip_expr"), "Skip the whole flow if", { placeholder: "flow_input.items.length === 0" })}`)}
    ${environment(on, doc.value.flow_env || {})}
    ${data(on, doc)}
  </div>`;
}
const data = (on, doc) => section("Data", doc.value.delete_after_secs !== undefined, number(on, ["value", "delete_after_secs"], "Delete its data after", { unit: "seconds", hint: "Arguments, results and logs of the flow and its steps." }));

function environment(on, env) {
  const all = Object.entries(env), set = (list) => on.set(["value", "flow_env"], list.length ? Object.fromEntries(list) : undefined);
  const shown = (v) => (typeof v === "string" ? v : JSON.stringify(v));
  const read = (t) => { if (!/^[[{]/.test(t.trim())) return t; try { return JSON.parse(t); } catch { return t; } };
  return section("Environment", all.length > 0, html`<div class="wide stack">${all.map(([name, value], i) => html`<div class="fi-env"><input class="input mono" aria-label="Name ${i + 1}" .value=${live(name)} spellcheck="false" @change=${(e) => set(all.map((pair, n) => (n === i ? [e.target.value.trim() || name, value] : pair)))}><input class="input mono" aria-label="Value of ${name}" .value=${live(shown(value))} spellcheck="false" @change=${(e) => set(all.map((pair, n) => (n === i ? [name, read(e.target.value)] : pair)))}><button type="button" class="btn ghost icon sm" aria-label="Remove ${name}" @click=${() => set(all.filter((_, n) => n !== i))}>${ico("x")}</button></div>`)}
    <div><button type="button" class="btn sm" @click=${() => { let name = "NAME"; for (let n = 2; name in env; n++) name = `NAME_${n}`; set([...all, [name, ""]]); }}>${ico("plus")}Add a value</button></div></div>`, { hint: "The same for all steps: flow_env.<name> in expressions, environment variables in code. $var:path and $res:path name variables and resources." });
}

/** What runs before the first step and after a failure; `act(kind)` adds, takes out or opens it. */
export function around(value, act) {
  const part = (field, id, icon, name, what) => html`<div class="fi-special"><span class="fg-ico">${ico(icon)}</span><div><b>${name}</b><p class="help">${what}</p></div>${value[field] ? html`<button type="button" class="btn sm" @click=${() => act("open", id)}>Open</button><button type="button" class="btn ghost sm" aria-label="Remove the ${name.toLowerCase()}" @click=${() => act("remove", id)}>${ico("trash-2")}</button>` : html`<button type="button" class="btn sm" @click=${() => act("add", id)}>${ico("plus")}Add</button>`}</div>`;
  return html`<div class="fi-body pad stack">${part("failure_module", "failure", "triangle-alert", "Error handler", "Runs when a step fails for good. Its result is the result of the flow; with {recover: true} the flow succeeds.")}${part("preprocessor_module", "preprocessor", "webhook", "Preprocessor", "Runs first when a trigger starts the flow, and makes its inputs out of the event.")}</div>`;
}
