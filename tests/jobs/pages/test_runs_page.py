"""The list of runs: filters in the address, pages by cursor, batches, export."""

import csv
import io
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import listings, queue, run_list, runs, scripts, sql
from jobs.models import CompletedJob, Flow, Job, JobKind, QueuedJob
from jobs.payloads import Payload
from jobs.run_list import PAGE, parse_query
from tests.jobs.pages.conftest import CODE

URL = "/w/acme/runs/"
HTMX = {"HX-Request": "true"}


def queries_of(call: Callable[[], Any]) -> int:
    """How many statements a call costs, those that begin and end transactions aside."""
    with CaptureQueriesContext(
        connection,
    ) as captured:
        call()
    housekeeping = ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT", "SELECT set_config")
    return sum(1 for query in captured if not query["sql"].startswith(housekeeping))


def test_the_list_costs_at_most_twelve_queries_however_long_it_is(browser_of, finish):
    for _ in range(8):
        finish()
    browser = browser_of("alice")

    assert queries_of(lambda: browser.get(URL)) <= 12


def test_every_filter_of_the_address_shows_as_a_chip_that_removes_it(browser_of, finish):
    finish()

    page = browser_of("alice").get(URL, {"q": "path:f/shared user:alice", "status": "success", "range": "6h"})

    text = page.content.decode()
    assert "Greet somebody" in text
    for label in ("path: f/shared", "user: alice", "Status: Succeeded", "Last 6 hours"):
        assert f'aria-label="Remove the filter {label}"' in text


def test_an_empty_list_says_which_filters_hide_everything(browser_of, finish):
    finish()

    text = browser_of("alice").get(URL, {"q": "tag:gpu"}).content.decode()

    assert "These filters hide every run" in text
    assert "Without “tag: gpu”" in text


def test_an_unknown_filter_is_said_not_ignored(browser_of):
    text = (
        browser_of("alice")
        .get(URL, {"q": "colour:red", "status": "sleepy", "since": "noon"})
        .content.decode()
    )

    assert "“colour:” is not a filter" in text
    assert "status “sleepy” is unknown" in text
    assert "since is “noon”" in text


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ("path:f/shared", 2),
        ("path:f/shared/greet", 2),
        ("path:f/shar", 0),  # whole parts of a path only
        ("user:alice", 2),
        ("user:dave", 0),
        ("tag:python*", 2),
        ("args.name:ada", 1),
        ("result.ok:true", 1),
        ("greet", 2),
        ("path:%", 0),  # no wildcard of SQL's
    ],
)
def test_the_query_field_means_what_it_says(browser_of, finish, q, expected):
    finish(args={"name": "ada"}, result={"ok": True})
    finish(args={"name": "bob"}, result={"ok": False})

    text = browser_of("alice").get(URL, {"q": q}).content.decode()

    assert text.count("<tr data-run=") == expected


def test_pages_follow_each_other_without_gap_or_repetition(browser_of, start):
    ids = {str(start()) for _ in range(PAGE + 7)}
    browser = browser_of("alice")

    first = browser.get(URL)
    after = first.context["page"].next
    second = browser.get(URL, {"after": after}, headers=HTMX)

    shown = [str(run.job.id) for page in (first, second) for run in page.context["page"].runs]
    assert len(shown) == len(set(shown)) == PAGE + 7
    assert set(shown) == ids
    assert "Load more" in first.content.decode()
    assert "Load more" not in second.content.decode()


def test_a_cursor_that_is_none_is_refused(browser_of):
    answer = browser_of("alice").get(URL, {"after": "x' OR 1=1"}, headers=HTMX)

    assert answer.status_code == 400


def test_new_runs_are_counted_not_inserted(browser_of, start):
    start()
    browser = browser_of("alice")
    newest = browser.get(URL).context["page"].newest
    start()
    start()

    text = browser.get(URL, {"newest": newest}, headers=HTMX).content.decode()

    assert "2 new" in text
    assert "<tr" not in text


def test_others_runs_stay_hidden_from_who_may_not_read_their_path(browser_of, alice, dave, start):
    start()
    private = scripts.deploy_script(
        alice,
        scripts.ScriptDraft(
            path="u/alice/private", content=CODE, language="python3", summary="Private thing"
        ),
    )
    runs.run_script(alice, private, Payload(args={}), runs.RunOptions())

    for_dave = browser_of("dave").get(URL).content.decode()

    assert "Greet somebody" in for_dave
    assert "Private thing" not in for_dave


def test_a_batch_cancels_what_is_ticked(browser_of, start):
    one, other = start(), start()

    answer = browser_of("alice").post(f"{URL}batch/", {"deed": "cancel", "id": [str(one)]}, headers=HTMX)

    assert answer.status_code == 204
    assert "1 run canceled" in answer.headers["HX-Trigger"]
    assert CompletedJob.objects.get(pk=one).status == "canceled"
    assert QueuedJob.objects.filter(pk=other).exists()


