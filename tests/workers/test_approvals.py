"""Flows that wait for approvals, on a real worker: what an answer does to them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jobs.flow_runs import FlowPreview, run_flow_preview
from jobs.flows import approvals, suspensions
from jobs.flows.approvals import Link
from jobs.flows.public import flow_status
from jobs.flows.suspensions import Suspension
from jobs.models import CompletedJob, Job, QueuedJob
from jobs.runs import RunOptions
from tests import tenancy
from workspaces import groups
from workspaces.access import Caller
from workspaces.errors import DomainError, NotSignedIn, PermissionDenied
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db(transaction=True)

STEP = {"type": "rawscript", "language": "bash", "content": "echo asked", "input_transforms": {}}


def expression(expr: str) -> dict[str, str]:
    return {"type": "javascript", "expr": expr}


def answered(**names: str) -> dict[str, Any]:
    """A step that returns what these expressions give."""
    transforms = {name: expression(expr) for name, expr in names.items()}
    content = f"def main({', '.join(names)}):\n    return {{{', '.join(f'{n!r}: {n}' for n in names)}}}"
    return {"type": "rawscript", "language": "python3", "content": content, "input_transforms": transforms}


def flow(suspend: dict[str, Any], after: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Step a, its approval, step b."""
    after = after or answered(resume="resume", resumes="resumes", approvers="approvers")
    return {"modules": [{"id": "a", "value": STEP, "suspend": suspend}, {"id": "b", "value": after}], **more}


@pytest.fixture
def acme() -> Workspace:
    workspace = tenancy.make_workspace("acme", admin="ann@example.com")
    tenancy.join(workspace, "bob@example.com")
    tenancy.join(workspace, "cleo@example.com", operator=True)
    return workspace


@pytest.fixture
def who(acme: Workspace) -> Callable[[str], Caller]:
    return lambda name: tenancy.enter(acme, f"{name}@example.com")


@pytest.fixture
def run(who: Callable[[str], Caller]) -> Callable[..., UUID]:
    def run(value: dict[str, Any], by: str = "ann", **args: Any) -> UUID:
        return run_flow_preview(who(by), FlowPreview(value=value, args=args), RunOptions())

    return run


@pytest.fixture
def start_worker(database_url: str, tmp_path: Path) -> Iterator[Callable[[], None]]:
    started: list[subprocess.Popen[bytes]] = []
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": database_url,
        "SECRET_KEY": "approvals-test",
        "WORKER_DIR": str(tmp_path / "jobs"),
        "DATA_DIR": str(tmp_path / "data"),
    }

    def start() -> None:
        with (tmp_path / "worker.log").open("wb") as log:
            command = [sys.executable, "manage.py", "runworker", "--slots", "3"]
            started.append(subprocess.Popen(command, env=environment, stderr=log))

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def worker(start_worker: Callable[[], None]) -> None:
    start_worker()


@pytest.fixture
def suspended(wait_until: Any) -> Callable[..., list[Suspension]]:
    """Waits until a run waits for so many approvals at once, and answers them."""

    def suspended(job: UUID, count: int = 1, *, step: str = "a") -> list[Suspension]:
        def look() -> list[Suspension] | None:
            waiting = suspensions.waiting_in(Job.objects.get(pk=job))
            found = [one for one in waiting if one.step_id == step]
            return found if len(found) == count else None

        return list(wait_until(look, timeout_s=60))

    return suspended


@pytest.fixture
def ended(wait_until: Any) -> Callable[[UUID], CompletedJob]:
    def ended(job: UUID) -> CompletedJob:
        found: CompletedJob = wait_until(lambda: CompletedJob.objects.filter(pk=job).first(), timeout_s=60)
        return found

    return ended


def answer(
    job: UUID,
    number: int,
    *,
    approver: str | None = None,
    caller: Caller | None = None,
    approved: bool = True,
    value: Any = None,
) -> None:
    link = Link(workspace_id="acme", job_id=job, resume_id=number, approver=approver)
    approvals.answer_link(link, caller=caller, approved=approved, value=value)


def step_of(flow_id: UUID, step_id: str = "a") -> UUID:
    return Job.objects.values_list("pk", flat=True).get(parent_job=flow_id, flow_step_id=step_id)


def test_the_next_step_sees_every_approval(
    worker: None, run: Callable[..., UUID], suspended: Any, ended: Any
) -> None:
    job = run(flow({"required_events": 2}))
    (found,) = suspended(job)
    assert (found.missing, found.required, found.step_id, found.step_job) == (2, 2, "a", step_of(job))

    answer(found.step_job, 1, approver="zoe", value={"amount": 3})
    waiting = flow_status(job)["modules"][1]
    answer(found.step_job, 2, value="fine")

    assert (waiting["type"], waiting["count"], waiting["job"]) == ("WaitingForEvents", 2, str(step_of(job)))
    done = ended(job)
    assert (done.status, done.result) == (
        "success",
        {"resume": "fine", "resumes": [{"amount": 3}, "fine"], "approvers": ["zoe", "anonymous"]},
    )
    assert flow_status(job)["modules"][0]["approvers"] == [
        {"resume_id": 1, "approver": "zoe"},
        {"resume_id": 2, "approver": "unknown"},
    ]


