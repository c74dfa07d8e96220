"""The page of a flow's run, what it loads, and what its buttons do."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.utils import timezone

from jobs.flows.state import Children, Progress
from jobs.models import CompletedJob, Job, QueuedJob, Script, new_job_id
from tests.browser.flows import EXAMPLE, branch_one, loop, script, wide_flow
from tests.flow_rows import FlowRows
from tests.jobs.pages.test_runs_page import HTMX, queries_of

Browser = Callable[[str], Client]


@pytest.fixture
def flow(greet: Script) -> Callable[..., FlowRows]:
    """A running flow of alice, in a folder that everybody reads."""
    return FlowRows


def url(job_id: UUID, word: str = "") -> str:
    return f"/w/acme/runs/{job_id}/{word}"


def picture(browser: Client, job_id: UUID, **watch: int) -> dict[str, Any]:
    answer = browser.get(url(job_id, "flow.json"), {"watch": json.dumps(watch)})
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def looped(flow: Callable[..., FlowRows], statuses: list[str], *, steps: int = 1) -> FlowRows:
    """a, then a loop c whose iterations stand so: of a single plain step d, or of d and e with a flow job around them."""
    inner = [script("d"), script("e")][:steps]
    rows = flow({"modules": [script("a"), loop("c", inner), script("z")]})
    rows.step("a", rows.job("a", "success"))
    if steps == 1:
        jobs = [
            rows.job("d", status, flow_n=n) if status != "pending" else new_job_id()
            for n, status in enumerate(statuses)
        ]
    else:
        jobs = [
            rows.body("c", status, n=n) if status != "pending" else new_job_id()
            for n, status in enumerate(statuses)
        ]
        for job, status in zip(jobs, statuses, strict=True):
            if status in ("success", "failure"):
                rows.step("d", rows.job("d", "success", flow=job), flow=job)
                end = rows.job("e", status, flow=job)
                rows.step("e", end, flow=job, type="Failure" if status == "failure" else "Success")
    rows.iterations("c", jobs)
    children = Children(length=len(jobs), started=len(jobs), done=len(jobs) - 1)
    rows.state(step=1, begun=True, module=Progress(id="c", job=str(jobs[-1]), children=children))
    return rows


# --- the picture ------------------------------------------------------------------------------------------------------


def test_steps_that_have_not_started_have_no_state(browser_of: Browser, flow: Any) -> None:
    rows = flow(EXAMPLE)

    shown = picture(browser_of("alice"), rows.id)

    assert (shown["states"], shown["matters"], shown["status"]) == ({}, "a", "running")


def test_the_definition_comes_only_when_asked_for(browser_of: Browser, flow: Any) -> None:
    rows = flow(EXAMPLE)

    asked = browser_of("alice").get(url(rows.id, "flow.json"), {"definition": "1"}).json()

    assert asked["value"]["modules"][0]["id"] == "a"
    assert "value" not in picture(browser_of("alice"), rows.id)


def test_a_branch_that_was_not_taken_is_skipped_with_all_that_is_in_it(
    browser_of: Browser, flow: Any
) -> None:
    rows = flow({"modules": [branch_one("b", [[script("x"), loop("l", [script("m")])]], [script("y")])]})
    taken = rows.job("y", "success")
    rows.step("b", taken, branch_chosen={"type": "default"})

    states = picture(browser_of("alice"), rows.id)["states"]

    assert states["b"]["branch"] == "default"
    assert {id: states[id]["status"] for id in "xlmy"} == {
        "x": "skipped",
        "l": "skipped",
        "m": "skipped",
        "y": "success",
    }


@pytest.mark.parametrize("steps", [1, 2])
def test_a_loop_shows_the_iteration_that_was_chosen(browser_of: Browser, flow: Any, steps: int) -> None:
    rows = looped(flow, ["success", "failure", "success", "failure"], steps=steps)
    inner = "d" if steps == 1 else "e"
    browser = browser_of("alice")

    usual, chosen = (picture(browser, rows.id)["states"], picture(browser, rows.id, c=2)["states"])

    assert (usual["c"]["iterations"]["at"], usual[inner]["status"]) == (1, "failure")
    assert (chosen["c"]["iterations"]["at"], chosen[inner]["status"]) == (2, "success")
    assert chosen[inner]["at"] == {"c": 2}
    assert [one["status"] for one in usual["c"]["iterations"]["shown"]] == [
        "success",
        "failure",
        "success",
        "failure",
    ]


def test_a_running_loop_follows_what_runs(browser_of: Browser, flow: Any) -> None:
    rows = looped(flow, ["failure", "success", "running", "pending"])

    shown = picture(browser_of("alice"), rows.id)

    assert shown["states"]["c"]["iterations"] | {"shown": [], "job": ""} == {
        "total": 4,
        "done": 2,
        "failed": 1,
        "running": 1,
        "at": 2,
        "shown": [],
        "job": "",
    }
    assert shown["matters"] == "d"


def test_the_failure_that_the_flow_ended_with_matters_most(browser_of: Browser, flow: Any) -> None:
    rows = looped(flow, ["success", "failure"], steps=2)
    rows.step("c", UUID(int=0), type="Failure")
    rows.state(step=1, begun=True)
    rows.end(rows.id, "failure", result={"error": {"name": "E", "message": "no", "step_id": "e"}})

    assert picture(browser_of("alice"), rows.id)["matters"] == "e"


def test_a_failure_that_the_flow_went_on_after_does_not(browser_of: Browser, flow: Any) -> None:
    rows = looped(flow, ["success", "failure"], steps=2)
    rows.step("c", UUID(int=0))
    rows.step("z", rows.job("z", "success"))
    rows.state(step=3, begun=True)
    rows.end(rows.id, "success", result=1)

    assert picture(browser_of("alice"), rows.id)["matters"] == "z"


def test_a_flow_says_what_it_waits_for(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [script("a", suspend={"required_events": 1}), script("b")]})
    done = rows.job("a", "success")
    rows.step("a", done)
    deadline = timezone.now() + timedelta(hours=1)
    progress = Progress(id="b", type="WaitingForEvents", job=str(done), count=1, wake_at=deadline.timestamp())
    rows.state(step=1, begun=True, module=progress, previous_job=str(done))
    QueuedJob.objects.filter(pk=rows.id).update(
        running=False, suspend=1, suspend_until=deadline, scheduled_for=deadline
    )
    browser = browser_of("alice")

    shown, page = picture(browser, rows.id), browser.get(url(rows.id)).content.decode()

    assert shown["states"]["a"]["status"] == "success"
    assert shown["states"]["b"]["status"] == "suspended"
    assert shown["matters"] == "b"
    assert "Waits for an approval" in page
    assert f'hx-post="/w/acme/runs/{done}/answer/"' in page


def test_a_sleeping_flow_says_until_when(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [script("a"), script("b")]})
    rows.step("a", rows.job("a", "success"))
    due = timezone.now() + timedelta(hours=1)
    rows.state(step=1, begun=True, asleep_until=due.timestamp())
    QueuedJob.objects.filter(pk=rows.id).update(running=False, scheduled_for=due)
    browser = browser_of("alice")

    shown = picture(browser, rows.id)["states"]["b"]

    assert shown["status"] == "scheduled"
    assert "Sleeping until" in browser.get(url(rows.id)).content.decode()


def test_failed_attempts_are_counted_and_can_be_opened(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [script("a")]})
    failed = [str(rows.job("a", "failure")) for _ in range(2)]
    rows.step("a", rows.job("a", "success"), failed_retries=failed)

    shown = picture(browser_of("alice"), rows.id)["states"]["a"]

    assert (shown["retries"], shown["failed_jobs"], shown["status"]) == (2, failed, "success")


def test_an_iteration_has_a_page_of_its_own_that_leads_back(browser_of: Browser, flow: Any) -> None:
    rows = looped(flow, ["success", "success", "failure"], steps=2)
    body = Job.objects.get(parent_job=rows.id, flow_n=2)
    inner = Job.objects.get(parent_job=body.id, flow_step_id="e")
    browser = browser_of("alice")

    assert sorted(picture(browser, body.id)["states"]) == ["d", "e"]
    back = f"/w/acme/runs/{rows.id}/?step=e&amp;n.c=3"
    assert back in browser.get(url(inner.id)).content.decode()


def test_the_only_step_of_an_iteration_leads_back_too(browser_of: Browser, flow: Any) -> None:
    rows = looped(flow, ["success", "success"])
    job = Job.objects.get(parent_job=rows.id, flow_step_id="d", flow_n=1)

    page = browser_of("alice").get(url(job.id)).content.decode()

    assert f"/w/acme/runs/{rows.id}/?step=d&amp;n.c=2" in page


# --- costs ------------------------------------------------------------------------------------------------------------


def test_ten_thousand_iterations_are_counted_and_not_sent(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [loop("c", [script("d")])]})
    ids = [new_job_id() for _ in range(10_000)]
    rows.iterations("c", ids)
    CompletedJob.objects.bulk_create(
        CompletedJob(
            id=id,
            workspace_id="acme",
            status="failure" if n == 7777 else "success",
            started_at=rows.start,
            completed_at=rows.start,
            duration_ms=1,
        )
        for n, id in enumerate(ids[:9000])
    )
    progress = Progress(id="c", job=str(ids[0]), children=Children(length=10_000, started=9000, done=9000))
    rows.state(begun=True, module=progress)
    browser = browser_of("alice")

    answer = browser.get(url(rows.id, "flow.json"))
    states = answer.json()["states"]
    page = browser.get(url(rows.id, "iterations.json"), {"step": "c", "after": "199"}).json()
    failed = browser.get(url(rows.id, "iterations.json"), {"step": "c", "status": "failure"}).json()

    assert len(answer.content) < 5000
    assert {key: states["c"]["iterations"][key] for key in ("total", "done", "failed", "at")} == {
        "total": 10_000,
        "done": 9000,
        "failed": 1,
        "at": 7777,
    }
    assert len(states["c"]["iterations"]["shown"]) == 12
    assert ([row["n"] for row in page["rows"][:2]], len(page["rows"]), page["more"]) == (
        [200, 201],
        100,
        True,
    )
    assert [(row["n"], row["status"]) for row in failed["rows"]] == [(7777, "failure")]


def test_the_page_and_its_picture_cost_few_queries(browser_of: Browser, flow: Any) -> None:
    rows = looped(flow, ["success"] * 5 + ["running"], steps=2)
    browser = browser_of("alice")

    assert queries_of(lambda: browser.get(url(rows.id))) <= 15
    assert queries_of(lambda: browser.get(url(rows.id, "flow.json"))) <= 15
    assert queries_of(lambda: browser.get(url(rows.id, "timeline.json"))) <= 12


def test_more_steps_cost_no_more_queries(browser_of: Browser, flow: Any) -> None:
    few, many = flow(wide_flow(20)), flow(wide_flow(500))
    for rows, groups in ((few, 2), (many, 50)):
        for group in range(groups):
            rows.step(f"g{group}_0", rows.job(f"g{group}_0", "success"))
    browser = browser_of("alice")

    def cost(rows: FlowRows) -> int:
        return queries_of(lambda: browser.get(url(rows.id, "flow.json")))

    assert cost(few) == cost(many)


def test_results_and_arguments_are_never_in_the_picture(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [script("a")]}, args={"secret": "in the arguments"})
    rows.step("a", rows.job("a", "success", result="in the result"))
    browser = browser_of("alice")

    for word in ("flow.json", "timeline.json", "iterations.json"):
        content = browser.get(url(rows.id, word)).content
        assert b"in the result" not in content and b"in the arguments" not in content


# --- the rest of the page ---------------------------------------------------------------------------------------------


def test_the_error_names_the_step_that_failed(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [script("a")]})
    error = {"error": {"name": "ValueError", "message": "no such row", "step_id": "a"}}
    rows.end(rows.id, "failure", result=error)

    page = browser_of("alice").get(url(rows.id)).content.decode()

    assert "ValueError: no such row" in page
    assert 'data-show-step="a"' in page


def test_the_head_is_refreshed_alone(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [script("a")]})
    browser = browser_of("alice")

    assert b'id="p-result"' not in browser.get(url(rows.id), headers=HTMX).content
    rows.end(rows.id, "success", result=1)
    done = browser.get(url(rows.id), headers=HTMX).content

    assert b"<html" not in done
    assert b'id="p-result" hx-swap-oob' in done


def test_the_timeline_has_bars_for_attempts_and_iterations(browser_of: Browser, flow: Any) -> None:
    rows = looped(flow, ["success", "failure", "running"])

    answer = browser_of("alice").get(url(rows.id, "timeline.json")).json()
    bars = {row["id"]: row["bars"] for row in answer["rows"]}

    assert [bar["status"] for bar in bars["d"]] == ["success", "failure", "running"]
    assert [bar["status"] for bar in bars["c"]] == ["running"]
    assert bars["d"][2]["to"] is None
    assert answer["is_over"] is False


def test_a_long_loop_hides_nothing_of_the_timeline(browser_of: Browser, flow: Any) -> None:
    rows = looped(flow, ["success"] * 210)
    rows.step("z", rows.job("z", "success"))

    answer = browser_of("alice").get(url(rows.id, "timeline.json")).json()
    bars = {row["id"]: row["bars"] for row in answer["rows"]}

    assert (len(bars["d"]), len(bars["z"]), answer["left_out"]) == (200, 1, True)


def test_strangers_get_nothing(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [script("a")]}, path="f/private/nightly")
    browser = browser_of("dave")

    for word in ("", "flow.json", "timeline.json", "iterations.json", "code.json"):
        assert browser.get(url(rows.id, word)).status_code == 404, word
    answer = browser.post(url(rows.id, "restart/"), {"step_id": "a"}, content_type="application/json")
    assert answer.status_code == 404


def test_what_is_no_flow_has_no_picture(browser_of: Browser, start: Callable[..., UUID]) -> None:
    job_id = start()

    for word in ("flow.json", "timeline.json", "iterations.json"):
        assert browser_of("alice").get(url(job_id, word)).status_code == 404


@pytest.mark.parametrize(
    ("word", "query"),
    [
        ("flow.json", {"watch": "["}),
        ("flow.json", {"watch": '{"c": "1"}'}),
        ("flow.json", {"watch": '{"c": true}'}),
        ("iterations.json", {"status": "odd"}),
        ("iterations.json", {"after": "x"}),
        ("iterations.json", {"after": "9" * 30}),
        ("iterations.json", {"after": "-"}),
        ("iterations.json", {"step": "\x00"}),
    ],
)
def test_nonsense_is_refused_with_a_sentence(
    browser_of: Browser, flow: Any, word: str, query: dict[str, str]
) -> None:
    rows = flow({"modules": [script("a")]})

    answer = browser_of("alice").get(url(rows.id, word), query)

    assert answer.status_code == 400
    assert len(answer.content) > 20


def test_numbers_of_iterations_that_are_not_there_are_ignored(browser_of: Browser, flow: Any) -> None:
    rows = looped(flow, ["success", "success"])

    shown = picture(browser_of("alice"), rows.id, c=99, other=10**18)

    assert shown["states"]["c"]["iterations"]["at"] == 1


# --- restarting -------------------------------------------------------------------------------------------------------


def test_a_flow_restarts_from_a_step(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [script("a"), script("b")]})
    rows.step("a", rows.job("a", "success", result=1))
    rows.step("b", rows.job("b", "failure"), type="Failure")
    rows.state(step=1, begun=True)
    rows.end(rows.id, "failure", result={"error": {}})
    browser = browser_of("alice")

    answer = browser.post(url(rows.id, "restart/"), {"step_id": "b"}, content_type="application/json")

    assert answer.status_code == 200, answer.content
    new_id = answer.json()["url"].split("/")[4]
    assert list(picture(browser, new_id)["states"]) == ["a"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"step_id": 1},
        {"step_id": "nowhere"},
        {"step_id": "a", "branch_or_iteration_n": "1"},
        {"step_id": "a", "nested_path": {"b": 1}},
        {"step_id": "a", "nested_path": [1]},
    ],
)
def test_a_wrong_wish_to_restart_is_refused(browser_of: Browser, flow: Any, body: dict[str, Any]) -> None:
    rows = flow({"modules": [script("a")]})
    rows.end(rows.id, "failure", result={"error": {}})

    answer = browser_of("alice").post(url(rows.id, "restart/"), body, content_type="application/json")

    assert answer.status_code == 400, answer.content


def test_a_flow_that_runs_cannot_be_restarted(browser_of: Browser, flow: Any) -> None:
    rows = flow({"modules": [script("a")]})

    answer = browser_of("alice").post(
        url(rows.id, "restart/"), {"step_id": "a"}, content_type="application/json"
    )

    assert answer.status_code == 400
    assert b"still runs" in answer.content


def test_a_run_that_does_not_exist_is_not_there(browser_of: Browser, acme: Any) -> None:
    assert browser_of("alice").get(url(uuid4(), "flow.json")).status_code == 404