def test_a_batch_on_all_matching_follows_the_filters(browser_of, start):
    gpu = [start(tag="gpu") for _ in range(3)]
    rest = start()

    browser_of("alice").post(
        f"{URL}batch/", {"deed": "cancel", "all": "1", "filters": "q=tag%3Agpu"}, headers=HTMX
    )

    assert CompletedJob.objects.filter(pk__in=gpu, status="canceled").count() == 3
    assert QueuedJob.objects.filter(pk=rest).exists()


def test_a_batch_runs_again_with_the_same_inputs(browser_of, finish):
    done = finish(args={"name": "grace"})

    browser_of("alice").post(f"{URL}batch/", {"deed": "again", "id": [str(done)]}, headers=HTMX)

    again = Job.objects.exclude(pk=done).get()
    assert again.args == {"name": "grace"}
    assert again.trigger_kind == "ui"


def test_a_batch_never_reaches_runs_that_its_sender_may_not_see(browser_of, alice, start):
    private = scripts.deploy_script(
        alice, scripts.ScriptDraft(path="u/alice/p", content=CODE, language="python3")
    )
    hidden = runs.run_script(alice, private, Payload(args={}), runs.RunOptions())

    browser_of("dave").post(f"{URL}batch/", {"deed": "cancel", "id": [str(hidden)]}, headers=HTMX)

    assert QueuedJob.objects.filter(pk=hidden).exists()


@pytest.mark.parametrize("body", [{"deed": "delete", "id": []}, {"deed": "cancel", "id": ["nope"]}])
def test_a_batch_that_makes_no_sense_is_refused(browser_of, body):
    assert browser_of("alice").post(f"{URL}batch/", body, headers=HTMX).status_code == 400


def test_the_export_holds_what_the_filters_match_and_no_formula(browser_of, start, finish):
    finish()
    start(tag="=1+1")

    answer = browser_of("alice").get(f"{URL}export.csv", {"status": "waiting"})

    rows = list(csv.DictReader(io.StringIO(b"".join(answer).decode())))
    assert answer.headers["Content-Disposition"] == 'attachment; filename="runs.csv"'
    assert [(row["status"], row["tag"], row["path"]) for row in rows] == [
        ("queued", "'=1+1", "f/shared/greet")
    ]


def test_an_operator_sees_the_list_and_a_stranger_does_not_know_of_it(browser_of, acme, start):
    start()
    stranger = Client()

    assert browser_of("oscar").get(URL).status_code == 200
    assert stranger.get(URL).headers["Location"] == "/login/?next=%2Fw%2Facme%2Fruns%2F"


def test_a_query_reads_back_as_it_was_written():
    query = parse_query({"q": 'path:"f/my folder" args.n:5 hello there', "status": "failure", "range": "7d"})

    again = parse_query(query.as_params())

    assert again == query
    assert query.args == (("n", "5"),)


@pytest.mark.parametrize(
    "query",
    [
        "newest=9999-12-31T23:59:59.999999%2B00:00",
        "newest=2026-01-01T00:00:00&since=2026-01-01T00:00Z",
        "newest=x",
        "since=9999-12-31T23:59:59-23:59",
        "until=0001-01-01T00:00:00%2B14:00",
        "since=0000-00-00",
        "rows=1&after=9999-12-31T23:59:59-14:00_018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a10",
        "rows=1&after=x",
        "q=args.x:" + "9" * 900,
        "q=path:%5C%20user:%25%20kind:x",
        "q=%ed%a0%80%20args.x:%22%5Cud800%22",
        "status=x&range=y",
    ],
)
def test_no_address_makes_the_list_fail(query, browser_of, start):
    start()
    for headers in ({}, {"HX-Request": "true"}):
        assert browser_of("alice").get(f"/w/acme/runs/?{query}", headers=headers).status_code < 500
    exported = browser_of("alice").get(f"/w/acme/runs/export.csv?{query}")
    assert exported.status_code < 500
    assert b"".join(exported.streaming_content) if exported.streaming else True


# --- flows ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def push(acme) -> Callable[..., UUID]:
    """Queue a job of any kind, by alice."""

    def push(kind: str, path: str = "f/shared/onboard", **given: Any) -> UUID:
        request = queue.JobRequest(
            workspace_id="acme",
            kind=kind,
            runnable_path=path,
            tag="flow",
            args={},
            created_by="alice",
            permissioned_as="u/alice",
            permissioned_as_email="alice@example.com",
            **given,
        )
        return queue.push_job(request)

    return push


