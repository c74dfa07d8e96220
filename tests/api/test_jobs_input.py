"""Hostile input on the routes of scripts, jobs and workers: a sentence, no change, never a failure of ours.

Arguments are free-form, so most of what another route refuses is a value here; what no database stores is refused.
"""

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.models import Job, Script
from tests.api.conftest import JOB_ID, World
from tests.api.test_every_route import API as EVERY_ROUTE
from tests.api.test_every_route import BODIES, W, address
from tests.api.test_governance_input import HOSTILE, NOT_AN_OBJECT, NOT_JSON, WRONG, body_fields, refuse

API = [
    (method, route)
    for method, route in EVERY_ROUTE
    if re.search(r"(^|>/)(jobs|jobs_u|scripts|workers|job_metrics)/", route)
    and not re.search("/(run_wait_result|run_inline|run_and_stream|getupdate|getupdate_sse)/", route)
]
# They look things up in threads of their own, which see only what is committed, and that makes tests slow. They read
# requests with the code of the others, so a few tests are enough.
WAITING = [
    (method, route)
    for method, route in EVERY_ROUTE
    if re.search("/(run_wait_result|run_inline|run_and_stream|getupdate|getupdate_sse)/", route)
]
STARTS = [(method, route) for method, route in API if "/jobs/run" in route]
LISTS_IDS = [
    W + "jobs/delete",
    W + "jobs/queue/cancel_selection",
    W + "jobs/queue/get_started_at_by_ids",
    W + "jobs_u/queue/get_started_at_by_ids",
]
READ_BODY = [
    (method, route)
    for method, route in API
    if method != "GET" and (route in BODIES or "cancel/" in route) and route not in LISTS_IDS
]


def test_the_routes_are_found() -> None:
    assert len(API) > 50 and len(WAITING) > 10 and len(STARTS) > 3 and len(READ_BODY) > 6


def body_of(route: str) -> Any:
    return BODIES.get(route, {})


def fields_of(method: str, route: str) -> dict[str, Any]:
    return body_fields(method, route)


@pytest.mark.parametrize(
    ("method", "route"),
    [
        (method, route)
        for method, route in API
        if method == "POST" and ("/jobs/run" in route or route in BODIES)
    ],
    ids=str,
)
def test_a_body_that_no_database_stores_is_refused(
    method: str, route: str, world: World, unchanged: Any
) -> None:
    unchanged()

    for body in NOT_JSON:
        refuse(world.call("root", method, address(route), body), f"{route} with {body[:30]!r}")

    unchanged(route)


@pytest.mark.parametrize(("method", "route"), READ_BODY, ids=str)
def test_a_body_that_is_no_object_is_refused_where_fields_are_read(
    method: str, route: str, world: World, unchanged: Any
) -> None:
    unchanged()

    for body in NOT_AN_OBJECT:
        refuse(world.call("root", method, address(route), body), f"{route} with {body!r}")

    unchanged(route)


@pytest.mark.parametrize(("method", "route"), READ_BODY, ids=str)
def test_a_field_of_the_wrong_type_is_refused(method: str, route: str, world: World, unchanged: Any) -> None:
    unchanged()

    for name, field in fields_of(method, route).items():
        for value in WRONG.get(field.get("type", ""), []):
            body = {**body_of(route), name: value}
            refuse(world.call("root", method, address(route), body), f"{route} with {name}={value!r}")

    unchanged(route)


@pytest.mark.parametrize("route", LISTS_IDS)
@pytest.mark.parametrize(
    "body",
    [*NOT_JSON, b"{}", b'"x"', b"1", b"[1]", b"[null]", b'["x"]', b'[["x"]]', b'["../../etc"]'],
)
def test_a_list_of_ids_that_holds_anything_else_is_refused(
    route: str, body: bytes, world: World, unchanged: Any
) -> None:
    unchanged()

    refuse(world.post("root", address(route), body), route)

    unchanged(route)


def test_more_ids_than_one_request_may_name_are_refused(world: World, unchanged: Any) -> None:
    unchanged()
    ids = ["018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a11"] * 10_001

    for route in (*LISTS_IDS, W + "jobs/run/batch_rerun_jobs"):
        body = ids if route in LISTS_IDS else {"job_ids": ids}
        refuse(world.post("root", address(route), body), route)

    unchanged()


