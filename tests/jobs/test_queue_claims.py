"""Claims: each job goes to one worker, the urgent ones first, at a cost that other rows do not add to."""

import itertools
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs import queue, sql
from jobs.errors import JobIdTaken, LeaseLost
from jobs.models import CompletedJob, Job, QueuedJob
from workers.pg_lane import _ONLY_INDEX_PROBES
from workspaces.models import AuditEntry

Make = Callable[..., UUID]


def claim(worker: str = "w", *, tags: list[str] | None = None, limit: int = 1) -> list[queue.Claim]:
    return queue.claim_jobs(worker=worker, tags=tags or ["python3"], limit=limit)


@pytest.mark.django_db
def test_urgent_jobs_come_first_then_those_that_wait_longest(make_job: Make) -> None:
    first, second = make_job(), make_job()
    urgent = make_job(priority=50)

    assert [claimed.id for claimed in claim(limit=10)] == [urgent, first, second]


@pytest.mark.django_db
def test_other_tags_and_later_jobs_are_left_alone(make_job: Make) -> None:
    make_job(tag="gpu")
    make_job(scheduled_in_s=3600)

    assert claim(limit=10) == []


@pytest.mark.django_db
def test_an_id_names_one_job_even_after_that_is_over(make_job: Make) -> None:
    taken = make_job()
    (held,) = claim()

    with pytest.raises(JobIdTaken):
        make_job(job_id=taken)
    queue.complete_job((held.id, held.attempt), result=1)
    Job.objects.filter(pk=taken).delete()
    with pytest.raises(JobIdTaken):
        make_job(job_id=taken)

    assert not QueuedJob.objects.exists() and not Job.objects.exists()


def test_a_push_is_parsed_once_a_connection(make_job: Make) -> None:
    make_job()
    before = _prepared_pushes()

    make_job()

    assert before  # one for each kind of arguments
    assert _prepared_pushes() == before


def _prepared_pushes() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%INSERT INTO job %'")
        return sorted(name for (name,) in cursor.fetchall())


def test_a_push_is_one_round_trip_and_a_hint(make_job: Make, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):  # the hint waits for the commit of this test, which never comes
        make_job()


def test_a_job_and_its_entry_in_the_audit_log_are_written_together_or_not_at_all(make_job: Make) -> None:
    entry = {
        "workspace_id": "test",
        "username": "alice",
        "email": "alice@example.com",
        "operation": "jobs.run.preview",
        "action_kind": "execute",
        "parameters": {"permissioned_as": "u/alice"},
    }
    job = make_job(audit=entry)

    with pytest.raises(JobIdTaken):
        make_job(job_id=job, audit=entry)

    (recorded,) = AuditEntry.objects.values(*entry, "resource", "span")
    assert recorded == {**entry, "resource": None, "span": None}
    assert AuditEntry.objects.get().timestamp is not None


def test_a_claim_gives_what_running_needs(make_job: Make) -> None:
    job = make_job(args={"n": [1, {"a": None}]}, raw_code="code", timeout_s=7)

    (claimed,) = claim()

    assert (claimed.id, claimed.attempt, claimed.code, claimed.timeout) == (job, 1, "code", 7)
    assert claimed.args == {"n": [1, {"a": None}]}
    assert QueuedJob.objects.get(pk=job).worker == "w"


@pytest.mark.django_db(transaction=True)
def test_workers_that_claim_at_once_never_get_the_same_job(make_job: Make) -> None:
    ids = {make_job() for _ in range(300)}
    got: list[list[UUID]] = [[], [], [], []]
    start = threading.Barrier(len(got))

    def work(mine: list[UUID], name: str) -> None:
        try:
            start.wait()
            while claims := claim(name, limit=3):
                mine += [claimed.id for claimed in claims]
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(mine, f"w{n}")) for n, mine in enumerate(got)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(map(len, got)) == len(ids)
    assert set().union(*got) == ids


@pytest.mark.django_db(transaction=True)
def test_a_claim_passes_over_rows_that_another_is_claiming(make_job: Make) -> None:
    first, second = make_job(), make_job()
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("SELECT id FROM queue WHERE id = %s FOR UPDATE", [first])
                locked.set()
                done.wait(30)
                cursor.execute("ROLLBACK")
        finally:
            connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait(30)
    try:
        assert [claimed.id for claimed in claim(limit=5)] == [second]
    finally:
        done.set()
        thread.join()
    assert [claimed.id for claimed in claim(limit=5)] == [first]