def test_a_denial_ends_the_flow_and_says_who_denied_and_why(
    worker: None, run: Callable[..., UUID], suspended: Any, ended: Any
) -> None:
    job = run(flow({"required_events": 3}))
    suspended(job)

    answer(step_of(job), 1, approver="zoe", approved=False, value={"reason": "no"})

    done = ended(job)
    assert done.status == "failure"
    assert done.result["error"]["name"] == "SuspendedDisapproved"
    assert done.result["error"]["message"] == "Disapproved by zoe: no"


def test_a_denial_may_be_part_of_the_flow(
    worker: None, run: Callable[..., UUID], suspended: Any, ended: Any
) -> None:
    job = run(flow({"continue_on_disapprove_timeout": True}))
    suspended(job)

    answer(step_of(job), 1, approver="zoe", approved=False)

    done = ended(job)
    assert done.status == "success"
    assert done.result["resume"]["error"]["name"] == "SuspendedDisapproved"


def test_nobody_waits_for_approvals_that_came_early(
    start_worker: Callable[[], None], run: Callable[..., UUID], ended: Any
) -> None:
    job = run(flow({"required_events": 1, "timeout": 1}))

    answer(job, 1, approver="zoe", value="early")
    start_worker()

    assert ended(job).result == {"resume": "early", "resumes": ["early"], "approvers": ["zoe"]}


def test_approvals_while_the_step_still_runs_count(
    worker: None, run: Callable[..., UUID], ended: Any, wait_until: Any, tmp_path: Path
) -> None:
    slow = {**STEP, "content": "for i in $(seq 100); do sleep 0.02; done"}
    job = run(
        {"modules": [{"id": "a", "value": slow, "suspend": {}}, {"id": "b", "value": answered(r="resume")}]}
    )
    wait_until(lambda: Job.objects.filter(parent_job=job).exists())

    answer(step_of(job), 1, value="early")

    assert ended(job).result == {"r": "early"}


def test_a_flow_that_is_answered_for_the_first_of_two_approvals_waits_for_the_second(
    worker: None, run: Callable[..., UUID], suspended: Any, ended: Any
) -> None:
    modules = [
        {"id": "a", "value": STEP, "suspend": {}},
        {"id": "b", "value": STEP, "suspend": {}},
        {"id": "c", "value": answered(r="resume")},
    ]
    job = run({"modules": modules})
    suspended(job)

    answer(job, 1, value="first")  # flow-level, and used up
    suspended(job, step="b")
    with pytest.raises(approvals.NothingWaits, match="gone on already"):
        answer(step_of(job, "a"), 2)
    answer(step_of(job, "b"), 3, value="second")

    assert ended(job).result == {"r": "second"}


def test_iterations_wait_each_for_their_own_approval(
    worker: None, run: Callable[..., UUID], suspended: Any, ended: Any, who: Callable[[str], Caller]
) -> None:
    loop = {
        "type": "forloopflow",
        "iterator": expression("[1, 2, 3]"),
        "parallel": True,
        "skip_failures": True,
        "modules": flow({}, answered(n="flow_input.iter.value", r="resume"))["modules"],
    }
    job = run({"modules": [{"id": "l", "value": loop}]})
    found = suspended(job, 3)

    by_number = sorted(found, key=lambda one: Job.objects.get(pk=one.flow.id).flow_n or 0)
    for number, one in enumerate(by_number):
        approvals.answer_as_member(who("ann"), one.step_job, approved=number != 1, value=f"for {number}")

    first, second, third = ended(job).result
    assert (first, third) == ({"n": 1, "r": "for 0"}, {"n": 3, "r": "for 2"})
    assert second["error"]["name"] == "SuspendedDisapproved"


def test_who_may_approve_is_what_the_step_says(
    worker: None, run: Callable[..., UUID], suspended: Any, ended: Any, who: Callable[[str], Caller]
) -> None:
    groups.create_group(who("ann"), name="finance")
    for name in ("bob", "cleo"):
        groups.add_to_group(who("ann"), "finance", username=name)
    suspend = {
        "user_auth_required": True,
        "self_approval_disabled": True,
        "user_groups_required": expression("[flow_input.team]"),
    }
    job = run(flow(suspend), by="bob", team="finance")
    (found,) = suspended(job)
    assert found.conditions.user_groups_required == ("finance",)

    refusals: list[tuple[Caller | None, type[DomainError]]] = [
        (None, NotSignedIn),
        (who("bob"), PermissionDenied),
    ]
    for caller, refusal in refusals:
        with pytest.raises(refusal):
            answer(found.step_job, 1, caller=caller)
    answer(found.step_job, 1, caller=who("cleo"), approver="somebody else")

    assert ended(job).result["approvers"] == ["cleo"]


def test_an_answer_after_the_deadline_does_not_count(
    worker: None, run: Callable[..., UUID], suspended: Any, ended: Any
) -> None:
    job = run(flow({"timeout": 1}))
    suspended(job)

    assert ended(job).result["error"]["name"] == "SuspendedTimedOut"
    with pytest.raises(approvals.NothingWaits, match="has ended"):
        answer(step_of(job), 1)
    assert not QueuedJob.objects.filter(pk=job).exists()