@pytest.mark.parametrize(
    "hostile", [*HOSTILE, "0" * 17, "ffffffffffffffff", "zz", "018f3a526b1e7c9a9d2f3f6d0e5b7a10"]
)
def test_hostile_parameters_in_the_address_never_fail_and_change_nothing(
    hostile: str, world: World, unchanged: Any
) -> None:
    unchanged()
    for method, route in API:
        for name in re.findall(r"<(\w+)>", route):
            body = body_of(route) if method != "GET" else None
            answer = world.call("root", method, address(route, **{name: hostile}), body)

            doing = f"{method} {route} with {name}={hostile[:40]!r}"
            assert answer.status_code < 500, f"{doing}: {answer.content[:200]!r}"
            if answer.status_code >= 400:
                assert answer["Content-Type"].startswith("text/plain"), doing
                if method != "GET":
                    unchanged(doing)


# Each is wrong for at least one route, and harmless for the others.
QUERIES = [
    "page=-1",
    "page=x",
    "per_page=1e3",
    "page=99999999999999999999",
    "page=1000000000&per_page=10000",
    "page=%EF%BC%91",
    "per_page=0",
    "created_before=yesterday",
    "created_after=0001-01-01T00:00:00%2B14:00",
    "created_after=9999-12-31T23:59:59-14:00",
    "completed_before=-271821-04-20",
    "created_before=%00",
    "args={",
    "args=%22%5Cud800%22",
    "args={%22a%22:%22%5Cu0000%22}",
    "args=1e999",
    "args=" + "[" * 5000,
    "args={%22a%22:" + "9" * 4000 + "}",
    "result={%22a%22:1}",
    "result=NaN",
    "success=maybe",
    "running=2",
    "status=done,%27",
    "job_kinds=%25,_,%27%22",
    "script_hash=zz",
    "script_hash=99999999999999999999",
    "script_path_start=%25_%5C",
    "script_path_start=%5C&allow_wildcards=true",
    "created_by=%5C,*,%25&allow_wildcards=true",
    "label=%ff&tag=%ed%a0%80",
    "broad_filter=%5C%25_%27",
    "parent_job=x",
    "parent_job={018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a10",
    "all_workspaces=true",
    "log_offset=99999999999999999",
    "log_offset=-5",
    "log_offset=999999999999999",
    "log_offset=x",
    "ping_since=x",
    "ping_since=999999999",
    "completed_after_s_ago=999999999",
    "completed_after_s_ago=-1",
    "horizon_secs=99999999999",
    "tags=" + ",".join(map(str, range(2000))),
    "tags=%27%22,%ff",
    "workspace=%27",
    "parent_hash=g&first_parent_hash=-1",
    "first_parent_hash=ffffffffffffffff&last_parent_hash=ffffffffffffffff",
    "kinds=x&languages=klingon",
    "order_by=created_at;drop%20table%20job",
]


@pytest.mark.parametrize("query", QUERIES)
def test_hostile_queries_never_fail(query: str, world: World) -> None:
    for method, route in API:
        if method == "GET" and "/jobs/run" not in route:
            answer = world.get("root", f"{address(route)}?{query}")
            assert answer.status_code < 500, f"{route}?{query}: {answer.content[:200]!r}"


RUN_QUERIES = [
    "scheduled_for=yesterday",
    "scheduled_for=9999-12-31T23:59:59-14:00",
    "scheduled_for=0001-01-01T00:00:00%2B14:00",
    "scheduled_in_secs=nan",
    "scheduled_in_secs=inf",
    "scheduled_in_secs=-1",
    "scheduled_in_secs=1e300",
    "scheduled_in_secs=1&scheduled_for=2030-01-01T00:00:00Z",
    "timeout=0",
    "timeout=-5",
    "timeout=99999999999999999999",
    "timeout=1.5",
    "priority=-1",
    "priority=101",
    "priority=99999999999999999999",
    "priority=x",
    "parent_job=x",
    "parent_job=018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a99",
    "root_job=x",
    "job_id=x",
    "job_id=018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a10",
    "tag=" + "x" * 300,
    "tag=%00",
    "queue_limit=-1",
    "queue_limit=99999999999999999999",
    "queue_limit=x",
    "payload=%21%21",
    "payload=" + quote("eyJhIjoiXHUwMDAwIn0="),  # {"a":"\u0000"}
    "payload=" + quote("//79"),
    "retry=x",
    "include_header=authorization",
    "include_header=cookie",
    "raw=maybe",
]


