"""A flow's run in the browser: watched live, approved, restarted, by keyboard, on a phone, and when it is large."""

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
import websockets.sync.client
from playwright.sync_api import Page, WebSocketRoute, expect

from jobs import flow_runs, runs
from jobs.flows.state import Children, Progress
from jobs.models import CompletedJob, new_job_id
from tests.browser.flows import EXAMPLE, branch_one, loop, script, wide_flow
from tests.browser.site import Person
from tests.flow_rows import FlowRows
from workspaces import tokens

pytestmark = pytest.mark.browser


def python(
    step: str, code: str, summary: str = "", inputs: dict[str, str] | None = None, **options: Any
) -> Any:
    module = script(step, summary, **options)
    transforms = {name: {"type": "javascript", "expr": expr} for name, expr in (inputs or {}).items()}
    module["value"] |= {"content": code, "input_transforms": transforms}
    return module


@pytest.fixture
def rows(ada: Person) -> Callable[..., FlowRows]:
    """Runs of ada's, with rows as a worker would leave them; the test is the worker."""

    def make(value: dict[str, Any]) -> FlowRows:
        return FlowRows(value, workspace_id=ada.workspace.id, username=ada.username, path="f/billing/nightly")

    return make


def start(person: Person, value: dict[str, Any]) -> UUID:
    preview = flow_runs.FlowPreview(value=value, path="u/ada/nightly")
    return flow_runs.run_flow_preview(person.caller, preview, runs.RunOptions(trigger_kind="ui"))


def node(page: Page, step: str) -> Any:
    return page.locator(f'.fg-node[data-id="{step}"]')


def panel(page: Page) -> Any:
    return page.get_by_role("region", name="Selected step")


def half_done(rows: Callable[..., FlowRows]) -> FlowRows:
    """The example while it runs: the tenth of eighteen iterations has failed, the thirteenth runs."""
    made = rows(EXAMPLE)
    made.step("a", made.job("a", "success", result={"orders": [1, 2]}))
    branch = made.body("b", "running", body="b/0")
    made.state(step=1, begun=True, module=Progress(id="b", job=str(branch), branch=0))
    statuses = ["failure" if n == 9 else "success" for n in range(12)] + ["running"]
    bodies = [made.body("c", status, n=n, flow=branch) for n, status in enumerate(statuses)]
    for body, status in zip(bodies, statuses, strict=True):
        made.step("d", made.job("d", "success", flow=body, duration_ms=640), flow=body)
        if status == "running":
            job = made.job("e", "running", flow=body)
            made.state(body, step=1, begun=True, module=Progress(id="e", job=str(job)))
            continue
        error = {
            "error": {"name": "RuntimeError", "message": "card declined", "stack": "line 2", "step_id": "e"}
        }
        is_failed = status == "failure"
        job = made.job("e", status, flow=body, result=error if is_failed else 1, duration_ms=2100)
        made.step("e", job, flow=body, type="Failure" if is_failed else "Success")
    made.iterations("c", [*bodies, *(new_job_id() for _ in range(5))], flow=branch)
    children = Children(length=18, started=13, done=12, failed=1)
    made.state(branch, begun=True, module=Progress(id="c", job=str(bodies[-1]), children=children))
    return made


# --- looks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_page_is_accessible_at_every_moment(
    ada_page: Page,
    ada: Person,
    rows: Callable[..., FlowRows],
    assert_accessible: Callable[[], None],
    width: str,
) -> None:
    page, running, fresh, failed = ada_page, half_done(rows), rows(EXAMPLE), rows(EXAMPLE)
    error = {"error": {"name": "ValueError", "message": "no orders", "step_id": "a"}}
    failed.step("a", failed.job("a", "failure", result=error), type="Failure")
    failed.end(failed.id, "failure", result=error)

    for run in (fresh, failed, running):
        page.goto(ada.url(f"runs/{run.id}/"))
        expect(node(page, "a")).to_be_visible()
        assert_accessible()
    for name in ("Steps", "Inputs", "Log", "Details"):
        page.get_by_role("region", name="The run").get_by_role("tab", name=name).click()
        assert_accessible()
    page.get_by_role("button", name="All iterations of c").click()
    expect(page.get_by_role("list", name="Iterations")).to_be_visible()
    assert_accessible()
    page.get_by_role("list", name="Iterations").get_by_role("button", name="10 Failed").click()
    if width == "narrow":
        page.get_by_role("button", name="Close", exact=True).click()
    node(page, "e").click()
    for name in ("Result", "Logs", "Inputs", "Code", "Settings"):
        panel(page).get_by_role("tab", name=name).click()
        assert_accessible()


# --- journeys ---------------------------------------------------------------------------------------------------------


