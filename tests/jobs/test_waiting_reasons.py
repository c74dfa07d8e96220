"""Why a job waits: the most decisive reason, as a sentence."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs import queue, runs, scripts, waiting
from jobs.models import QueuedJob, WorkerPing
from jobs.payloads import Payload
from jobs.runs import RunOptions
from jobs.waiting import Facts, explain
from tests.tenancy import enter, make_workspace
from workers.models import Config

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
            {
                "scheduled_for": NOW + timedelta(minutes=1),
                "held_back_by": "k",
                "places": 2,
                "window_s": 60,
            },
            "limited",
            "Its concurrency limit of 2 jobs at once and in any 60 s is reached (key k); running with this key: 0 jobs. "
            "It is looked at again when a place is left, 2030-01-01 00:01:00 UTC at the latest.",
        ),
        ({"running": True, "worker": "w1", "canceled_by": "bob"}, "canceled", "bob has canceled it"),
        ({"running": True, "worker": "w1", "is_parked": True}, "steps", "waits for its steps"),
        (
            {"scheduled_for": NOW + timedelta(hours=1), "has_begun": True},
            "asleep",
            "It sleeps until 2030-01-01 01:00:00 UTC.",
        ),
        (
            {"workers_for_tag": 0, "silent_workers": 1, "silent_since": NOW},
            "no_worker",
            "1 that did stopped reporting (last report 2030-01-01 00:00:00 UTC): start a worker again",
        ),
        (
            {"workers_for_tag": 0, "groups": ["a", "b"], "native_groups": ["b"]},
            "no_worker",
            "Group b has this tag in its configuration, but its workers are native and leave it out",
        ),
        (
            {"workers_for_tag": 0, "groups": ["a", "b"]},
            "no_worker",
            "Group a and b has this tag in its configuration, but no worker of it runs that could take it: start one "
            "(WORKER_GROUP=a)",
        ),
        (
            {"workers_for_tag": 0, "tag": "gpu-acme", "tag_setting": "gpu-$workspace"},
            "no_worker",
            "The tag is made of gpu-$workspace.",
        ),
        (
            {
                "workers_for_tag": 0,
                "tag": "-x",
                "tag_setting": "$args[a.b]-$args[c]",
                "args": '{"c": "x", "a": 1}',
            },
            "no_worker",
            "The tag is made of $args[a.b]-$args[c], and this run has no argument a.b.",
        ),
        (
            {"free_slots": 0, "tags_before": ["urgent", "vip"]},
            "busy",
            "All slots of the 1 worker for tag python3 are busy. They take jobs with tags urgent and vip first.",
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
        ({"ahead": 1, "ahead_of_workspace": 1}, "behind", "1 job with tag python3 comes first"),
        ({"ahead": 1}, "behind", "1 job with tag python3 is before it in the queue, of another workspace."),
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


def test_slots_that_were_filled_since_the_last_report_are_busy(make_job):
    make_job(), make_job()
    alive("w1", custom_tags=["python3"], slots=2, busy_slots=0)
    alive("w2", custom_tags=["python3"], slots=1, busy_slots=1)
    queue.claim_jobs(worker="w1", tags=["python3"], limit=2)

    assert waiting.why_waiting(make_job(), workspace_id="test").reason == "busy"


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


def alive(name, **given):
    return WorkerPing.objects.create(worker=name, worker_instance="h", **given)


def test_groups_that_are_to_take_it_are_named_and_told_when_they_are_native(make_job):
    asked = make_job(tag="gpu")
    Config.objects.create(name="worker__big", config={"worker_tags": ["gpu", "python3"]})
    Config.objects.create(name="worker__light", config={"worker_tags": ["gpu"], "native_mode": True})
    Config.objects.create(name="worker__other", config={"worker_tags": ["bash"]})

    before = waiting.look([asked])[asked]
    alive("w1", worker_group="light", native_mode=True, custom_tags=["nativets"])

    assert (before.groups, before.native_groups) == (["big", "light"], [])
    assert waiting.look([asked])[asked].native_groups == ["light"]


def test_tags_that_its_workers_rank_higher_are_named_but_those_of_scripts(make_job):
    asked = make_job()
    ranks = {"python3": 2, "urgent": 9, "slow": 1, "acme:u/ada/fast": 9, "elsewhere": 9}
    Config.objects.create(name="worker__default", config={"priority_tags": ranks})
    tags = ["python3", "urgent", "slow", "acme:u/ada/fast"]
    alive("w1", worker_group="default", custom_tags=tags, slots=1, busy_slots=1)

    assert waiting.look([asked])[asked].tags_before == ["urgent"]


def test_ranks_that_somebody_typed_by_hand_do_no_harm(make_job):
    asked = make_job()
    Config.objects.create(
        name="worker__default", config={"priority_tags": ["python3"], "worker_tags": "python3"}
    )
    alive("w1", worker_group="default", custom_tags=["python3"], slots=1)

    assert waiting.why_waiting(asked, workspace_id="test").reason == "soon"


def test_a_flow_that_waits_for_its_steps_or_sleeps_says_so(make_job):
    parked, asleep = make_job(kind="flow"), make_job(kind="flow", scheduled_in_s=600)
    created = QueuedJob.objects.get(pk=parked).created_at
    QueuedJob.objects.filter(pk=parked).update(running=True, worker="w1", started_at=created)
    QueuedJob.objects.filter(pk=asleep).update(worker="w1", started_at=created)

    assert waiting.why_waiting(parked, workspace_id="test").reason == "steps"
    assert waiting.why_waiting(asleep, workspace_id="test").reason == "asleep"


def test_a_tag_made_of_an_argument_that_is_missing_says_so(db):
    ada = enter(make_workspace("acme", admin="ada@example.com"), "ada@example.com")
    draft = scripts.ScriptDraft(
        path="u/ada/a", content="def main(): ...", language="python3", tag="gpu-$args[a.b]"
    )
    script = scripts.deploy_script(ada, draft)
    with_it = runs.run_script(ada, script, Payload(args={"a": {"b": "x"}}), RunOptions())
    without = runs.run_script(ada, script, Payload(args={"a": 1}), RunOptions())

    sentences = [waiting.why_waiting(job, workspace_id="acme").sentence for job in (with_it, without)]

    assert sentences[0].startswith("No live worker listens to tag gpu-x.")
    assert sentences[0].endswith("The tag is made of gpu-$args[a.b].")
    assert sentences[1].endswith("The tag is made of gpu-$args[a.b], and this run has no argument a.b.")


def test_the_answer_changes_when_a_worker_appears(make_job):
    job = make_job(tag="gpu")
    before = waiting.why_waiting(job, workspace_id="test")

    alive("w1", custom_tags=["gpu"], slots=1)

    assert before.reason == "no_worker"
    assert waiting.why_waiting(job, workspace_id="test").reason == "soon"