@pytest.mark.parametrize("query", RUN_QUERIES)
def test_hostile_options_of_a_run_are_refused_and_nothing_is_queued(
    query: str, world: World, unchanged: Any
) -> None:
    unchanged()
    for method, route in STARTS:
        if route.endswith("batch_rerun_jobs") or (
            re.search("preview|dependencies", route) and re.match("payload|include|raw", query)
        ):
            continue
        body = body_of(route) if method == "POST" else None
        refuse(world.call("root", method, f"{address(route)}?{query}", body), f"{method} {route}?{query}")
    unchanged(query)


FORM = b"--x\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n--x--\r\n"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=\xff", b"x"),
        ("multipart/form-data; boundary=" + "x" * 300, b"--x"),
        ("multipart/form-data; boundary=x", FORM % (b'name="a"', b"\0")),
        ("multipart/form-data; boundary=x", FORM % (b'name="a"; filename="b"', b"1")),
        ("application/x-www-form-urlencoded", b"a=%00"),
        ("application/x-www-form-urlencoded", b"a=%ff"),
        ("application/x-www-form-urlencoded", b"&".join(b"a=1" for _ in range(10_001))),
        ("application/cloudevents+json", b"[]"),
        ("application/cloudevents-batch+json", b"[]"),
        ("text/html", b"<p>"),
        ("application/json; charset=klingon", b"{"),
        ("\x7f", b"x"),
    ],
)  # fmt: skip
def test_bodies_that_mean_no_arguments_are_refused(
    content_type: str, body: bytes, world: World, unchanged: Any
) -> None:
    unchanged()
    for method, route in STARTS:
        if method == "POST" and ("/p/" in route or "/h/" in route):
            headers = {"authorization": f"Bearer {world.tokens['root']}"}
            answer = world.client.generic(
                method, f"/api/{address(route)}", body, content_type=content_type, headers=headers
            )
            refuse(answer, f"{route} with {content_type!r}")
    unchanged(content_type)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("language", "klingon"),
        ("language", "../python3"),
        ("language", ""),
        ("path", "../../etc/passwd"),
        ("path", "u/alice/../dave/x"),
        ("path", "f/private/" + "x" * 300),
        ("path", "f/nowhere/x"),
        ("kind", "virus"),
        ("parent_hash", "zz"),
        ("parent_hash", "0" * 40),
        ("tag", "x" * 51),
        ("envs", ["=x"]),
        ("envs", ["A B=x"]),
        ("envs", ["A=x"] * 101),
        ("timeout", 0),
        ("timeout", 2**31),
        ("priority", 101),
        ("priority", -1),
        ("schema", [1]),
        ("concurrent_limit", "many"),
        ("cache_ttl", True),
        ("labels", ["x" * 300]),
    ],
)
def test_scripts_with_values_out_of_range_are_not_deployed(
    field: str, value: Any, world: World, unchanged: Any
) -> None:
    unchanged()

    route = W + "scripts/create"
    answer = world.post("root", address(route), {**BODIES[route], field: value})

    refuse(answer, f"{field}={value!r}")
    unchanged()


def test_unknown_fields_of_a_script_change_nothing_about_who_it_is(world: World) -> None:
    """Columns that are no fields (whose it is, when, in which workspace) cannot be set through the body."""
    body = {
        **BODIES[W + "scripts/create"],
        "workspace_id": "other",
        "created_by": "olga",
        "archived": True,
        "extra_perms": {"u/dave": True},
        "hash": "00000000000000ff",
        "nonsense": {"x": 1},
    }

    answer = world.post("alice", "w/acme/scripts/create", body)

    assert answer.status_code < 500
    for script in Script.objects.filter(path="f/private/mine"):
        assert (script.workspace_id, script.created_by, script.archived, script.extra_perms) == (
            "acme", "alice", False, {},
        )  # fmt: skip


