"""Building flows in the browser: steps and connections, tests with their values, YAML, drafts, deploying, conflicts."""

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db.models import Q
from playwright.sync_api import Locator, Page, expect

from jobs import drafts, flow_runs, runs, scripts
from jobs.flows import approvals, deployed
from jobs.models import CompletedJob, Draft, Flow, FlowVersion, Job, QueuedJob
from jobs.payloads import Payload
from tests.browser.flows import loop, script
from tests.browser.site import Person, wait_until

pytestmark = pytest.mark.browser

ORDERS = """def main(count: int = 3):
    return [{"id": n, "amount": n * 10, "customer": f"cus_{n}"} for n in range(count)]
"""


def graph(page: Page) -> Locator:
    return page.get_by_role("group", name="Graph of the flow")


def node(page: Page, name: str) -> Locator:
    return graph(page).get_by_role("button", name=name).filter(has_text="step").first


def panel(page: Page) -> Locator:
    return page.get_by_role("region", name="Details")


def tab(page: Page, name: str) -> Locator:
    return panel(page).get_by_role("tab", name=name)


def open_editor(page: Page, url: str) -> None:
    page.goto(url)
    graph(page).get_by_role("button", name="Zoom in").wait_for()


def add(page: Page, where: str, kind: str) -> None:
    """Press the + `where` ("after For each item") and choose a kind of step."""
    graph(page).get_by_role("button", name=f"Add a step {where}", exact=True).click()
    page.get_by_role("list", name="Kind of step").get_by_role("button", name=re.compile(f"^{kind} ")).click()


def choose(page: Page, path: str) -> None:
    page.get_by_role("dialog", name="Choose a").get_by_role("button", name=path).click()


def connect(page: Page, field: str, *way: str) -> None:
    """Connect an input to a value: the last of `way` is picked, those before it are opened."""
    panel(page).get_by_role("button", name=f"Connect {field}", exact=True).click()
    tree = page.get_by_role("tree", name="Values")
    for label in way[:-1]:
        tree.get_by_role("treeitem", name=label).first.press("ArrowRight")
    tree.get_by_role("treeitem", name=way[-1]).first.click()


def write(page: Page, name: str, text: str) -> None:
    """Replace the text of an editor, as if pasted."""
    page.get_by_role("textbox", name=name).click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def saved(page: Page) -> None:
    page.get_by_role("button", name="Save draft").click()
    expect(page.get_by_role("status", name="Draft")).to_have_text("Draft saved")


def draft_of(person: Person) -> dict[str, Any]:
    """The FlowValue in the only draft of the workspace."""
    value: dict[str, Any] = Draft.objects.get(workspace=person.workspace, kind="flow").value["value"]
    return value


def put(person: Person, *modules: dict[str, Any], path: str = "u/ada/bill", **given: Any) -> FlowVersion:
    """A deployed flow."""
    value = {"modules": list(modules)}
    return deployed.create_flow(
        person.caller, deployed.FlowDraft(path=path, value=value, summary="Bill", **given)
    )


def put_script(person: Person, path: str = "u/ada/load_orders", content: str = ORDERS) -> scripts.Script:
    draft = scripts.ScriptDraft(path=path, content=content, language="python3", summary="Load open orders")
    return scripts.deploy_script(person.caller, draft)


def finished(job_id: UUID) -> CompletedJob:
    found: CompletedJob = wait_until(
        lambda: CompletedJob.objects.filter(pk=job_id).first(), f"the end of {job_id}"
    )
    return found


