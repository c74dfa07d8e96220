"""Secrets that a job reads while it runs stay out of its log, however its output is cut."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs import queue
from jobs.models import CompletedJob
from tests.workers.conftest import RunningWorker, ScriptedRunner
from workers.arguments import caller_of
from workers.masking import MASK
from workers.runner import RunOutcome, RunRequest
from workers.threads import in_thread
from workspaces import secrets, variables
from workspaces.models import Account, Member, Variable, Workspace

pytestmark = pytest.mark.django_db(transaction=True)
Start = Callable[..., RunningWorker]
Make = Callable[..., UUID]

SECRET = "correct horse battery staple"
OTHER = "another secret"


def read(claim: queue.Claim, path: str) -> str:
    return variables.get_value(caller_of(claim), path)


class ReadingRunner(ScriptedRunner):
    """One word a line: `read <path>` does what the server does for a client in the job, `write <text>` writes it without
    an end of line, `value <path> <from> <to>` a part of what was read, `stored` waits until all of it is in the database,
    `spoil <path>` makes a secret one that nobody can decrypt, `forever <path>` reads and prints it until `let_go`.
    """

    async def run(self, request: RunRequest) -> RunOutcome:
        found: dict[str, str] = {}
        for line in (request.claim.code or "").splitlines():
            word, _, rest = line.partition(" ")
            if word == "read":
                found[rest] = await in_thread(read, request.claim, rest)
            elif word == "spoil":
                rows = Variable.objects.filter(path=rest)
                await in_thread(rows.update, value="encrypted with a key that nobody has")
            elif word == "forever":
                while not self.gate.is_set():
                    request.log.write(await in_thread(read, request.claim, rest) + "\n")
            elif word == "write":
                request.log.write(rest)
            elif word == "value":
                path, first, last = rest.split(" ")
                request.log.write(found[path][int(first) : int(last)])
            elif word == "stored":
                while request.log.is_pending:
                    await asyncio.sleep(0.005)
        return RunOutcome(True, "null")


@pytest.fixture(autouse=True)
def _secrets_of_alice() -> None:
    row = Workspace.objects.create(id="test", name="Test", owner="alice@example.com")
    Account.objects.create(email="alice@example.com")
    Member.objects.create(workspace=row, username="alice", email="alice@example.com")
    for path, value in (("u/alice/key", SECRET), ("u/alice/other", OTHER)):
        encrypted = secrets.encrypt("test", value)
        Variable.objects.create(workspace=row, path=path, value=encrypted, is_secret=True)
    Variable.objects.create(workspace=row, path="u/alice/plain", value="nothing to hide", is_secret=False)


@pytest.fixture
def log_of(start_worker: Start, make_job: Make, wait_until: Any) -> Callable[[str], str]:
    """The log of a job that does what is written down."""
    start_worker(runner=ReadingRunner())

    def run(code: str, **given: Any) -> str:
        job = make_job(raw_code=code, **given)
        wait_until(lambda: CompletedJob.objects.filter(pk=job).exists())
        return queue.read_logs(job)[0]

    return run


def test_a_secret_that_a_job_reads_is_masked_in_its_log(log_of: Callable[..., str]) -> None:
    code = f"""
read u/alice/key
write the key is
value u/alice/key 0 {len(SECRET)}
write , no more"""

    assert log_of(code) == "the key is*****, no more"


def test_a_secret_is_masked_when_its_output_is_stored_in_two_pieces(log_of: Callable[..., str]) -> None:
    code = f"""
write before
stored
read u/alice/key
value u/alice/key 0 7
stored
value u/alice/key 7 {len(SECRET)}
write after"""

    assert log_of(code) == "before*****after"


def test_each_secret_is_masked_from_when_it_is_read(log_of: Callable[..., str]) -> None:
    code = f"""
write {OTHER} by chance;
stored
read u/alice/key
value u/alice/key 0 {len(SECRET)}
stored
read u/alice/other
value u/alice/other 0 {len(OTHER)}
value u/alice/key 0 {len(SECRET)}"""

    assert log_of(code) == f"{OTHER} by chance;{3 * MASK}"


def test_secrets_in_arguments_stay_masked_when_more_are_read(log_of: Callable[..., str]) -> None:
    code = f"""
write {SECRET};
stored
read u/alice/other
value u/alice/other 0 {len(OTHER)}
write ;{SECRET}"""

    assert log_of(code, args={"key": "$var:u/alice/key"}) == "*****;*****;*****"


def test_a_job_that_reads_all_the_time_has_a_log_while_it_runs(
    start_worker: Start, make_job: Make, wait_until: Any
) -> None:
    worker = start_worker(runner=ReadingRunner())
    job = make_job(raw_code="forever u/alice/key")

    wait_until(lambda: queue.read_logs(job)[0].count("\n") > 20)
    worker.runner.let_go()
    wait_until(lambda: CompletedJob.objects.filter(pk=job).exists())

    assert set(queue.read_logs(job)[0].splitlines()) == {MASK}


def test_what_is_no_secret_is_not_masked(log_of: Callable[..., str]) -> None:
    assert log_of("read u/alice/plain\nwrite nothing to hide") == "nothing to hide"


def test_a_log_that_is_cut_off_keeps_its_end(log_of: Callable[..., str]) -> None:
    code = f"read u/alice/key\nwrite {'x' * 1_048_576}c\nwrite more"

    text = log_of(code)

    assert text.endswith("x\n[the log is cut here: it exceeds MAX_LOG_SIZE_MB (1)]\n")


def test_a_secret_whose_key_is_gone_does_not_stop_the_log(log_of: Callable[..., str]) -> None:
    code = "read u/alice/key\nspoil u/alice/key\nwrite the log goes on"

    assert log_of(code) == "the log goes on"


def test_reads_of_secrets_are_found_by_an_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT count(*) FROM audit WHERE span = 'x' AND operation = 'variables.decrypt_secret'"
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "audit_secret_reads_idx" in plan