def test_a_flow_is_watched_approved_and_seen_to_its_end(
    ada_page: Page, ada: Person, worker: str, member: Callable[..., Person], sign_in: Any, new_context: Any
) -> None:
    page = ada_page
    form = {"schema": {"type": "object", "properties": {"comment": {"type": "string"}}}}
    value = {
        "modules": [
            python("a", "def main():\n    print('counting')\n    return [1, 2, 3]\n", "Count"),
            branch_one(
                "b",
                [
                    [
                        loop(
                            "c",
                            [
                                python(
                                    "d", "def main(n): return n * n", "Square", {"n": "flow_input.iter.value"}
                                )
                            ],
                        )
                    ]
                ],
                [python("x", "def main(): ...")],
                expr="results.a.length > 2",
            ),
            python(
                "j",
                "def main(): return {'description': 'All squared'}",
                "Ask",
                suspend={"required_events": 1, "resume_form": form},
            ),
            python(
                "k",
                "def main(said, squares): return [said, squares]",
                "Close",
                {"said": "resume.comment", "squares": "results.b"},
            ),
        ]
    }
    value["modules"][1]["value"]["branches"][0]["modules"][0]["value"]["iterator"]["expr"] = "results.a"

    page.goto(ada.url(f"runs/{start(ada, value)}/"))
    expect(page.get_by_text("Waits for an approval: Ask")).to_be_visible(timeout=30_000)
    expect(node(page, "c")).to_have_attribute("data-status", "success")
    expect(node(page, "x")).to_have_attribute("data-status", "skipped")
    expect(node(page, "k")).to_have_attribute("data-status", "suspended")
    expect(page.get_by_text("3/3")).to_be_visible()
    other = new_context().new_page()
    sign_in(other, member("bob", is_admin=True))
    other.goto(page.url)
    other.get_by_role("textbox", name="comment").fill("fine")
    other.get_by_role("button", name="Approve").click()

    expect(node(page, "k")).to_have_attribute("data-status", "success", timeout=20_000)
    expect(page.get_by_text("Waits for an approval")).to_have_count(0)
    result = page.get_by_role("region", name="The run").get_by_role("tabpanel", name="Result")
    expect(result).to_contain_text("fine", timeout=20_000)
    expect(page.get_by_role("heading", level=1).locator("..")).to_contain_text("Success")
    other.context.close()


def test_a_failed_step_is_shown_and_the_flow_restarted_from_it(
    ada_page: Page, ada: Person, worker: str
) -> None:
    page = ada_page
    value = {
        "modules": [
            python("a", "def main(): return [1]", "Load"),
            python(
                "b",
                "def main(rows):\n    print('parsing')\n    raise ValueError('row 1 is empty')\n",
                "Parse",
                {"rows": "results.a"},
            ),
            python("c", "def main(): ...", "Store"),
        ]
    }
    page.goto(ada.url(f"runs/{start(ada, value)}/"))

    error = page.locator("#run-error")
    expect(error).to_contain_text("ValueError: row 1 is empty", timeout=30_000)
    expect(error).to_contain_text("Step b, Parse")
    node(page, "a").click()
    error.get_by_role("button", name="Show step").click()
    expect(panel(page).get_by_role("heading", name="Parse")).to_be_visible()
    panel(page).get_by_role("tab", name="Logs").click()
    expect(panel(page).get_by_role("log")).to_contain_text("parsing")
    panel(page).get_by_role("tab", name="Result").click()
    panel(page).get_by_role("button", name="Show line 3").click()
    expect(panel(page).get_by_role("textbox", name="Code of step b")).to_be_visible()
    before = page.url
    panel(page).get_by_role("button", name="Restart from here").click()
    page.get_by_role("dialog", name="Restart from a step").get_by_role(
        "button", name="Restart", exact=True
    ).click()

    page.wait_for_url(lambda url: url.split("?")[0] != before.split("?")[0])
    expect(node(page, "a")).to_have_attribute("data-status", "success")
    expect(node(page, "b")).to_have_attribute("data-status", "failure", timeout=30_000)


def test_only_failed_iterations_are_tried_again(ada_page: Page, ada: Person, worker: str) -> None:
    page = ada_page
    value = {
        "modules": [
            loop(
                "c",
                [
                    python(
                        "d",
                        "def main(n):\n    assert n != 2\n    return n",
                        inputs={"n": "flow_input.iter.value"},
                    )
                ],
            )
        ]
    }
    value["modules"][0]["value"] |= {
        "iterator": {"type": "static", "value": [1, 2, 3]},
        "skip_failures": True,
    }
    page.goto(ada.url(f"runs/{start(ada, value)}/"))
    expect(page.get_by_role("button", name="1 iteration failed")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("button", name="More ways to run again")).to_be_visible()
    expect(page.locator("#run-head")).to_have_attribute("data-status", "success")

    page.get_by_role("button", name="More ways to run again").click()
    page.get_by_role("button", name="Retry failed iterations only").click()
    dialog = page.get_by_role("dialog", name="Restart from a step")
    expect(dialog.get_by_role("radio", name="Only those that failed")).to_be_checked()
    before = page.url.split("?")[0]
    dialog.get_by_role("button", name="Restart", exact=True).click()

    page.wait_for_url(lambda url: url.split("?")[0] != before)
    expect(page.get_by_role("button", name="All iterations of c: 3 of 3 done, 1 failed")).to_be_visible(
        timeout=30_000
    )
    new_id = page.url.split("?")[0].rstrip("/").split("/")[-1]
    own = CompletedJob.objects.extra(
        where=["id IN (SELECT id FROM job WHERE parent_job = %s)"], params=[new_id]
    )
    assert own.count() == 1  # what had succeeded was not run again


