"""Turns: while jobs pile up, every workspace has its share of a worker, at a cost that other rows do not add to."""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs import queue, sql
from jobs.models import QueuedJob
from jobs.turns import LOOK_EVERY_S, Turns
from tests.jobs.test_queue_claims import walk
from workers.pg_lane import _ONLY_INDEX_PROBES
from workspaces.models import InstanceSetting

Make = Callable[..., UUID]
LATER = 3600  # seconds


class Claimer:
    """A worker that claims and remembers, and never rests between looks at the workspaces."""

    def __init__(self, *, tags: Sequence[str] = ("python3",), **given: Any) -> None:
        self.tags = tags
        self.given = given
        self.turns = Turns(clock=itertools.count().__next__)

    def claim(self, limit: int = 1) -> list[queue.Claim]:
        return queue.claim_jobs(worker="w", tags=self.tags, limit=limit, turns=self.turns, **self.given)

    def served(self, claims: int, *, limit: int = 1) -> list[str]:
        """The workspaces of the jobs that so many claims took, in order."""
        return [claimed.workspace_id for _ in range(claims) for claimed in self.claim(limit)]


def fill(workspaces: Sequence[str], jobs: int, *, tag: str = "python3", later: bool = False) -> None:
    """Queue `jobs` jobs of each workspace, those of the first workspace first."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH asked AS (
                INSERT INTO job (id, workspace_id, kind, raw_code, script_lang, args, tag, created_by, permissioned_as,
                                 permissioned_as_email)
                SELECT gen_random_uuid(), workspace.id, 'preview', '', 'python3', '{}', %(tag)s, 'a', 'u/a', 'a@x.com'
                  FROM unnest(%(workspaces)s::text[]) AS workspace (id), generate_series(1, %(jobs)s)
                RETURNING id, workspace_id, tag)
            INSERT INTO queue (id, workspace_id, tag, scheduled_for)
            SELECT id, workspace_id, tag, statement_timestamp() + CASE WHEN %(later)s THEN interval '1 day'
                   ELSE interval '-1 hour' + array_position(%(workspaces)s::text[], workspace_id) * interval '1 s' END
              FROM asked
            """,
            {"workspaces": list(workspaces), "jobs": jobs, "tag": tag, "later": later},
        )


@pytest.mark.django_db
def test_one_job_of_a_workspace_does_not_wait_for_the_hundreds_that_another_queued_before(
    make_job: Make,
) -> None:
    fill(["noisy"], 300)
    quiet = make_job(workspace_id="quiet")
    worker = Claimer()

    claimed = [worker.claim()[0] for _ in range(3)]

    assert quiet in [claim.id for claim in claimed]
    assert [claim.workspace_id for claim in claimed].count("noisy") == 2


@pytest.mark.django_db
def test_workspaces_take_turns_whatever_they_are_called_and_however_much_they_queued() -> None:
    names = ["noisy", "B", "a-1", "a_1", "ä", "Zz"]
    for number, name in enumerate(names):
        fill([name], 200 if name == "noisy" else 40 + number)
    worker = Claimer()
    worker.claim()  # it learns that there is more than it has room for

    served = Counter(worker.served(20 * len(names)))

    assert served == dict.fromkeys(names, 20)


@pytest.mark.django_db
def test_who_comes_while_many_take_turns_waits_one_turn_of_each_at_most(make_job: Make) -> None:
    busy = [f"busy{number}" for number in range(9)]
    fill(busy, 30)
    worker = Claimer()
    worker.claim()
    for name in ("aaa", "busy4b", "zzz"):
        worker.served(3)
        make_job(workspace_id=name)

        assert name in worker.served(len(busy) + 1), name


@pytest.mark.django_db
def test_free_slots_are_shared_within_one_claim_too() -> None:
    fill(["noisy", "quiet"], 60)
    worker = Claimer()
    worker.claim(8)

    assert Counter(worker.served(1, limit=8)) == {"noisy": 4, "quiet": 4}
    assert Counter(worker.served(1, limit=5)).keys() == {"noisy", "quiet"}


@pytest.mark.django_db
def test_priority_and_rank_come_before_turns_and_a_workspace_keeps_its_own_order(make_job: Make) -> None:
    first, second = (make_job(workspace_id="b") for _ in range(2))
    low = make_job(workspace_id="a")
    urgent = [make_job(workspace_id="b", priority=7) for _ in range(2)]
    ranked = [make_job(workspace_id="b", tag="gpu") for _ in range(2)]
    worker = Claimer(tags=("python3", "gpu"), ranks={"gpu": 1})

    claimed = [worker.claim()[0].id for _ in range(7)]

    assert claimed == [*ranked, *urgent, low, first, second]


@pytest.mark.django_db
def test_jobs_of_other_tags_share_the_turns_of_their_workspace() -> None:
    for tag in ("python3", "bash", "go"):
        fill(["noisy"], 50, tag=tag)
    fill(["quiet"], 50, tag="go")
    worker = Claimer(tags=("python3", "bash", "go"))
    worker.claim()

    assert Counter(worker.served(20)) == {"noisy": 10, "quiet": 10}