def test_a_flow_with_a_loop_a_branch_and_an_approval_is_built_tested_deployed_and_run(
    ada_page: Page, ada: Person, worker: str
) -> None:
    page = ada_page
    put_script(ada)
    open_editor(page, ada.url("flows/new/"))
    page.get_by_label("Name in the path").fill("bill")

    # An input, and a script of the workspace that reads it.
    page.get_by_role("button", name="Add an input").click()
    page.get_by_role("textbox", name="Name of input 1").fill("count")
    page.keyboard.press("Tab")
    page.get_by_label("Type of count").select_option("Whole number")
    page.get_by_label("count is required").check()
    add(page, "at the start", "Script")
    choose(page, "u/ada/load_orders")
    connect(page, "count", "count")

    # A loop over its result, with code of its own.
    add(page, "after Load open orders", "For each")
    connect(page, "Go through", "results.a")
    add(page, "at the start of For each item", "Python")
    write(page, "Code of step c", "def main(order: dict):\n    return order['amount']\n")
    tab(page, "Inputs").click()
    connect(page, "order", "iter.value")

    # The test asks for the missing input, runs, and shows the steps on the graph.
    page.get_by_role("button", name="Test flow").click()
    expect(page.get_by_text("This is required")).to_be_visible()
    page.get_by_role("region", name="Test").get_by_label("count").fill("4")
    page.get_by_role("button", name="Test flow").click()
    expect(page.get_by_role("status", name="Last test")).to_contain_text("Success", timeout=30_000)
    expect(node(page, "For each item").filter(has_text="Success")).to_be_visible()
    expect(page.get_by_role("tabpanel", name="Result")).to_contain_text("30")

    # A branch on a value of that test, an approval in it, and what follows.
    page.get_by_role("button", name="Close the tests").click()
    add(page, "after For each item", "Branch to one")
    panel(page).get_by_role("button", name="Insert a value into Condition of branch 1").click()
    page.get_by_role("treeitem", name="results.b").press("ArrowRight")
    page.get_by_role("treeitem", name="3 30").click()
    panel(page).get_by_role("textbox", name="Condition of branch 1").press("End")
    page.keyboard.insert_text(" > 20")
    panel(page).get_by_label("Name").fill("much")
    expect(graph(page).get_by_text("much")).to_be_visible()
    add(page, "at the start of much", "Approval")
    write(page, "Code of step e", "def main(approver: str = ''):\n    return 'ask'\n")
    add(page, "after Approval", "Python")
    write(page, "Code of step f", "def main(who: list):\n    return {'approved by': len(who)}\n")
    tab(page, "Inputs").click()
    connect(page, "who", "approvers")

    page.get_by_role("button", name="Deploy").click()
    page.get_by_label("What changed").fill("First version")
    page.get_by_role("dialog").get_by_role("button", name="Deploy").click()
    page.wait_for_url("**/flows/u/ada/bill/")

    flow, version = deployed.get_to_run(ada.caller, path="u/ada/bill")
    assert version.deployment_message == "First version"
    assert not Draft.objects.filter(workspace=ada.workspace).exists()
    job_id = flow_runs.run_flow(ada.caller, flow, version, Payload(args={"count": 4}), runs.RunOptions())
    inside = Job.objects.filter(root_job=job_id).values("id")
    waiting = QueuedJob.objects.filter(suspend__gt=0).filter(Q(id=job_id) | Q(id__in=inside))
    asking = wait_until(lambda: waiting.first(), "the approval")
    approvals.answer_as_member(ada.caller, asking.id, approved=True, value={})
    done = finished(job_id)
    assert done.result == {"approved by": 1}