# --- live -------------------------------------------------------------------------------------------------------------


def test_a_lost_connection_loses_nothing(ada_page: Page, ada: Person, rows: Callable[..., FlowRows]) -> None:
    page, run = ada_page, rows({"modules": [script("a", "First"), script("b", "Second")]})
    sockets: list[WebSocketRoute] = []

    def connect(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        sockets.append(socket)

    page.route_web_socket(f"**/jobs/{run.id}**", connect)
    page.goto(ada.url(f"runs/{run.id}/"))
    expect(node(page, "a")).to_be_visible()
    job = run.job("a", "running")
    run.state(begun=True, module=Progress(id="a", job=str(job)))
    run.tell()
    expect(node(page, "a")).to_have_attribute("data-status", "running")

    sockets[-1].close(code=1012)
    run.end(job, "success", result=1)
    run.step("a", job)
    second = run.job("b", "running")
    run.state(step=1, begun=True, module=Progress(id="b", job=str(second)))
    run.tell()

    expect(node(page, "a")).to_have_attribute("data-status", "success")
    expect(node(page, "b")).to_have_attribute("data-status", "running")
    assert len(sockets) > 1
    run.end(second, "success", result=2)
    run.step("b", second)
    run.state(step=2, begun=True)
    run.end(run.id, "success", result=2)
    run.tell()
    expect(node(page, "b")).to_have_attribute("data-status", "success")
    expect(page.locator("#run-head")).to_have_attribute("data-status", "success")


def test_an_iteration_is_chosen_and_stays_after_a_reload(
    ada_page: Page, ada: Person, rows: Callable[..., FlowRows]
) -> None:
    page, run = ada_page, half_done(rows)
    page.goto(ada.url(f"runs/{run.id}/"))
    expect(node(page, "e")).to_have_attribute("data-status", "running")

    page.get_by_role("button", name="Iteration 10, Failed").click()
    expect(node(page, "e")).to_have_attribute("data-status", "failure")
    node(page, "e").click()
    expect(panel(page)).to_contain_text("card declined")
    page.reload()
    expect(panel(page)).to_contain_text("card declined")
    panel(page).get_by_role("button", name="Next iteration").click()
    expect(node(page, "e")).to_have_attribute("data-status", "success")
    page.get_by_role("button", name="All iterations of c").click()
    panel(page).get_by_role("button", name="Failed", exact=True).click()
    expect(panel(page).get_by_role("list", name="Iterations").get_by_role("listitem")).to_have_count(1)
    panel(page).get_by_role("button", name="First failed").click()
    expect(node(page, "e")).to_have_attribute("data-status", "failure")


def test_an_iteration_that_is_asked_for_at_once_is_told_about(
    ada: Person, rows: Callable[..., FlowRows]
) -> None:
    run, token = half_done(rows), tokens.create_session(ada.account)
    address = f"{ada.site.url.replace('http', 'ws', 1)}/ws/w/{ada.workspace.id}/jobs/{run.id}?token={token}"

    with websockets.sync.client.connect(address) as socket:
        socket.send('{"watch": {"c": 9}}')  # the server is still finding out who asks

        deadline = time.monotonic() + 10
        status = ""
        while status != "failure":
            message = json.loads(socket.recv(timeout=deadline - time.monotonic()))
            if message["type"] == "flow" and message["whole"]:
                status = message["states"]["e"]["status"]


def test_one_step_of_five_hundred_changes_without_a_pause(
    ada_page: Page, ada: Person, rows: Callable[..., FlowRows]
) -> None:
    page, run = ada_page, rows(wide_flow(500))
    for group in range(30):
        run.step(f"g{group}_0", run.job(f"g{group}_0", "success"))
    page.goto(ada.url(f"runs/{run.id}/"))
    expect(node(page, "g49_0")).to_be_attached()
    page.get_by_role("button", name="Unfold all loops and branches").click()
    expect(page.locator(".fg-node")).to_have_count(500)

    # The shortest of several: other processes make any of them longer, but none makes one shorter than it can be.
    shortest = page.evaluate(
        """async () => {
          const graph = document.querySelector("wm-flow-graph");
          let shortest = Infinity;
          for (let n = 0; n < 8; n++) {
            const from = performance.now();
            graph.patch({ [`g4${n}_0`]: { status: "running" } });
            await graph.updateComplete;
            shortest = Math.min(shortest, performance.now() - from);
          }
          return shortest;
        }"""
    )

    assert shortest < 100, shortest
    page.get_by_role("button", name="Zoom out").click()
    node(page, "g0_0").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(panel(page).get_by_role("heading", name="For each")).to_be_visible()


def test_a_large_result_is_loaded_when_asked_for(
    ada_page: Page, ada: Person, rows: Callable[..., FlowRows]
) -> None:
    page, run = ada_page, rows({"modules": [script("a", "Big")]})
    result = {"rows": [{"id": n, "text": "x" * 80} for n in range(30_000)]}
    run.step("a", run.job("a", "success", result=result))
    run.state(step=1, begun=True)
    run.end(run.id, "success", result=1)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "result.json" in request.url else None)

    page.goto(ada.url(f"runs/{run.id}/"))
    expect(panel(page)).to_contain_text("The result is 3")
    assert len(json.dumps(result)) > 2_000_000
    assert not [url for url in asked if str(run.id) not in url]
    panel(page).get_by_role("button", name="Show it").click()

    tree = panel(page).get_by_role("tree")
    expect(tree).to_be_visible()
    tree.get_by_role("treeitem").nth(1).click()
    expect(tree).to_contain_text("30000 items")


