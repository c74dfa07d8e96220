"""The list of scripts and flows: order, filters, pages, rights, cost."""

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs import runnable_list, scripts
from jobs.flows import deployed
from jobs.models import Flow, Job, JobKind, Script
from jobs.runnable_list import Filters
from tests.jobs.pages.test_runs_page import queries_of
from workspaces import folders
from workspaces.errors import BadRequest

URL = "/w/acme/"


@pytest.fixture
def make(alice):
    """make("script", "u/alice/a", age_h=2): deployed that many hours ago."""

    def make(kind, path, *, age_h=0, caller=alice, **given):
        at = timezone.now() - timedelta(hours=age_h)
        if kind == "flow":
            deployed.create_flow(caller, deployed.FlowDraft(path=path, value={"modules": []}, **given))
            Flow.objects.filter(path=path).update(edited_at=at)
        else:
            given = {"language": "bash", "content": "echo hi", "kind": kind, **given}
            scripts.deploy_script(caller, scripts.ScriptDraft(path=path, **given))
            Script.objects.filter(path=path).update(created_at=at)

    return make


def ran(path, kind, *, age_h):
    Job.objects.create(
        workspace_id="acme",
        kind=kind,
        runnable_path=path,
        tag="t",
        created_by="alice",
        permissioned_as="u/alice",
        permissioned_as_email="alice@example.com",
        created_at=timezone.now() - timedelta(hours=age_h),
    )


def listed(caller, **filters):
    return [(row.kind, row.path) for row in runnable_list.list_page(caller, Filters(**filters)).rows]


def test_scripts_and_flows_are_one_list_by_their_newest_use(alice, make):
    make("script", "u/alice/a", age_h=4)
    make("flow", "u/alice/b", age_h=3)
    make("script", "u/alice/c", age_h=2)
    make("flow", "u/alice/d", age_h=5)
    ran("u/alice/d", JobKind.FLOW, age_h=1)

    assert listed(alice) == [
        ("flow", "u/alice/d"),
        ("script", "u/alice/c"),
        ("flow", "u/alice/b"),
        ("script", "u/alice/a"),
    ]


def test_a_script_and_a_flow_at_the_same_path_keep_their_own_runs(alice, make):
    make("script", "u/alice/same", age_h=2)
    make("flow", "u/alice/same", age_h=2)
    ran("u/alice/same", JobKind.FLOW, age_h=1)

    rows = runnable_list.list_page(alice, Filters()).rows

    assert [(row.kind, len(row.runs)) for row in rows] == [("flow", 1), ("script", 0)]
    assert len({row.key for row in rows}) == 2


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {"a", "b", "c", "d"}),
        ({"kind": "flow"}, {"c", "d"}),
        ({"kind": "script"}, {"a"}),
        ({"kind": "failure"}, {"b"}),
        ({"language": "bash"}, {"a", "b"}),
        ({"kind": "flow", "language": "bash"}, set()),
        ({"search": "nightly"}, {"a", "c"}),
        ({"search": "NIGHT shared"}, {"c"}),
        ({"owner": "f/shared"}, {"c"}),
        ({"label": "money"}, {"d"}),
        ({"archived": True}, set()),
    ],
)
def test_every_filter_means_both_kinds(alice, make, filters, expected):
    folders.create_folder(alice, name="shared")
    make("script", "u/alice/a", summary="Nightly")
    make("failure", "u/alice/b")
    make("flow", "f/shared/c", summary="nightly")
    make("flow", "u/alice/d", labels=["money"])

    assert {path[-1] for _, path in listed(alice, **filters)} == expected


def test_archived_flows_are_in_the_archive_only(alice, make):
    make("flow", "u/alice/a")
    deployed.archive_flow(alice, "u/alice/a")

    assert listed(alice) == []
    assert listed(alice, archived=True) == [("flow", "u/alice/a")]


def test_pages_follow_each_other_without_gap_or_repetition_even_at_the_same_moment(alice, make):
    for number in range(4):
        make("script", f"u/alice/s{number}")
        make("flow", f"u/alice/f{number}")
    at = timezone.now()
    Script.objects.update(created_at=at)
    Flow.objects.update(edited_at=at)

    seen, cursor = [], None
    while True:
        page = runnable_list.list_page(alice, Filters(), cursor=cursor, limit=3)
        seen += [(row.kind, row.path) for row in page.rows]
        cursor = page.cursor
        if cursor is None:
            break

    assert len(seen) == len(set(seen)) == 8


@pytest.mark.parametrize("cursor", ["", "x", "MjAyNi0wMS0wMSAx", "w7w="])
def test_a_cursor_of_ones_own_making_is_refused(alice, cursor):
    if cursor:
        with pytest.raises(BadRequest, match="cursor is not one"):
            runnable_list.list_page(alice, Filters(), cursor=cursor)


def test_flows_that_one_may_not_read_are_not_there(alice, dave, make):
    make("flow", "u/alice/a")

    assert listed(dave) == []
    assert runnable_list.choices(dave).owners == []


def test_the_page_costs_at_most_twelve_queries_and_offers_what_there_is(browser_of, make):
    make("script", "u/alice/a")
    make("flow", "u/alice/b", summary="Onboard")
    browser = browser_of("alice")

    page = browser.get(URL)

    assert queries_of(lambda: browser.get(URL)) <= 12
    text = page.content.decode()
    assert "Onboard" in text
    assert 'href="/w/acme/?kind=flow"' in text
    assert 'href="/w/acme/flows/new/"' in text


def test_an_empty_workspace_offers_a_script_a_flow_an_import_and_a_sample(browser_of, acme):
    text = browser_of("alice").get(URL).content.decode()

    for way in ("scripts/new/?language=python3", "flows/new/", "flows/import/", "samples/run/"):
        assert f"/w/acme/{way}" in text
    assert "flows/new/" not in browser_of("oscar").get(URL).content.decode()
