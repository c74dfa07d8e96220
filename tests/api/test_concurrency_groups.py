"""Concurrency limits over REST: a script's settings become a job's limit; who sees what of the keys in use."""

from typing import Any

import pytest
from django.db import connection

from jobs import queue, sql
from jobs.models import Job
from tests.api.conftest import World

CODE = "def main(x: int = 0):\n    return x\n"
KEY = "acme/script/u/alice/one_at_a_time"


@pytest.fixture
def limited(world: World) -> str:
    """A script with a limit."""
    script = {
        "path": "u/alice/one_at_a_time",
        "content": CODE,
        "language": "python3",
        "concurrent_limit": 1,
        "concurrency_time_window_s": 30,
        "cache_ttl": 60,
        "delete_after_secs": 5,
    }
    assert world.post("alice", "w/acme/scripts/create", script).status_code == 201
    return "u/alice/one_at_a_time"


def run(world: World, path: str) -> str:
    answer = world.post("alice", f"w/acme/jobs/run/p/{path}", {"x": 1})
    assert answer.status_code == 201, answer.content
    return str(answer.content.decode())


def begin_one() -> None:
    """Claim a job and take its place."""
    (claim,) = queue.claim_jobs(worker="w", tags=["python3"])
    with connection.cursor() as cursor:
        cursor.execute(sql.load("take_place"), {"id": claim.id, "attempt": claim.attempt})


def test_what_a_script_says_of_its_runs_is_what_they_ask_for(world: World, limited: str) -> None:
    job = Job.objects.get(pk=run(world, limited))

    asked = (job.concurrency_key, job.concurrent_limit, job.concurrency_time_window_s)
    assert asked == (KEY, 1, 30)
    assert (job.cache_ttl, job.delete_after_secs) == (60, 5)


def test_limits_and_priority_come_back_as_they_were_sent(world: World) -> None:
    """What the command line writes into a metadata file and sends again: nothing changes on the way."""
    limit = {
        "concurrent_limit": 3,
        "concurrency_time_window_s": 60,
        "concurrency_key": "k-$workspace-$args[a.b]",
    }
    script = {"path": "u/alice/lim", "content": CODE, "language": "python3", "priority": 7, **limit}
    step = {
        "id": "a",
        "value": {
            "type": "rawscript",
            "language": "python3",
            "content": CODE,
            "input_transforms": {},
            "concurrent_limit": 1,
            "concurrency_time_window_s": 5,
            "custom_concurrency_key": "gate",
        },
    }
    flow = {"path": "u/alice/flow", "summary": "", "value": {"modules": [step], "priority": 9, **limit}}
    assert world.post("alice", "w/acme/scripts/create", script).status_code == 201
    assert world.post("alice", "w/acme/flows/create", flow).status_code == 201

    shown = world.get("alice", "w/acme/scripts/get/p/u/alice/lim").json()
    value = world.get("alice", "w/acme/flows/get/u/alice/flow").json()["value"]

    assert {name: shown[name] for name in ("priority", *limit)} == {"priority": 7, **limit}
    assert {name: value[name] for name in ("priority", *limit)} == {"priority": 9, **limit}
    asked = value["modules"][0]["value"]
    assert {name: asked.get(name) for name in step["value"] if "concurr" in name} == {
        "concurrent_limit": 1,
        "concurrency_time_window_s": 5,
        "custom_concurrency_key": "gate",
    }


def test_the_operator_sees_all_keys_and_may_prune_those_at_rest(world: World, limited: str) -> None:
    run(world, limited)
    assert world.get("root", "concurrency_groups/list").json() == [
        {"concurrency_key": KEY, "total_running": 0}
    ]
    begin_one()
    assert world.get("root", "concurrency_groups/list").json()[0]["total_running"] == 1

    busy = world.call("root", "DELETE", f"concurrency_groups/prune/{KEY}", None)
    unknown = world.call("root", "DELETE", "concurrency_groups/prune/no/such/key", None)

    assert (busy.status_code, unknown.status_code) == (400, 404)
    assert world.get("alice", "concurrency_groups/list").status_code == 403
    assert world.call("alice", "DELETE", f"concurrency_groups/prune/{KEY}", None).status_code == 403


def test_a_job_tells_its_key_to_those_who_may_see_it(world: World, limited: str) -> None:
    job = run(world, limited)
    world.post(
        "alice", "w/acme/scripts/create", {"path": "u/alice/free", "content": CODE, "language": "python3"}
    )
    free = run(world, "u/alice/free")

    assert world.get("alice", f"concurrency_groups/{job}/key").json() == {"concurrency_key": KEY}
    assert world.get("alice", f"concurrency_groups/{free}/key").json() == {"concurrency_key": None}
    assert world.get("dave", f"concurrency_groups/{job}/key").status_code == 404


def test_the_jobs_of_a_key_are_listed_for_those_who_may_see_them(world: World, limited: str) -> None:
    job = run(world, limited)
    address = f"w/acme/concurrency_groups/list_jobs?concurrency_key={KEY}"

    def listed(who: str, query: str = "") -> list[Any]:
        answer = world.get(who, address + query).json()
        assert (answer["obscured_jobs"], answer["omitted_obscured_jobs"]) == ([], True)
        return [one["id"] for one in answer["jobs"]]

    assert listed("alice") == [job]
    assert listed("alice", "&running=true") == []
    assert listed("dave") == []
    assert (
        world.get("alice", "w/acme/concurrency_groups/list_jobs?concurrency_key=other").json()["jobs"] == []
    )