@pytest.mark.django_db
def test_the_writes_of_an_ended_claim_match_nothing(make_job: Make) -> None:
    job = make_job()
    (slow,) = claim("slow")
    queue.requeue_job(job_id=job, workspace_id="test")
    (fast,) = claim("fast")

    with pytest.raises(LeaseLost, match="result was dropped"):
        queue.complete_job((slow.id, slow.attempt), result=0)
    with pytest.raises(LeaseLost, match="output was dropped"):
        queue.append_log((slow.id, slow.attempt), "late")
    assert queue.heartbeat([(slow.id, slow.attempt)]) == {}
    queue.complete_job((fast.id, fast.attempt), result=42)
    assert CompletedJob.objects.get().result == 42
    assert queue.read_logs(job) == ("", 0)


def plan(statement: str) -> str:
    """The plan that a worker's prepared statement would keep for ever."""
    with connection.cursor() as cursor:
        cursor.execute(_ONLY_INDEX_PROBES)
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
        numbered = statement
        for number, name in enumerate(names, 1):
            numbered = numbered.replace(f"%({name})s", f"${number}")
        cursor.execute("DEALLOCATE ALL")
        cursor.execute("PREPARE statement AS " + numbered.replace("%%", "%"))
        cursor.execute(f"EXPLAIN EXECUTE statement({', '.join(['NULL'] * len(names))})")
        return "\n".join(row[0] for row in cursor.fetchall())


HOT_PATH = [
    "append_logs",
    "claim",
    "claim_dedicated",
    "claim_in_turn",
    "complete",
    "complete_and_claim",
    "find_completed",
    "heartbeat",
    "held_claims",
    "offer_place",
    "push",
    "release",
    "set_preprocessed",
    "wake_flow",
]


@pytest.mark.django_db
@pytest.mark.parametrize("name", HOT_PATH)
def test_the_hot_path_is_planned_as_index_probes_even_while_the_queue_is_known_to_be_empty(
    name: str,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE queue, job, completed_job, job_logs")
        cursor.execute("ANALYZE queue")

    lines = plan(sql.load(name)).splitlines()

    scans = [
        (line.strip(), below)
        for line, below in itertools.pairwise([*lines, ""])
        if re.search(r"Scan.* on (queue|job|completed_job|job_logs)\b", line)
    ]
    assert scans
    assert not [line for line, below in scans if "Seq Scan" in line or "Index Cond" not in below]
    assert "Hash Join" not in "\n".join(lines)


@pytest.mark.django_db
def test_a_claim_does_not_read_jobs_that_it_cannot_take(make_job: Make) -> None:
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE queue")  # and the dead rows of other tests with it
        cursor.execute(
            """
            INSERT INTO queue (id, workspace_id, tag, scheduled_for, priority, running, worker, started_at)
            SELECT gen_random_uuid(), 'test',
                   CASE n % 4 WHEN 0 THEN 'gpu' ELSE 'python3' END,
                   statement_timestamp() + CASE n % 4 WHEN 1 THEN interval '1 day' ELSE interval '-1 day' END,
                   CASE n % 4 WHEN 1 THEN 100 ELSE 0 END,
                   n % 4 > 1, CASE WHEN n % 4 > 1 THEN 'busy' END, CASE WHEN n % 4 > 1 THEN statement_timestamp() END
              FROM generate_series(1, 20000) AS n
            """
        )
        cursor.execute("ANALYZE queue")
    job = make_job()

    with connection.cursor() as cursor:
        cursor.execute(_ONLY_INDEX_PROBES)
        cursor.execute(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql.load("claim"),
            queue.claim_parameters(worker="w", tags=["python3", "bash"], limit=1),
        )
        (explained,) = cursor.fetchone()
    root = explained[0]["Plan"] if isinstance(explained, list) else json.loads(explained)[0]["Plan"]
    nodes = list(walk(root))

    assert any(node.get("Index Name") == "queue_runnable_idx" for node in nodes)
    assert not [node for node in nodes if node["Node Type"] == "Seq Scan"]
    assert root["Shared Hit Blocks"] + root["Shared Read Blocks"] < 100
    assert QueuedJob.objects.get(pk=job).worker == "w"


def walk(node: dict[str, Any]) -> Any:
    yield node
    for child in node.get("Plans", ()):
        yield from walk(child)


def test_every_statement_of_the_queue_says_which_clock_it_uses() -> None:
    for path in Path(sql.__file__).parent.glob("*.sql"):
        statement = re.sub(r"--.*", "", path.read_text())
        assert not re.search(r"\bnow\(\)|current_timestamp|clock_timestamp", statement, re.IGNORECASE), (
            path.name
        )
