"""Why a job waits: the most decisive reason, as a sentence."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs import queue, waiting
from jobs.models import WorkerPing
from jobs.waiting import Facts, explain

NOW = datetime(2030, 1, 1, tzinfo=UTC)
READY = Facts(
    now=NOW,
    tag="python3",
    scheduled_for=NOW,
    running=False,
    worker=None,
    suspend=0,
    canceled_by=None,
    workers_for_tag=1,
    free_slots=1,
    draining_workers=0,
    silent_workers=0,
    ahead=0,
    running_with_tag=0,
)


@pytest.mark.parametrize(
    ("changes", "reason", "says"),
    [
        ({}, "soon", "about to take it"),
        ({"running": True, "worker": "w1"}, "running", "w1"),
        ({"suspend": 1}, "suspended", "approval"),
        (
            {
                "scheduled_for": NOW + timedelta(minutes=1),
                "held_back_by": "acme/script/f/x",
                "running_with_key": 2,
                "ahead_with_key": 1,
            },
            "limited",
            "(key acme/script/f/x); running with this key: 2 jobs; held back for longer: 1 job.",
        ),
        (
            {"scheduled_for": NOW + timedelta(hours=1), "workers_for_tag": 0},
            "scheduled",
            "2030-01-01 01:00:00 UTC",
        ),
        ({"workers_for_tag": 0}, "no_worker", "WORKER_TAGS"),
        ({"workers_for_tag": 0, "draining_workers": 2}, "no_worker", "shutting down"),
        ({"workers_for_tag": 0, "draining_workers": 1}, "no_worker", "1 that did is shutting down"),
        ({"workers_for_tag": 0, "silent_workers": 1}, "no_worker", "stopped reporting"),
        (
            {"workers_for_tag": 0, "starting_workers": 1, "silent_workers": 1},
            "no_worker",
            "1 that will is starting",
        ),
        ({"workers_for_tag": 0, "failed_workers": 1}, "no_worker", "init script of 1 that should failed"),
        (
            {
                "workers_for_tag": 0,
                "tag": "php",
                "language": "php",
                "missing_tool": "PHP",
                "install": "apt install php-cli",
            },
            "no_worker",
            "PHP, which php needs, is not installed where the workers run; install it there (apt install php-cli)",
        ),
        ({"free_slots": 0, "ahead": 3, "ahead_of_workspace": 3}, "busy", "3 jobs with this tag come first"),
        ({"free_slots": 0, "ahead": 3}, "busy", "are before it in the queue, 0 of them of this workspace"),
        ({"ahead": 1, "ahead_of_workspace": 1}, "behind", "1 job with tag python3 come"),
        ({"ahead": 1000, "ahead_of_workspace": 1000}, "behind", "1000 or more jobs"),
        (
            {"ahead": 7, "ahead_of_workspace": 2},
            "behind",
            "7 jobs with tag python3 are before it in the queue, 2 of them of this workspace",
        ),
    ],
)
def test_the_reason_is_said_in_a_sentence(changes, reason, says):
    answer = explain(replace(READY, **changes))

    assert answer.reason == reason and says in answer.sentence


def test_the_facts_come_from_the_queue_and_the_workers(make_job):
    first, urgent, asked = make_job(), make_job(priority=5), make_job()
    make_job(tag="other")
    WorkerPing.objects.create(
        worker="w1", worker_instance="h", custom_tags=["python3"], slots=2, busy_slots=1
    )

    facts = waiting.look([asked, first, urgent])

    assert [facts[id].ahead for id in (urgent, first, asked)] == [0, 1, 2]
    assert (facts[asked].workers_for_tag, facts[asked].free_slots) == (1, 1)
    queue.claim_jobs(worker="w1", tags=["python3"])
    assert waiting.why_waiting(urgent, workspace_id="test").reason == "running"


def test_jobs_of_other_workspaces_are_told_from_ones_own(make_job):
    make_job(workspace_id="noisy")
    make_job(workspace_id="noisy")
    make_job()
    asked = make_job()

    facts = waiting.look([asked])[asked]

    assert (facts.ahead, facts.ahead_of_workspace) == (3, 1)


def test_workers_that_start_fail_and_leave_are_told_apart(make_job):
    asked = make_job()
    for state, count in (("starting", 1), ("failed", 2), ("draining", 3)):
        for number in range(count):
            WorkerPing.objects.create(
                worker=f"{state}{number}", worker_instance="h", custom_tags=["python3"], state=state
            )
    WorkerPing.objects.update_or_create(
        worker="silent",
        defaults={"worker_instance": "h", "custom_tags": ["python3"], "ping_at": NOW - timedelta(days=3650)},
    )

    facts = waiting.look([asked])[asked]

    assert (facts.workers_for_tag, facts.starting_workers, facts.failed_workers) == (0, 1, 2)
    assert (facts.draining_workers, facts.silent_workers) == (3, 1)


def test_a_language_that_no_worker_can_run_names_the_missing_tool_and_how_to_install_it(make_job):
    job = make_job(tag="php", language="php")
    WorkerPing.objects.create(
        worker="w1",
        worker_instance="h",
        custom_tags=["python3"],
        runtimes={
            "python3": {"version": "3.11"},
            "php": {"missing": "PHP", "install": "apt install php-cli"},
        },
    )

    answer = waiting.why_waiting(job, workspace_id="test")

    assert answer.reason == "no_worker"
    assert "PHP" in answer.sentence and "apt install php-cli" in answer.sentence
