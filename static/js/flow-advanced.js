// The Advanced tab of a step: everything that OpenFlow lets a step do besides running.
import { html, nothing } from "../vendor/lit.js";
import "./elements/schema-edit.js";
import { expression, json, number, section, text, toggle, transform } from "./flow-fields.js";

const SECONDS = { type: "number", minimum: 0 };
const EMPTY_SCHEMA = { type: "object", properties: {}, order: [], required: [] };

/** `on` edits the module (flow-fields.js); `known` holds {groups, tags}. */
export function advanced(on, module, known) {
  const type = module.value?.type, isLoop = type === "forloopflow" || type === "whileloopflow", hasMany = isLoop || type === "branchall", isFailure = module.id === "failure";
  const runsCode = type === "rawscript" || type === "script";
  return html`<div class="fi-advanced">
    ${retry(on, module)}
    ${isFailure ? nothing : html`${skipIf(on, module)}${stopAfter(on, module, hasMany)}${suspend(on, module, known)}${sleep(on, module)}`}
    ${errors(on, module)}
    ${limits(on, module, isLoop)}
    ${isFailure ? nothing : mock(on, module)}
    ${running(on, module, known, runsCode)}
  </div>`;
}

function retry(on, m) {
  const r = m.retry || {};
  const pair = (kind, words, start, fields) => html`<div class="wide fi-option"><label class="switch"><input type="checkbox" role="switch" .checked=${Boolean(r[kind])} @change=${(e) => on.set(["retry"], without({ ...r, [kind]: e.target.checked ? start : undefined }))}><b>${words}</b></label>${r[kind] ? html`<div class="fi-fields">${fields}</div>` : nothing}</div>`;
  return section("Retries", Boolean(m.retry), html`
    ${pair("constant", "After the same time", { attempts: 3, seconds: 5 }, html`${number(on, ["retry", "constant", "attempts"], "Attempts", { min: 0, max: 1000 })}${number(on, ["retry", "constant", "seconds"], "Wait", { unit: "seconds" })}`)}
    ${pair("exponential", "After longer and longer times", { attempts: 3, multiplier: 1, seconds: 2, random_factor: 0 }, html`${number(on, ["retry", "exponential", "attempts"], "Attempts", { min: 0, max: 1000 })}${number(on, ["retry", "exponential", "seconds"], "Base", { unit: "seconds" })}${number(on, ["retry", "exponential", "multiplier"], "Multiplier")}${number(on, ["retry", "exponential", "random_factor"], "Jitter", { unit: "percent", max: 100 })}<p class="help wide">${delays(r.exponential)}</p>`)}
    ${m.retry ? expression(on, ["retry", "retry_if", "expr"], "Only if", { placeholder: 'error.name !== "ValueError"', hint: "The names result and error are what the attempt gave. Empty: always." }) : nothing}`,
  { hint: "When the step fails it runs again, with the same arguments." });
}
function delays(e) {
  if (!e) return "";
  const waits = Array.from({ length: Math.min(4, e.attempts || 0) }, (_, n) => (e.multiplier || 1) * (e.seconds || 0) ** (n + 1));
  return waits.length ? `Waits ${waits.map((s) => `${Math.min(s, 21600)} s`).join(", ")}${e.attempts > 4 ? ", …" : ""}.` : "";
}
/** An object without undefined values; undefined when nothing is left. */
function without(object) {
  const left = Object.entries(object).filter(([, v]) => v !== undefined);
  return left.length ? Object.fromEntries(left) : undefined;
}

const skipIf = (on, m) => section("Skip", Boolean(m.skip_if), expression(on, ["skip_if", "expr"], "Skip if", { placeholder: "results.a.length === 0" }), { hint: "Then the step passes the previous result on." });

function stopAfter(on, m, hasMany) {
  const block = (key, words, hint, placeholder) => html`${expression(on, [key, "expr"], words, { placeholder, hint })}
    ${m[key]?.expr ? html`${toggle(on, [key, "skip_if_stopped"], "Mark as skipped", { keepFalse: true })}${toggle(on, [key, "error_include_result"], "Put the result into the error")}${text(on, [key, "error_message"], "Fail with this message", { hint: "Empty: stopping is no failure.", wide: true })}` : nothing}`;
  return section("Stop early", Boolean(m.stop_after_if || m.stop_after_all_iters_if), html`
    ${block("stop_after_if", "Stop after this step if", hasMany ? "After each iteration: true ends the loop." : "True ends the flow with this result; inside a loop, the loop.", "result.done")}
    ${hasMany ? block("stop_after_all_iters_if", "Stop after all iterations if", "True ends the flow.", "all_iters.length === 0") : nothing}`);
}