@pytest.mark.django_db
@pytest.mark.parametrize("off", ["the worker's", "the instance's"])
def test_without_turns_who_came_first_is_served_first(off: str) -> None:
    fill(["noisy", "quiet"], 30)
    worker = Claimer()
    if off == "the worker's":
        worker.turns = Turns(is_on=False)
    else:
        InstanceSetting.objects.create(pk="queue_fairness", value=False)

    assert worker.served(40) == ["noisy"] * 30 + ["quiet"] * 10


@pytest.mark.django_db
def test_what_waits_behind_thousands_of_workspaces_with_nothing_due_has_its_turn(make_job: Make) -> None:
    fill(["noisy"], 200)
    fill([f"sleepy{number:04}" for number in range(500)], 1, later=True)
    quiet = make_job(workspace_id="zz")
    worker = Claimer()

    claimed: list[UUID] = []
    while quiet not in claimed:
        claimed += [claim.id for claim in worker.claim()]

    assert len(claimed) <= 3 + 500 / 64 + 1
    assert QueuedJob.objects.filter(running=False, workspace_id__startswith="sleepy").count() == 500


@pytest.mark.django_db
def test_a_claim_in_turn_takes_all_that_is_due_and_nothing_else(make_job: Make) -> None:
    due = {make_job(workspace_id=name) for name in "abcabcaab"}
    make_job(workspace_id="a", scheduled_in_s=LATER)
    make_job(workspace_id="d", tag="gpu")
    worker = Claimer()

    claimed = [worker.claim()[0].id for _ in due]

    assert set(claimed) == due
    assert worker.claim() == []


@pytest.mark.django_db(transaction=True)
def test_workers_that_claim_in_turn_at_once_never_get_the_same_job() -> None:
    fill(["a", "b", "c"], 100)
    got: list[list[UUID]] = [[], [], [], []]
    start = threading.Barrier(len(got))

    def work(mine: list[UUID]) -> None:
        try:
            worker = Claimer()
            start.wait()
            while claims := worker.claim(2):
                mine += [claimed.id for claimed in claims]
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(mine,)) for mine in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(map(len, got)) == 300
    assert len(set().union(*got)) == 300


def test_a_worker_looks_at_workspaces_only_while_it_finds_as_many_jobs_as_it_has_room_for() -> None:
    now = [0.0]
    turns = Turns(clock=lambda: now[0])
    assert turns.next_turn() is None

    turns.took(["a", "b"], limit=3)
    assert turns.next_turn() is None
    turns.took(["a", "b", "c"], limit=3)
    assert turns.next_turn() == "c"
    turns.took_in_turn([], limit=3)
    assert turns.next_turn() is None


def test_a_worker_that_finds_one_workspace_alone_looks_for_others_now_and_then() -> None:
    now = [0.0]
    turns = Turns(clock=lambda: now[0])
    turns.took(["a"], limit=1)

    turns.took_in_turn([("...", "a", True)], limit=1)
    assert turns.next_turn() == "a"
    turns.took_in_turn([("...", "a", False)], limit=1)
    assert turns.next_turn() is None
    now[0] += LOOK_EVERY_S
    assert turns.next_turn() == "a"


@pytest.mark.django_db
def test_a_claim_in_turn_answers_the_columns_of_a_claim_and_two_more() -> None:
    parameters = queue.claim_parameters(worker="w", tags=["python3"], limit=1)
    with connection.cursor() as cursor:
        cursor.execute(sql.load("claim"), parameters)
        names = [column.name for column in cursor.description]
        cursor.execute(sql.load("claim_in_turn"), parameters | {"turn": ""})
        assert [column.name for column in cursor.description] == [*names, "turn", "has_others"]
    assert names == list(queue.Claim.__dataclass_fields__)


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["claim", "claim_in_turn"])
def test_a_plan_from_when_the_queue_was_empty_reads_little_of_a_long_one(name: str) -> None:
    arguments = "'w', ARRAY['python3', 'bash'], ARRAY[]::int[], 1" + (", 'noisy'" if "turn" in name else "")
    numbered = sql.load(name)
    for number, parameter in enumerate(("worker", "tags", "ranks", "limit", "turn"), 1):
        numbered = numbered.replace(f"%({parameter})s", f"${number}")
    types = "text, text[], int[], int" + (", text" if "turn" in name else "")
    with connection.cursor() as cursor:
        cursor.execute(_ONLY_INDEX_PROBES)
        cursor.execute("DEALLOCATE ALL")
        cursor.execute("TRUNCATE queue, job")  # and the dead rows of other tests with them
        cursor.execute("ANALYZE queue")
        cursor.execute(f"PREPARE held ({types}) AS {numbered}")
        cursor.execute(f"EXPLAIN EXECUTE held ({arguments})")
        fill(["noisy"], 10_000)
        fill(["patient"], 5_000, later=True)
        fill([f"sleepy{number}" for number in range(1_000)], 2, later=True)
        fill(["busy"], 2_000, tag="bash")

        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE held ({arguments})")
        (explained,) = cursor.fetchone()
    root = (explained if isinstance(explained, list) else json.loads(explained))[0]["Plan"]

    assert not [node for node in walk(root) if node["Node Type"] == "Seq Scan"]
    assert root["Shared Hit Blocks"] + root["Shared Read Blocks"] < 500
    assert QueuedJob.objects.filter(running=True).count() == 1