def test_steps_of_flows_show_only_when_asked_for_and_the_chip_says_so(browser_of, push):
    flow = push(JobKind.FLOW)
    step = push(JobKind.FLOW_SCRIPT, parent_job=flow, flow_step_id="a", language="python3")
    found = push(JobKind.FLOW_DEPENDENCIES)
    browser = browser_of("alice")

    without = browser.get(URL)
    all_of_them = browser.get(URL, {"steps": "1"})

    assert [run.job.id for run in without.context["page"].runs] == [flow]
    assert {run.job.id for run in all_of_them.context["page"].runs} == {flow, step, found}
    assert 'aria-label="Remove the filter Steps of flows too"' in all_of_them.content.decode()
    assert without.context["tabs"][0]["count"] == 1


def test_a_flow_that_waits_for_approval_has_a_tab_of_its_own(browser_of, push):
    waits, runs_on = push(JobKind.FLOW), push(JobKind.FLOW)
    started = {"running": True, "worker": "w", "started_at": timezone.now()}
    QueuedJob.objects.filter(pk=runs_on).update(**started)
    QueuedJob.objects.filter(pk=waits).update(suspend=1, started_at=timezone.now())
    browser = browser_of("alice")

    shown = {
        status: [run.job.id for run in browser.get(URL, {"status": status}).context["page"].runs]
        for status in ("suspended", "running", "waiting")
    }

    assert shown == {"suspended": [waits], "running": [runs_on], "waiting": []}
    assert 'data-status="suspended"' in browser.get(URL).content.decode()


def test_a_kind_that_only_steps_have_shows_them(browser_of, push):
    flow = push(JobKind.FLOW)
    step = push(JobKind.FLOW_SCRIPT, parent_job=flow, flow_step_id="a")

    page = browser_of("alice").get(URL, {"q": "kind:flowscript"})

    assert [run.job.id for run in page.context["page"].runs] == [step]


def test_a_list_that_is_empty_for_want_of_steps_offers_them(browser_of, push):
    flow = push(JobKind.FLOW)
    push(JobKind.SCRIPT, "f/shared/inner", parent_job=flow, flow_step_id="a")

    text = browser_of("alice").get(URL, {"q": "path:f/shared/inner"}).content.decode()

    assert "steps of flows are not searched" in text
    assert "Steps of flows too" in text


@pytest.mark.parametrize(
    ("kind", "given", "title", "page"),
    [
        ("flow", {}, "Onboard", "/w/acme/flows/f/shared/onboard/"),
        ("flowpreview", {}, "Test of f/shared/onboard", ""),
        ("flowscript", {"flow_step_id": "a"}, "Onboard, step a", ""),
        ("flowscript", {"path": "f/shared/onboard/a", "flow_step_id": "a"}, "Onboard, step a", ""),
        ("flownode", {"path": "f/shared/onboard/b", "flow_step_id": "b"}, "Onboard, step b", ""),
        ("flowscript", {"path": "f/shared/onboard/b/c", "flow_step_id": "c"}, "Onboard, step c", ""),
        ("flowscript", {"path": "f/shared/gone/c", "flow_step_id": "c"}, "Step c", ""),
        ("flowdependencies", {}, "Dependencies of Onboard", "/w/acme/flows/f/shared/onboard/"),
        ("script", {"flow_step_id": "c"}, "onboard", "/w/acme/scripts/f/shared/onboard/"),
    ],
)
def test_every_kind_of_run_is_named_for_what_it_is(alice, push, kind, given, title, page):
    Flow.objects.create(
        workspace_id="acme", path="f/shared/onboard", version_id=1, summary="Onboard", edited_by="alice"
    )
    push(kind, parent_job=push(JobKind.FLOW) if given else None, **given)

    newest = run_list.list_runs(alice, parse_query({"steps": "1"})).runs[0]

    assert (newest.title, newest.page_url) == (title, page)
    assert newest.source == (
        "in a flow" if given else "on deployment" if kind == "flowdependencies" else "API"
    )


def test_the_newest_runs_are_found_without_walking_through_steps(alice, push):
    filters = parse_query({}).as_filters()
    statement = sql.load("list_jobs") + " ORDER BY created_at DESC, id DESC LIMIT 50"
    parameters = listings._filter_parameters(alice, filters) | {"cursor_at": None, "cursor_id": None}
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO job (id, workspace_id, kind, args, tag, created_by, permissioned_as, permissioned_as_email,"
            " created_at, flow_step_id)"
            " SELECT gen_random_uuid(), %s, 'flowscript', '{}', 'python3', 'alice', 'u/alice', 'alice@example.com',"
            "        now() - make_interval(secs => n), CASE WHEN n %% 100 > 0 THEN 'a' END"
            "   FROM generate_series(1, 5000) AS n",
            [alice.workspace_id],
        )
        cursor.execute("ANALYZE job")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + statement, parameters)
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "job_newest_run_idx" in plan