function suspend(on, m, known) {
  const s = m.suspend;
  const set = (checked) => on.set(["suspend"], checked ? { required_events: 1, timeout: 1800 } : undefined);
  return section("Approval", Boolean(s), html`
    <div class="wide"><label class="switch"><input type="checkbox" role="switch" .checked=${Boolean(s)} @change=${(e) => set(e.target.checked)}><b>Wait for approval before the next step</b></label></div>
    ${s ? html`${number(on, ["suspend", "required_events"], "Approvals needed", { min: 1, placeholder: 1 })}${number(on, ["suspend", "timeout"], "Give up after", { unit: "seconds", min: 1, placeholder: 1800 })}
      ${toggle(on, ["suspend", "user_auth_required"], "Only people who are signed in")}${toggle(on, ["suspend", "self_approval_disabled"], "Not by who started the flow")}
      ${toggle(on, ["suspend", "hide_cancel"], "Hide the button Deny")}${toggle(on, ["suspend", "continue_on_disapprove_timeout"], "Go on when denied or too late", { hint: "resume then holds the error." })}
      ${s.user_auth_required ? transform(on, ["suspend", "user_groups_required"], "Only members of these groups", { type: "array", items: { type: "string", enum: known.groups } }) : nothing}
      <div class="wide field"><span class="legend">Form for the approver</span><p class="help">What is filled in is resume.&lt;name&gt; in the next step.</p><wm-schema-edit noun="a field" label="Form for the approver" empty="No fields: approving is enough." .schema=${s.resume_form?.schema || EMPTY_SCHEMA} @wm-schema=${(e) => { e.stopPropagation(); on.set(["suspend", "resume_form"], Object.keys(e.detail.schema.properties || {}).length ? { schema: e.detail.schema } : undefined, { typing: true }); }}></wm-schema-edit></div>` : nothing}`,
  { hint: "After this step the flow waits until enough people approved. The names resume, resumes and approvers are for the next step." });
}

const sleep = (on, m) => section("Sleep", Boolean(m.sleep), transform(on, ["sleep"], "Wait after this step", SECONDS, { hint: "Seconds before the next step begins. The last step does not wait." }));

const errors = (on, m) => (m.id === "failure" ? nothing : section("Errors", Boolean(m.continue_on_error), toggle(on, ["continue_on_error"], "Go on when this step fails", { hint: "Its result is then {error: …}." })));

const limits = (on, m, isLoop) => section("Timeout and cache", Boolean(m.timeout || m.cache_ttl), html`
  ${transform(on, ["timeout"], "Timeout", SECONDS, { hint: "Seconds that one attempt may take." })}
  ${isLoop ? nothing : number(on, ["cache_ttl"], "Cache for", { unit: "seconds", min: 1, hint: "The same inputs give the kept result." })}`);

const mock = (on, m) => section("Mock", Boolean(m.mock?.enabled), html`
  ${toggle(on, ["mock", "enabled"], "Do not run it: return a fixed result", { keepFalse: Boolean(m.mock) })}
  ${m.mock ? json(on, ["mock", "return_value"], "Result") : nothing}`);

function running(on, m, known, runsCode) {
  const v = m.value, tag = v.type === "script" ? ["value", "tag_override"] : ["value", "tag"];
  const used = m.priority || m.delete_after_use || m.delete_after_secs !== undefined || (runsCode && on.get(tag)) || v.concurrent_limit;
  return section("Running", Boolean(used), html`
    ${runsCode ? text(on, tag, "Tag", { list: known.tags, mono: true, placeholder: v.language || "", hint: "Which workers run it." }) : nothing}
    ${number(on, ["priority"], "Priority", { min: 0, max: 100, unit: "1 to 100" })}
    ${v.type === "rawscript" ? html`${number(on, ["value", "concurrent_limit"], "At most at once", { unit: "jobs", min: 1 })}${v.concurrent_limit ? html`${number(on, ["value", "concurrency_time_window_s"], "Within", { unit: "seconds" })}${text(on, ["value", "custom_concurrency_key"], "Counted by", { mono: true, placeholder: "$workspace/path-$args[name]" })}` : nothing}` : nothing}
    ${number(on, ["delete_after_secs"], "Delete its data after", { unit: "seconds", hint: "Arguments, result and log go, that long after the flow ended. 0: at once." })}`);
}
