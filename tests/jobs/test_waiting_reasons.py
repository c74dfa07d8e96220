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
        ({"workers_for_tag": 0, "silent_workers": 1}, "no_worker", "stopped reporting"),
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
        ({"free_slots": 0, "ahead": 3}, "busy", "3 jobs with this tag come first"),
        ({"ahead": 1}, "behind", "1 job with tag python3"),
        ({"ahead": 1000}, "behind", "1000 or more jobs"),
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