def test_ids_of_another_workspace_do_not_exist_here(world: World, unchanged: Any) -> None:
    unchanged()
    for method, route in API:
        if not route.startswith(W) or not re.search("<(id|hash|path)>", route):
            continue
        if "exists" in route or "cancel_persistent" in route:  # a path where nothing is, is none to tell of
            continue
        body = body_of(route) if method != "GET" else None
        for who in ("olga", "root"):
            answer = world.call(who, method, address(route, workspace="other"), body)
            assert answer.status_code in (400, 403, 404), f"{who}: {method} {route} {answer.content[:200]!r}"
    assert world.post("olga", address(LISTS_IDS[1], workspace="other"), [str(JOB_ID)]).json() == []
    unchanged("a job named from another workspace")
    assert (
        world.post("olga", address(LISTS_IDS[0], workspace="other"), [str(JOB_ID)]).content
        == b"deleted 0 jobs"
    )
    assert Job.objects.filter(pk=JOB_ID, workspace_id="acme").exists()


def test_arguments_of_ten_megabytes_are_kept_or_refused(world: World, settings: Any) -> None:
    big = {"x": "y" * 10_000_000}

    kept = world.post("alice", "w/acme/jobs/run/p/f/private/script", big)

    assert kept.status_code == 201
    assert Job.objects.get(pk=kept.content.decode()).args == big
    settings.MAX_REQUEST_SIZE_MB = 1
    for route in ("w/acme/jobs/run/p/f/private/script", "w/acme/jobs/run/preview", "w/acme/scripts/create"):
        assert world.post("alice", route, big).status_code == 413
    code = {"path": "u/alice/big", "content": "#" * 10_000_001, "language": "bash", "summary": ""}
    settings.MAX_REQUEST_SIZE_MB = 50
    assert world.post("alice", "w/acme/scripts/create", code).status_code == 400


@pytest.mark.django_db(transaction=True)
def test_waiting_routes_refuse_what_their_like_refuse(world: World, unchanged: Any) -> None:
    unchanged()
    for method, route in WAITING:
        starts = "/jobs/run" in route
        for query in (
            RUN_QUERIES[::6] if starts else ["log_offset=x", "log_offset=" + "9" * 20, "running=maybe"]
        ):
            if ("_sse" in route and query.startswith("running")) or (
                "preview" in route and re.match("payload|include|raw", query)
            ):
                continue
            body = body_of(route) if method == "POST" else None
            refuse(world.call("root", method, f"{address(route)}?{query}", body), f"{method} {route}?{query}")
        for body in NOT_JSON if method == "POST" else []:
            refuse(world.call("root", method, address(route), body), f"{route} with {body[:30]!r}")
        for hostile in HOSTILE:
            for name in re.findall("<(id|hash|path)>", route):
                answer = world.call("root", method, address(route, **{name: hostile}), body_of(route))
                assert 400 <= answer.status_code < 500, f"{method} {route} with {name}={hostile[:40]!r}"
    unchanged()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TRIED = [(method, route) for method, route in API if method == "POST"]
FIELDS = sorted({name for method, route in TRIED for name in fields_of(method, route)} | {"job_ids"})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    call=st.sampled_from(TRIED),
    body=st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), json_values, max_size=6)
    | json_values,
)
def test_whatever_the_body_holds_nothing_fails(call: tuple[str, str], body: Any, world: World) -> None:
    method, route = call
    if isinstance(body, dict) and isinstance(body_of(route), dict):
        body = {**body_of(route), **body}
    # json.dumps writes lone surrogates as escapes, as a hostile client would.
    answer = world.call("root", method, address(route), json.dumps(body).encode())

    assert answer.status_code < 500, f"{method} {route} {body!r}: {answer.content[:300]!r}"
    if answer.status_code >= 400:
        assert answer["Content-Type"].startswith("text/plain")