def test_undo_and_redo_go_through_every_kind_of_change(ada_page: Page, ada: Person) -> None:
    page = ada_page
    put(ada, script("a", "Load"), script("b", "Send"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    node(page, "Load").click()
    panel(page).get_by_label("Summary of step a").fill("Load all")
    node(page, "Send").press("Delete")
    expect(node(page, "Send")).to_have_count(0)
    add(page, "after Load all", "Bash")
    expect(graph(page)).to_contain_text("Bash script")

    undo, redo = page.get_by_role("button", name="Undo"), page.get_by_role("button", name="Redo")
    undo.click()
    expect(graph(page)).not_to_contain_text("Bash script")
    node(page, "Load all").focus()
    page.keyboard.press("Control+Z")
    expect(node(page, "Send")).to_be_visible()
    undo.click()
    expect(node(page, "Load all")).to_have_count(0)
    expect(undo).to_be_disabled()
    expect(page.get_by_role("status", name="Draft")).to_have_text("As deployed")
    for _ in range(3):
        redo.click()
    expect(graph(page)).to_contain_text("Bash script")
    expect(redo).to_be_disabled()


def test_renaming_a_step_rewrites_the_expressions_that_read_it(ada_page: Page, ada: Person) -> None:
    page = ada_page
    reader = script("b", "Send")
    reader["value"]["input_transforms"] = {"x": {"type": "javascript", "expr": "results.a.total"}}
    reader["value"]["content"] = "def main(x: int): pass"
    put(ada, script("a", "Load"), reader)
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    node(page, "Load").click()
    field = panel(page).get_by_label("Id of the step")
    field.fill("b")
    field.press("Enter")
    expect(field).to_have_value("a")  # it is taken
    field.fill("orders")
    field.press("Enter")
    node(page, "Send").click()
    tab(page, "Inputs").click()

    expect(panel(page).get_by_role("textbox", name="Expression of x")).to_have_text("results.orders.total")
    saved(page)
    assert [module["id"] for module in draft_of(ada)["modules"]] == ["orders", "b"]


def test_switching_between_value_and_expression_keeps_both(ada_page: Page, ada: Person) -> None:
    page = ada_page
    step = script("a", "Load")
    step["value"]["content"] = "def main(name: str): pass"
    put(ada, step)
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))
    node(page, "Load").click()
    tab(page, "Inputs").click()

    panel(page).get_by_role("textbox", name=re.compile("^name")).fill("Turin")
    switch = panel(page).get_by_role("group", name="How name is given")
    switch.get_by_role("button", name="Expression").click()
    expect(panel(page).get_by_role("textbox", name="Expression of name")).to_have_text('"Turin"')
    write(page, "Expression of name", "flow_input.city")
    switch.get_by_role("button", name="Value").click()
    expect(panel(page).get_by_role("textbox", name=re.compile("^name"))).to_have_value("Turin")
    switch.get_by_role("button", name="Expression").click()

    expect(panel(page).get_by_role("textbox", name="Expression of name")).to_have_text("flow_input.city")


def test_the_inputs_follow_the_code_and_come_back_with_it(ada_page: Page, ada: Person) -> None:
    page = ada_page
    open_editor(page, ada.url("flows/new/"))
    add(page, "at the start", "Python")

    write(page, "Code of step a", "def main(city: str, days: int = 3): pass")
    tab(page, "Inputs").click()
    connect(page, "city", "flow_input")
    tab(page, "Code").click()
    write(page, "Code of step a", "def main(town: str): pass")
    tab(page, "Inputs").click()
    expect(panel(page).get_by_role("button", name="Connect town")).to_be_visible()
    expect(panel(page).get_by_role("button", name="Connect city")).to_have_count(0)
    tab(page, "Code").click()
    write(page, "Code of step a", "def main(city: str): pass")
    tab(page, "Inputs").click()

    expect(panel(page).get_by_role("textbox", name="Expression of city")).to_have_text("flow_input")


