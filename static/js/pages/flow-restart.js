// The dialog that restarts a flow: from a step, an iteration, or only what failed.
import { send } from "../dom.js";
import { isLoop, isSideBySide } from "../flow-layout.js";
import { title } from "../flow-module.js";

let base = "", modules = new Map(), states = {};
const byId = (id) => document.getElementById(id);
const dialog = byId("restart-dialog"), form = byId("restart-form"), stepField = byId("restart-step");
/** A body with a single plain step has no flow of its own: the step begins with its iteration. */
const isDirect = (id) => { const outer = modules.get(id).around.at(-1); return outer && states[id]?.flow && states[id].flow === states[outer]?.flow; };
/** The way to a step as the server takes it: [{step_id, branch_or_iteration_n?}], outermost first. */
function wayTo(id) {
  const { around } = modules.get(id), way = [];
  for (const [i, outer] of around.entries()) {
    const m = modules.get(outer).module, place = { step_id: outer };
    if (isLoop(m)) place.branch_or_iteration_n = states[outer]?.iterations?.at ?? 0;
    if (m.value.type === "branchall") place.branch_or_iteration_n = +modules.get(around[i + 1] ?? id).body.split("/").at(-1);
    way.push(place);
  }
  return isDirect(id) ? way : [...way, { step_id: id }];
}
/** Why a run cannot begin again inside of this step's surroundings; "" when it can. */
function whyNot(id) {
  const outer = modules.get(id).around.find((a) => isSideBySide(modules.get(a).module));
  if (!outer) return "";
  const { module } = modules.get(outer);
  return `${isLoop(module) ? "The iterations" : "The branches"} of ${outer} run side by side, so a run cannot begin inside of one. Restart at ${outer}.`;
}
/** Ask where to restart, beginning with the step `id`; `run`: {base, modules(), states()} of pages/flow-run.js. */
export function ask(run, id, how = "all") {
  ({ base } = run);
  modules = run.modules();
  states = run.states();
  const began = [...modules].filter(([key]) => !["failure", "preprocessor"].includes(key) && states[key] && !states[key].off);
  stepField.replaceChildren(...began.map(([key, { module, around }]) => new Option(`${"\u2003".repeat(around.length)}${key}: ${title(module)}`, key)));
  if (began.some(([key]) => key === id)) stepField.value = id;
  byId("restart-error").hidden = true;
  restartChanged();
  const wanted = form.querySelector(`[name=how][value="${how}"]`);
  if (!byId("restart-how").hidden && !wanted.closest("label").hidden) wanted.checked = true;
  dialog.showModal();
}
function restartChanged() {
  const id = stepField.value, m = modules.get(id)?.module, its = states[id]?.iterations, why = m ? whyNot(id) : "";
  const counted = m && !why && isLoop(m) && its?.total > 0;
  byId("restart-how").hidden = !counted && !(m && !why && m.value.type === "branchall" && states[id].status === "failure");
  byId("restart-from").hidden = !counted || isSideBySide(m);
  byId("restart-failed").hidden = !(counted ? its.failed : m?.value.type === "branchall");
  form.elements.how.value = "all";
  if (counted) Object.assign(byId("restart-n"), { max: its.total, value: (its.at ?? 0) + 1 });
  const loop = m && modules.get(id).around.findLast((a) => isLoop(modules.get(a).module));
  byId("restart-why").textContent = why || (loop ? `In iteration ${(states[loop]?.iterations?.at ?? 0) + 1} of ${loop}, and with those after it${isDirect(id) ? "; its only step begins with it" : ""}.` : "");
  byId("restart-go").disabled = !!why || !m;
}
stepField.addEventListener("change", restartChanged);
byId("restart-n").addEventListener("focus", () => { form.elements.how.value = "from"; });
form.addEventListener("submit", async (e) => {
  e.preventDefault();
  const id = stepField.value, how = byId("restart-how").hidden ? "all" : form.elements.how.value, [first, ...rest] = wayTo(id), last = rest.at(-1) ?? first;
  if (how === "from") last.branch_or_iteration_n = +byId("restart-n").value - 1;
  try {
    const answer = await send(`${base}restart/`, { data: { ...first, nested_path: rest, failed_only: how === "failed", latest: !!form.elements.latest?.checked } });
    location.assign((await answer.json()).url);
  } catch (error) {
    const box = byId("restart-error");
    box.hidden = false;
    box.textContent = error.message;
  }
});