# --- by keyboard, on a phone, in both themes --------------------------------------------------------------------------


def test_the_keyboard_reaches_everything(ada_page: Page, ada: Person, rows: Callable[..., FlowRows]) -> None:
    page, run = ada_page, half_done(rows)
    page.goto(ada.url(f"runs/{run.id}/"))
    expect(node(page, "e")).to_have_attribute("aria-current", "true")

    node(page, "e").focus()
    page.keyboard.press("ArrowUp")
    expect(node(page, "d")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(node(page, "c")).to_be_focused()
    page.keyboard.press("Enter")

    expect(panel(page)).to_be_focused()
    expect(panel(page).get_by_role("heading", name="For each customer")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(panel(page).get_by_role("tab", name="Settings")).to_have_attribute("aria-selected", "true")


@pytest.mark.parametrize("width", ["narrow"])
def test_on_a_phone_a_step_comes_up_as_a_sheet(
    ada_page: Page, ada: Person, rows: Callable[..., FlowRows], width: str
) -> None:
    page, run = ada_page, half_done(rows)
    page.goto(ada.url(f"runs/{run.id}/"))
    expect(node(page, "e")).to_be_visible()
    heading = page.get_by_role("heading", name="Build invoice PDF")
    expect(heading).to_be_hidden()

    node(page, "d").click()
    expect(heading).to_be_visible()
    page.keyboard.press("Escape")
    expect(heading).to_be_hidden()
    expect(node(page, "d")).to_be_focused()
    where = "document.querySelector('.fg-world').style.transform"
    before, box = page.evaluate(where), page.locator("wm-flow-graph").bounding_box()
    assert box
    page.mouse.move(box["x"] + 20, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 140, steps=5)
    page.mouse.up()
    assert page.evaluate(where) != before
    page.get_by_role("region", name="The run").get_by_role("tab", name="Steps").click()
    page.get_by_role("list", name="Steps of the flow").get_by_role("button", name="Load open orders").click()
    expect(page.get_by_role("heading", name="Load open orders")).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.get_by_role("heading", name="Load open orders")).to_be_hidden()


def test_the_page_keeps_to_its_budget(ada_page: Page, ada: Person, rows: Callable[..., FlowRows]) -> None:
    """UI.md: a run page loads at most 60 KB of compressed scripts. Viewers of results and logs come with their tabs."""
    page, run = ada_page, rows({"modules": [script("a"), script("b")]})
    page.goto(ada.url(f"runs/{run.id}/"))
    expect(panel(page)).to_contain_text("Not started")

    sizes = page.evaluate(
        """async () => {
          const gzip = async (url) => {
            const body = (await fetch(url)).body.pipeThrough(new CompressionStream("gzip"));
            return (await new Response(body).arrayBuffer()).byteLength;
          };
          const files = performance.getEntriesByType("resource").map((e) => e.name);
          const of = async (kind) => {
            const sizes = await Promise.all(files.filter((f) => f.split("?")[0].endsWith(kind)).map(gzip));
            return sizes.reduce((a, b) => a + b, 0);
          };
          return { js: await of(".js"), css: await of(".css"), html: await gzip(location.href) };
        }"""
    )

    assert sizes["js"] < 60_000 and sizes["css"] < 22_000 and sizes["html"] < 25_000, sizes