def test_yaml_and_graph_are_two_views_of_one_flow(ada_page: Page, ada: Person) -> None:
    page = ada_page
    put(ada, script("a", "Load"), loop("b", [script("c", "Send")], "Each"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    page.get_by_role("button", name="YAML").click()
    editor = page.get_by_role("textbox", name="The flow as YAML")
    expect(editor).to_contain_text("forloopflow")
    text = page.evaluate("document.getElementById('yaml').value")
    write(page, "The flow as YAML", text.replace("summary: Load", "summary: Load everything"))
    page.get_by_role("button", name="Graph", exact=True).click()
    expect(node(page, "Load everything")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(node(page, "Load everything")).to_have_count(0)

    page.get_by_role("button", name="YAML").click()
    expect(editor).to_contain_text("forloopflow")
    write(page, "The flow as YAML", "value:\n  modules:\n  - [")
    expect(page.get_by_text("Line 4:")).to_be_visible()
    page.get_by_role("button", name="Deploy").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be read")
    page.get_by_role("button", name="Graph", exact=True).click()
    expect(node(page, "Each")).to_be_visible()


def test_problems_are_on_the_steps_and_in_a_list_that_leads_to_them(ada_page: Page, ada: Person) -> None:
    page = ada_page
    call = {"id": "b", "value": {"type": "script", "path": "u/ada/gone", "input_transforms": {}}}
    value = {"modules": [script("a", "Load"), call]}
    drafts.save_draft(
        ada.caller, "u/ada/bill", {"summary": "", "value": value, "schema": {}}, base_hash=None, kind="flow"
    )
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    expect(node(page, "u/ada/gone").filter(has_text="Problem: ")).to_be_visible()
    page.get_by_role("button", name="1 problem").click()
    page.get_by_role("button", name="b: there is no script u/ada/gone").click()
    expect(panel(page).get_by_label("Id of the step")).to_have_value("b")
    node(page, "u/ada/gone").press("Delete")

    expect(page.get_by_role("button", name="1 problem")).to_have_count(0)


def test_deploying_over_somebody_elses_version_shows_both(ada_page: Page, ada: Person) -> None:
    page = ada_page
    put(ada, script("a", "Load"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))
    theirs = deployed.FlowDraft(
        path="u/ada/bill", value={"modules": [script("a", "Load from cache")]}, summary="Bill"
    )
    newer = deployed.update_flow(ada.caller, "u/ada/bill", theirs, deployment_message="Faster")

    add(page, "after Load", "Python")
    page.get_by_role("button", name="Deploy").click()
    page.get_by_role("dialog").get_by_role("button", name="Deploy").click()
    dialog = page.get_by_role("alertdialog", name="Changed since you opened it")
    expect(dialog).to_contain_text(f"ada deployed version {newer.pk}")
    expect(dialog).to_contain_text("Load from cache")
    dialog.get_by_role("button", name="Deploy mine on top").click()
    page.wait_for_url("**/flows/u/ada/bill/")

    live = deployed.live_version(Flow.objects.get(workspace=ada.workspace, path="u/ada/bill"))
    assert [module["id"] for module in live.value["modules"]] == ["a", "b"]


def test_what_is_built_is_kept_as_a_draft_that_can_be_discarded(ada_page: Page, ada: Person) -> None:
    page = ada_page
    put(ada, script("a", "Load"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    add(page, "after Load", "Wait")
    expect(page.get_by_role("status", name="Draft")).to_have_text("Draft saved")  # by itself
    page.reload()
    expect(node(page, "Wait")).to_be_visible()
    page.get_by_role("button", name="Discard draft").click()
    page.get_by_role("button", name="Discard", exact=True).click()

    expect(page.get_by_text("Your draft is open")).to_have_count(0)
    expect(node(page, "Load")).to_be_visible()
    expect(node(page, "Wait")).to_have_count(0)
    assert not Draft.objects.filter(workspace=ada.workspace).exists()


def test_leaving_at_once_keeps_the_last_change(ada_page: Page, ada: Person) -> None:
    page = ada_page
    put(ada, script("a", "Load"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    add(page, "after Load", "Wait")
    page.goto(ada.url("runs/"))

    wait_until(lambda: Draft.objects.filter(workspace=ada.workspace).exists(), "the draft")
    assert len(draft_of(ada)["modules"]) == 2


def test_a_flow_is_built_with_the_keyboard_alone(ada_page: Page, ada: Person) -> None:
    page = ada_page
    put(ada, script("a", "Load"), loop("b", [script("c", "Send")], "Each"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    node(page, "Load").focus()
    page.keyboard.press("ArrowDown")
    expect(node(page, "Each")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Alt+ArrowDown")  # into the loop
    expect(node(page, "Load")).to_be_focused()
    page.keyboard.press("Insert")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")  # Bash
    expect(node(page, "Bash script")).to_be_focused()
    page.keyboard.press("Control+C")
    page.keyboard.press("Control+V")
    expect(graph(page).get_by_role("button", name="Bash script Bash , step e")).to_be_focused()
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Delete")
    page.keyboard.press("Control+S")
    expect(page.get_by_role("status", name="Draft")).to_have_text("Draft saved")

    (only,) = draft_of(ada)["modules"]
    assert [module["id"] for module in only["value"]["modules"]] == ["a", "d", "c"]


def test_a_step_is_dragged_into_a_loop(ada_page: Page, ada: Person) -> None:
    page = ada_page
    put(ada, script("a", "Load"), loop("b", [script("c", "Send")], "Each"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    step = node(page, "Load").bounding_box()
    into = graph(page).get_by_role("button", name="Add a step after Send").bounding_box()
    assert step is not None and into is not None
    page.mouse.move(step["x"] + 60, step["y"] + 20)
    page.mouse.down()
    page.mouse.move(into["x"] + 40, into["y"] + 6, steps=5)
    page.mouse.move(into["x"] + 12, into["y"] + 12, steps=3)
    page.mouse.up()
    saved(page)

    (only,) = draft_of(ada)["modules"]
    assert [module["id"] for module in only["value"]["modules"]] == ["c", "a"]


def test_a_script_is_pinned_and_forked_into_the_flow(ada_page: Page, ada: Person) -> None:
    page = ada_page
    version = put_script(ada)
    open_editor(page, ada.url("flows/new/"))
    add(page, "at the start", "Script")
    choose(page, "u/ada/load_orders")

    tab(page, "Code").click()
    expect(panel(page).get_by_role("textbox", name="Code of u/ada/load_orders")).to_contain_text("cus_")
    panel(page).get_by_label("Pin this version").check()
    saved(page)
    assert draft_of(ada)["modules"][0]["value"]["hash"] == version.hash_hex
    panel(page).get_by_role("button", name="Fork inline").click()
    expect(panel(page).get_by_role("textbox", name="Code of step a")).to_contain_text("cus_")
    saved(page)

    forked = draft_of(ada)["modules"][0]["value"]
    assert (forked["type"], forked["content"]) == ("rawscript", ORDERS)
    assert forked["input_transforms"] == {"count": {"type": "static", "value": 3}}


def test_a_step_alone_runs_with_inputs_taken_from_the_last_test(
    ada_page: Page, ada: Person, worker: str
) -> None:
    page = ada_page
    first, second = script("a", "Load"), script("b", "Send")
    first["value"]["content"] = "def main(): return {'total': 20}"
    second["value"]["content"] = "def main(x: int): return x + 1"
    second["value"]["input_transforms"] = {"x": {"type": "javascript", "expr": "results.a.total * 2"}}
    put(ada, first, second)
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    node(page, "Load").click()
    tab(page, "Test").click()
    panel(page).get_by_role("button", name="Test the flow up to here").click()
    expect(page.get_by_role("status", name="Last test")).to_contain_text("Success", timeout=30_000)
    expect(node(page, "Load").filter(has_text="Success")).to_be_visible()
    expect(node(page, "Send").filter(has_text="Success")).to_have_count(0)
    node(page, "Send").click()
    panel(page).get_by_role("button", name="Inputs from the last test").click()
    expect(panel(page).get_by_label("x")).to_have_value("40")
    panel(page).get_by_role("button", name="Test this step").click()

    expect(page.get_by_role("tabpanel", name="Result")).to_contain_text("41", timeout=30_000)


def test_options_of_a_step_are_kept_as_openflow_writes_them(ada_page: Page, ada: Person) -> None:
    page = ada_page
    put(ada, script("a", "Load"), script("b", "Send"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))
    node(page, "Load").click()
    tab(page, "Advanced").click()

    def section(name: str) -> Locator:
        panel(page).locator("summary").filter(has_text=name).click()
        return panel(page)

    section("Retries").get_by_label("After the same time").check()
    panel(page).get_by_label("Attempts").fill("5")
    section("Timeout and cache").get_by_label("Cache for").fill("60")
    section("Approval").get_by_label("Wait for approval before the next step").check()
    panel(page).get_by_label("Approvals needed").fill("2")
    panel(page).get_by_role("button", name="Add a field").click()
    section("Errors").get_by_label("Go on when this step fails").check()
    section("Running").get_by_label("Tag").fill("gpu")
    saved(page)

    step = draft_of(ada)["modules"][0]
    assert step["retry"] == {"constant": {"attempts": 5, "seconds": 5}}
    assert step["cache_ttl"] == 60
    assert step["suspend"]["required_events"] == 2
    assert list(step["suspend"]["resume_form"]["schema"]["properties"]) == ["input"]
    assert step["continue_on_error"] is True
    assert step["value"]["tag"] == "gpu"


# --- size -------------------------------------------------------------------------------------------------------------


def test_five_hundred_steps_open_and_type_without_delay(ada_page: Page, ada: Person) -> None:
    page = ada_page
    steps = [
        loop(f"l{n}", [script(f"s{n}_{i}", f"Step {n} {i}") for i in range(9)], f"Loop {n}")
        for n in range(50)
    ]
    put(ada, *steps)
    metrics = page.context.new_cdp_session(page)
    # The processor's time of the page's main thread: what else the machine does makes it no longer.
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    open_editor(page, ada.url("flows/u/ada/bill/edit/"))
    page.wait_for_function("() => performance.getEntriesByName('flow-ready').length")
    taken = {one["name"]: one["value"] for one in metrics.send("Performance.getMetrics")["metrics"]}
    graph(page).get_by_role("button", name="Unfold all loops and branches").click()
    page.evaluate("document.getElementById('graph').pick('s25_4')")
    page.get_by_role("textbox", name="Code of step s25_4").click()
    typing = page.evaluate(
        """async () => {
            const code = document.getElementById('step-code'), times = [];
            for (let i = 0; i < 20; i++) {
                const from = performance.now();
                code.insert('x');
                await new Promise((r) => requestAnimationFrame(() => setTimeout(r)));
                times.push(performance.now() - from);
            }
            return times.sort((a, b) => a - b);
        }"""
    )

    assert 0 < taken["TaskDuration"] < 3, taken
    assert typing[0] < 100, f"key to paint, ms: {typing}"


def test_a_result_of_two_megabytes_is_picked_from_without_being_loaded(
    ada_page: Page, ada: Person, worker: str
) -> None:
    page = ada_page
    big = script("a", "Load")
    big["value"]["content"] = (
        "def main(): return [{'n': n, 'text': 'x' * 200, 'deep': {'ok': n % 2 == 0}} for n in range(9000)]"
    )
    put(ada, big, script("b", "Send"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))
    page.get_by_role("button", name="Test flow").click()
    expect(page.get_by_role("status", name="Last test")).to_contain_text("Success", timeout=30_000)
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(len(answer.body())) if "/peek/" in answer.url else None)

    add(page, "after Send", "Branch to one")
    panel(page).get_by_role("button", name="Insert a value into Condition of branch 1").click()
    page.get_by_role("treeitem", name="results.a").press("ArrowRight")
    page.get_by_role("treeitem", name="7 {n, text, deep}", exact=True).press("ArrowRight")
    page.get_by_role("treeitem", name="deep {ok}").press("ArrowRight")
    page.get_by_role("treeitem", name="ok false").click()

    expect(panel(page).get_by_role("textbox", name="Condition of branch 1")).to_have_text(
        "results.a[7].deep.ok"
    )
    assert max(sizes) < 64_000


def test_code_of_a_step_may_be_in_any_language_and_its_inputs_follow(ada_page: Page, ada: Person) -> None:
    page = ada_page
    put(ada, script("a", "Load"))
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))

    add(page, "after Load", "SQL")
    code = panel(page).get_by_role("textbox", name="Code of step b")
    expect(code).to_contain_text("generate_series")
    page.get_by_role("button", name="Language: PostgreSQL").click()
    page.get_by_role("option", name="Go", exact=True).click()
    expect(code).to_contain_text("package inner")
    panel(page).get_by_role("tab", name="Inputs").click()

    expect(panel(page).get_by_role("textbox", name="times")).to_be_visible()
    page.get_by_role("button", name="Save draft").click()
    expect(page.get_by_role("status", name="Draft")).to_have_text("Draft saved")
    added = draft_of(ada)["modules"][1]["value"]
    assert (added["language"], sorted(added["input_transforms"])) == ("go", ["name", "times"])


def test_the_editor_keeps_to_its_budget(ada_page: Page, ada: Person) -> None:
    """Gzip bytes. The editor of code comes with the first step that has some, viewers with the first test."""
    page = ada_page
    put(ada, script("a", "Load"), loop("b", [script("c", "Send")], "Each"))

    def loaded() -> dict[str, int]:
        sizes: dict[str, int] = page.evaluate(
            """async () => {
              const gzip = async (url) => {
                const body = (await fetch(url)).body.pipeThrough(new CompressionStream("gzip"));
                return (await new Response(body).arrayBuffer()).byteLength;
              };
              const names = performance.getEntriesByType("resource").map((e) => e.name.split("?")[0]);
              const files = [...new Set(names)];
              const of = async (kind) => {
                const sizes = await Promise.all(files.filter((f) => f.endsWith(kind)).map(gzip));
                return sizes.reduce((a, b) => a + b, 0);
              };
              return { js: await of(".js"), css: await of(".css"), html: await gzip(location.href) };
            }"""
        )
        return sizes

    open_editor(page, ada.url("flows/u/ada/bill/edit/"))
    at_first = loaded()
    node(page, "Load").click()
    page.get_by_role("textbox", name="Code of step a").wait_for()
    with_code = loaded()

    assert at_first["js"] < 120_000 and at_first["css"] < 22_000 and at_first["html"] < 30_000, at_first
    assert with_code["js"] < 280_000, with_code


# --- accessibility ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_editor_is_accessible_in_all_its_states(
    ada_page: Page, ada: Person, assert_accessible: Callable[[], None], width: str
) -> None:
    page = ada_page
    step = script("a", "Load")
    step["value"]["content"] = "def main(name: str, times: int = 1, day: list = []): pass"
    step["value"]["input_transforms"] = {"name": {"type": "javascript", "expr": "flow_input.name"}}
    step["retry"] = {"constant": {"attempts": 2, "seconds": 1}}
    step["suspend"] = {
        "required_events": 1,
        "resume_form": {"schema": {"type": "object", "properties": {"why": {"type": "string"}}}},
    }
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Who"}},
        "order": ["name"],
    }
    version = put(ada, step, loop("b", [script("c", "Send")], "Each"), schema=schema)
    drafts.save_draft(
        ada.caller,
        "u/ada/bill",
        {"summary": "Bill", "value": version.value | {"early_return": "gone"}, "schema": schema},
        base_hash=version.pk,
        kind="flow",
    )
    open_editor(page, ada.url("flows/u/ada/bill/edit/"))
    expect(page.get_by_role("button", name="1 problem")).to_be_visible()

    assert_accessible()
    for name in ("Settings", "Error handler and trigger"):
        tab(page, name).click()
        assert_accessible()
    node(page, "Load").click()
    page.get_by_role("textbox", name="Code of step a").wait_for()
    for name in ("Code", "Inputs", "Advanced", "Test"):
        tab(page, name).click()
        assert_accessible()
    tab(page, "Inputs").click()
    panel(page).get_by_role("button", name="Connect name").click()
    page.get_by_role("treeitem", name="flow_input").wait_for()
    assert_accessible()
    page.keyboard.press("Escape")
    node(page, "Each").click()
    assert_accessible()
    page.get_by_role("button", name="Open the tests").click()
    assert_accessible()
    page.get_by_role("button", name="YAML").click()
    page.get_by_role("textbox", name="The flow as YAML").wait_for()
    assert_accessible()
    page.get_by_role("button", name="Deploy").click()
    page.get_by_role("dialog").get_by_label("What changed").wait_for()
    assert_accessible()
