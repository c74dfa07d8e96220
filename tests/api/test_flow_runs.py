"""Flows are started over REST: what reaches the queue, who may, and what the routes of a flow job answer."""

import json
import uuid

import pytest
from asgiref.sync import async_to_sync

from jobs import queue
from jobs.models import (
    CompletedJob,
    FlowIteration,
    FlowResult,
    FlowStatus,
    FlowStep,
    FlowVersion,
    Job,
    QueuedJob,
)
from tests.tenancy import token_for

PATH = "u/alice/report"
MODULES = [
    {"id": "first", "summary": "One", "value": {"type": "identity"}},
    {"id": "b", "value": {"type": "identity"}},
]
VALUE = {"modules": MODULES}


@pytest.fixture
def deploy(world):
    """Deploy a flow of alice's; keyword arguments replace fields."""

    def deploy(**fields):
        body = {"path": PATH, "summary": "", "value": VALUE} | fields
        kind = (
            "update/" + body["path"]
            if world.get("alice", f"w/acme/flows/exists/{body['path']}").json()
            else "create"
        )
        answer = world.post("alice", f"w/acme/flows/{kind}", body)
        assert answer.status_code in (200, 201), answer.content
        return world.get("alice", f"w/acme/flows/get_latest_version/{body['path']}").json()["id"]

    return deploy


def run(world, what=f"f/{PATH}", body=None, *, who="alice", query=""):
    answer = world.post(who, f"w/acme/jobs/run/{what}{query}", body or {})
    assert answer.status_code == 201, answer.content
    return Job.objects.get(pk=answer.content.decode())


def get(world, job, who="alice"):
    answer = world.get(who, f"w/acme/jobs_u/get/{job.pk}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_a_run_is_a_flow_job_of_the_live_version(world, deploy):
    version = deploy(priority=3, timeout=90)

    job = run(world, body={"x": 1})

    assert (job.kind, job.runnable_id, job.runnable_path) == ("flow", version, PATH)
    assert (job.args, job.tag, job.priority, job.timeout) == ({"x": 1}, "flow", 3, 90)
    assert (job.created_by, job.permissioned_as, job.parent_job) == ("alice", "u/alice", None)
    assert FlowStatus.objects.get(pk=job.pk).state["step"] == 0
    assert QueuedJob.objects.filter(pk=job.pk, tag="flow").exists()


def test_its_state_has_an_entry_for_each_step_from_the_start(world, deploy):
    deploy()

    job = get(world, run(world))

    assert (job["type"], job["job_kind"], job["script_path"]) == ("QueuedJob", "flow", PATH)
    assert [(module["id"], module.get("summary")) for module in job["raw_flow"]["modules"]] == [
        ("first", "One"),
        ("b", None),
    ]
    assert [(m["id"], m["type"]) for m in job["flow_status"]["modules"]] == [
        ("first", "WaitingForPriorSteps"),
        ("b", "WaitingForPriorSteps"),
    ]


def test_lists_hold_neither_definition_nor_state(world, deploy):
    deploy()
    run(world)

    (row,) = world.get("alice", "w/acme/jobs/list?job_kinds=flow").json()

    assert not {"raw_flow", "flow_status", "args"} & set(row)
    assert row["script_path"] == PATH and row["is_flow_step"] is False


@pytest.mark.django_db(transaction=True)
def test_an_update_tells_how_far_the_flow_is(world, deploy):
    deploy()
    job = run(world)

    update = world.get("alice", f"w/acme/jobs_u/getupdate/{job.pk}").json()

    assert [module["id"] for module in update["flow_status"]["modules"]] == ["first", "b"]


def test_one_version_can_be_run(world, deploy):
    first = deploy()
    deploy(summary="Newer")

    job = run(world, f"fv/{first}")

    assert job.runnable_id == first
    assert world.post("alice", "w/acme/jobs/run/fv/99999999", {}).status_code == 404
    assert world.post("alice", "w/acme/jobs/run/fv/x", {}).status_code == 400


def test_an_archived_flow_does_not_run(world, deploy):
    deploy()
    world.post("alice", f"w/acme/flows/archive/{PATH}")

    assert world.post("alice", f"w/acme/jobs/run/f/{PATH}", {}).status_code == 404


def test_options_reach_the_queue(world, deploy):
    deploy(tag="$args[size]")
    wanted = str(uuid.uuid4())
    asked = f"?job_id={wanted}&scheduled_in_secs=60&timeout=5&invisible_to_owner=true"

    job = run(world, query=asked, body={"size": "big"})

    assert (str(job.pk), job.tag, job.timeout, job.visible_to_owner) == (wanted, "big", 5, False)
    assert run(world, query="?tag=gpu").tag == "gpu"
    refused = world.post(
        "alice", f'w/acme/jobs/run/f/{PATH}?retry={{"constant":{{"attempts":1,"seconds":1}}}}', {}
    )
    assert refused.status_code == 400 and b"retry is for scripts" in refused.content


def test_what_the_flow_says_about_its_runs(world, deploy):
    limits = {
        "concurrent_limit": 2,
        "concurrency_time_window_s": 10,
        "cache_ttl": 60,
        "delete_after_secs": 0,
        "same_worker": True,
        "priority": 9,
    }
    deploy(value=VALUE | limits, priority=1)

    job = run(world)

    assert (job.concurrent_limit, job.concurrency_time_window_s) == (2, 10)
    assert job.concurrency_key == f"acme/flow/{PATH}"
    assert (job.cache_ttl, job.delete_after_secs, job.same_worker, job.priority) == (60, 0, True, 9)
    assert QueuedJob.objects.get(pk=job.pk).concurrency_key == job.concurrency_key


def test_the_preprocessor_gets_the_event_unless_skipped(world, deploy):
    preprocessor = {
        "id": "preprocessor",
        "value": {"type": "rawscript", "language": "python3", "content": "", "input_transforms": {}},
    }
    deploy(value=VALUE | {"preprocessor_module": preprocessor})

    job = run(world, body={"a": 1})
    skipped = run(world, body={"x": 1}, query="?skip_preprocessor=true")

    assert job.args["event"]["body"] == {"a": 1} and job.preprocessed is False
    assert get(world, job)["flow_status"]["step"] == -1
    assert (skipped.args, skipped.preprocessed) == ({"x": 1}, None)
    assert get(world, skipped)["flow_status"]["step"] == 0


def test_a_preview_runs_a_flow_as_it_is_written(world):
    body = {
        "value": {"modules": [{"value": {"type": "identity"}}]},
        "path": "u/alice/new",
        "args": {"x": 1},
        "tag": "t",
    }

    job = run(world, "preview_flow", body)

    assert (job.kind, job.runnable_path, job.args, job.tag) == ("flowpreview", "u/alice/new", {"x": 1}, "t")
    assert job.raw_flow["modules"][0]["id"] == "a", "missing ids are filled in"
    assert get(world, job)["raw_flow"] == job.raw_flow


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"value": {"modules": [{"id": "a", "value": {}}]}}, b"modules[0].value"),
        ({"value": []}, b"value"),
        ({"args": []}, b"args"),
        ({"restarted_from": {"step_id": "a", "flow_job_id": "x"}}, b"flow_job_id"),
        ({"path": "x" * 300}, b"path"),
    ],
)
def test_a_preview_that_cannot_run_is_refused_with_its_place(world, wrong, named):
    answer = world.post("alice", "w/acme/jobs/run/preview_flow", {"value": VALUE} | wrong)

    assert answer.status_code == 400 and named in answer.content, answer.content
    assert not QueuedJob.objects.exists()


def test_previews_are_for_developers_and_runs_for_whoever_reads_the_flow(world, deploy):
    deploy(path="f/private/shared")
    assert world.post("oscar", "w/acme/jobs/run/preview_flow", {"value": VALUE}).status_code == 403
    assert world.post("oscar", "w/acme/jobs/run/f/f/private/shared", {}).status_code == 404

    world.post("alice", "w/acme/acls/add/flow/f/private/shared", {"owner": "u/oscar", "write": False})

    assert run(world, "f/f/private/shared", who="oscar").permissioned_as == "u/oscar"


def test_a_flow_runs_on_behalf_of_somebody_else(world, deploy):
    deploy(on_behalf_of_email="dave@example.com")

    job = run(world)

    assert (job.created_by, job.permissioned_as, job.permissioned_as_email) == (
        "alice",
        "u/dave",
        "dave@example.com",
    )


def test_a_token_may_be_limited_to_runs_of_one_flow(world, deploy):
    deploy()
    deploy(path="u/alice/other")
    world.tokens["hook"] = token_for("alice@example.com", scopes=[f"jobs:run:flows:{PATH}"])

    job = run(world, who="hook")
    step = make_step(job, "first", result=1)

    assert world.post("hook", "w/acme/jobs/run/f/u/alice/other", {}).status_code == 403
    assert world.post("hook", f"w/acme/jobs/run/p/{PATH}", {}).status_code in (403, 404)
    assert world.post("hook", "w/acme/jobs/run/preview_flow", {"value": VALUE}).status_code == 403
    assert get(world, job, who="hook")["id"] == str(job.pk)
    assert get(world, step, who="hook")["id"] == str(step.pk), "its steps can be followed too"
    assert world.post("hook", f"w/acme/jobs_u/queue/cancel/{job.pk}", {}).status_code == 200


# --- steps ---


def make_step(flow, step_id, *, result=None, path="u/alice/hidden", **columns):
    """A step of a flow job that has ended, as a worker records it."""
    step = Job.objects.create(
        workspace_id="acme",
        runnable_path=path,
        args={},
        tag="python3",
        created_by=flow.created_by,
        permissioned_as="u/alice",
        permissioned_as_email="alice@example.com",
        parent_job=flow.pk,
        root_job=flow.pk,
        flow_step_id=step_id,
        **{"kind": "script", **columns},
    )
    CompletedJob.objects.create(
        pk=step.pk, workspace_id="acme", status="success", duration_ms=5, result=result
    )
    ref = {"job": str(step.pk)}
    FlowStep.objects.create(
        flow_id=flow.pk,
        step_id=step_id,
        status={"type": "Success", "id": step_id, "job": str(step.pk)},
        result=ref,
    )
    FlowResult.objects.create(root_id=flow.pk, step_id=step_id, result=ref)
    return step


def test_the_result_of_a_step_is_found_by_its_id(world, deploy):
    deploy()
    job = run(world)
    make_step(job, "first", result={"z": 1, "a": 2})

    found = world.get("alice", f"w/acme/jobs/result_by_id/{job.pk}/first")
    missing = world.get("alice", f"w/acme/jobs/result_by_id/{job.pk}/b")

    assert found.content == b'{"z": 1, "a": 2}'
    assert missing.status_code == 404


def test_whoever_sees_a_run_of_a_flow_sees_its_steps(world, deploy):
    deploy(path="f/private/shared")
    job = run(world, "f/f/private/shared")
    step = make_step(job, "first")
    assert world.get("dave", f"w/acme/jobs_u/get/{step.pk}").status_code == 404

    world.post("alice", "w/acme/acls/add/flow/f/private/shared", {"owner": "u/dave", "write": False})

    assert get(world, job, who="dave")["id"] == str(job.pk)
    assert get(world, step, who="dave")["flow_step_id"] == "first"
    listed = world.get("dave", "w/acme/jobs/list?script_path_exact=f/private/shared").json()
    assert str(job.pk) in [row["id"] for row in listed]
    hidden = run(world, "f/f/private/shared", query="?invisible_to_owner=true")
    assert world.get("dave", f"w/acme/jobs_u/get/{hidden.pk}").status_code == 404


def test_steps_are_listed_apart(world, deploy):
    deploy()
    job = run(world)
    step = make_step(job, "first")

    def ids(query):
        return [row["id"] for row in world.get("alice", f"w/acme/jobs/list?{query}").json()]

    assert ids("is_flow_step=true") == [str(step.pk)] == ids(f"parent_job={job.pk}")
    assert str(step.pk) not in ids("is_flow_step=false")
    assert str(job.pk) in ids("has_null_parent=true&job_kinds=flow,script")


def test_the_root_of_a_step_is_the_flow(world, deploy):
    deploy()
    job = run(world)
    step = make_step(job, "first")

    assert world.get("alice", f"w/acme/jobs_u/get_root_job_id/{step.pk}").json() == str(job.pk)
    assert world.get("alice", f"w/acme/jobs_u/get_root_job_id/{job.pk}").json() == str(job.pk)


def test_everything_about_a_flow_at_once_for_whoever_debugs_it(world, deploy):
    deploy()
    job = run(world)
    step = make_step(job, "first", result=7)

    info = world.get("alice", f"w/acme/jobs_u/get_flow_debug_info/{job.pk}").json()

    assert set(info) == {"root_job", str(step.pk)}
    assert info["root_job"]["flow_status"]["modules"][0]["type"] == "Success"
    assert info[str(step.pk)]["result"] == 7


def test_the_timing_of_a_completed_job(world, deploy):
    deploy()
    job = run(world)
    step = make_step(job, "first")

    timing = world.get("alice", f"w/acme/jobs_u/completed/get_timing/{step.pk}").json()

    assert timing["duration_ms"] == 5 and timing["created_at"].endswith("Z")
    assert world.get("alice", f"w/acme/jobs_u/completed/get_timing/{job.pk}").status_code == 404


def test_when_jobs_began(world, deploy):
    deploy()
    jobs = [run(world), run(world)]
    queue.claim_jobs(worker="w", tags=["flow"])
    ids = [str(job.pk) for job in jobs]

    began = world.post("alice", "w/acme/jobs/queue/get_started_at_by_ids", ids[::-1]).json()
    for_dave = world.post("dave", "w/acme/jobs/queue/get_started_at_by_ids", ids).json()

    assert began[0] is None and began[1].endswith("Z")
    assert for_dave == [None, None]


# --- cancel, delete, again ---


def test_all_jobs_at_a_path_are_canceled(world, deploy):
    deploy()
    jobs = [run(world), run(world)]

    answer = world.post("alice", f"w/acme/jobs_u/queue/cancel_persistent/{PATH}", {"reason": "enough"})

    assert answer.status_code == 200
    done = CompletedJob.objects.filter(pk__in=[job.pk for job in jobs])
    assert [(row.status, row.canceled_reason) for row in done] == [("canceled", "enough")] * 2


def test_emptying_a_flow_empties_its_steps(world, deploy):
    deploy()
    job = run(world, body={"secret": 1})
    step = make_step(job, "first", result={"secret": 2})
    FlowIteration.objects.create(flow_id=job.pk, step_id="loop", n=0, job_id=step.pk, value={"secret": 3})
    QueuedJob.objects.filter(pk=job.pk).delete()
    CompletedJob.objects.create(
        pk=job.pk, workspace_id="acme", status="success", duration_ms=1, result={"secret": 4}
    )

    world.post("alice", f"w/acme/jobs/completed/delete/{job.pk}")

    for done in (job, step):
        assert "secret" not in str(get(world, done))
    assert FlowIteration.objects.get().value is None


def test_deleting_a_flow_deletes_its_steps(world, deploy):
    deploy()
    job = run(world)
    step = make_step(job, "first")

    answer = world.post("alice", "w/acme/jobs/delete", [str(job.pk)])

    assert answer.content == b"deleted 1 jobs"
    assert not Job.objects.filter(pk__in=[job.pk, step.pk]).exists()
    assert not FlowStep.objects.exists() and not FlowResult.objects.exists()


def test_a_flow_runs_again_with_its_arguments(world, deploy):
    first_version = deploy()
    job = run(world, body={"x": 1, "y": 2})
    preview = run(world, "preview_flow", {"value": VALUE, "args": {"p": 1}})
    deploy(summary="Newer")
    step = make_step(job, "first", kind="flownode")
    again = {"job_ids": [str(job.pk), str(preview.pk), str(step.pk)]}

    same = world.post("alice", "w/acme/jobs/run/batch_rerun_jobs", again).content.decode().splitlines()
    wishes = {"use_latest_version": True, "input_transforms": {"x": {"type": "static", "value": 5}}}
    newer = world.post(
        "alice",
        "w/acme/jobs/run/batch_rerun_jobs",
        {"job_ids": [str(job.pk)], "flow_options_by_path": {PATH: wishes}},
    ).content.decode()

    copy, of_preview = (Job.objects.get(pk=line) for line in same[:2])
    assert (copy.runnable_id, copy.args) == (first_version, {"x": 1, "y": 2})
    assert (of_preview.kind, of_preview.raw_flow, of_preview.args) == ("flowpreview", VALUE, {"p": 1})
    assert same[2].startswith("Error: ")
    latest = Job.objects.get(pk=newer.strip())
    assert latest.runnable_id > first_version and latest.args == {"x": 5, "y": 2}


def test_a_script_with_retries_is_a_flow_of_one_step(world):
    code = "def main(x: int, who: str = 'me'): ..."
    world.post(
        "alice",
        "w/acme/scripts/create",
        {"path": "u/alice/hello", "content": code, "language": "python3", "timeout": 9, "tag": "gpu"},
    )
    retry = '?retry={"constant":{"attempts":3,"seconds":10}}'

    job = run(world, "p/u/alice/hello", {"x": 1}, query=retry)

    (module,) = job.raw_flow["modules"]
    assert (job.kind, job.runnable_path, job.args, job.tag) == (
        "singlestepflow",
        "u/alice/hello",
        {"x": 1},
        "gpu",
    )
    assert module["retry"] == {"constant": {"attempts": 3, "seconds": 10}}
    assert module["value"]["path"] == "u/alice/hello" and len(module["value"]["hash"]) == 16
    assert module["value"]["input_transforms"] == {"x": {"type": "javascript", "expr": 'flow_input["x"]'}}
    assert (job.timeout, QueuedJob.objects.get(pk=job.pk).tag) == (None, "gpu")
    assert [module["id"] for module in get(world, job)["flow_status"]["modules"]] == ["a"]
    again = world.post("alice", "w/acme/jobs/run/batch_rerun_jobs", {"job_ids": [str(job.pk)]})
    assert Job.objects.get(pk=again.content.decode().strip()).raw_flow == job.raw_flow


@pytest.mark.parametrize("retry", ["x", "[]", '{"constant":{"attempts":-1,"seconds":1}}', '{"constant":3}'])
def test_a_retry_that_cannot_be_read_is_refused(world, retry):
    body = {"path": "u/alice/hello", "content": "def main(): ...", "language": "python3"}
    world.post("alice", "w/acme/scripts/create", body)

    answer = world.post("alice", f"w/acme/jobs/run/p/u/alice/hello?retry={retry}", {})

    assert answer.status_code == 400 and b"retry" in answer.content, answer.content


def test_a_flow_restarts_from_a_step(world, deploy):
    deploy()
    job = run(world, body={"x": 1})
    make_step(job, "first", result=7)
    still_running = world.post("alice", f"w/acme/jobs/restart/f/{job.pk}", {"step_id": "b"})
    QueuedJob.objects.filter(pk=job.pk).delete()
    CompletedJob.objects.create(pk=job.pk, workspace_id="acme", status="failure", duration_ms=1, result={})

    answer = world.post("alice", f"w/acme/jobs/restart/f/{job.pk}", {"step_id": "b"})
    older = world.post("alice", f"w/acme/jobs/restart/f/{job.pk}/from/b/0")
    unknown = world.post("alice", f"w/acme/jobs/restart/f/{job.pk}", {"step_id": "zzz"})

    assert still_running.status_code == 400
    assert (answer.status_code, older.status_code, unknown.status_code) == (201, 201, 400)
    new = Job.objects.get(pk=answer.content.decode())
    status = get(world, new)["flow_status"]
    assert new.args == {"x": 1} and status["restarted_from"]["flow_job_id"] == str(job.pk)
    assert [module["type"] for module in status["modules"]] == ["Success", "WaitingForPriorSteps"]


def test_scripts_of_a_flow_are_locked_without_deploying_it(world):
    answer = world.post(
        "alice", "w/acme/jobs/run/flow_dependencies_async", {"flow_value": VALUE, "path": PATH}
    )

    job = Job.objects.get(pk=answer.content.decode())
    assert (answer.status_code, job.kind, job.tag) == (201, "flowdependencies", "dependency")
    assert job.raw_flow == VALUE and not FlowVersion.objects.filter(path=PATH).exists()


def test_runs_of_flows_are_in_the_audit_log(world, deploy):
    deploy()
    run(world)
    run(world, "preview_flow", {"value": VALUE})

    entries = world.get("alice", "w/acme/audit/list?operation=jobs.run.flow").json()

    assert {entry["operation"] for entry in entries} == {"jobs.run.flow", "jobs.run.flow_preview"}


@pytest.mark.django_db(transaction=True)
def test_followers_are_told_of_each_step(world, deploy):
    deploy()
    job = run(world)
    make_step(job, "first")
    CompletedJob.objects.create(pk=job.pk, workspace_id="acme", status="success", duration_ms=1, result=[1])
    QueuedJob.objects.filter(pk=job.pk).delete()

    events = world.get("alice", f"w/acme/jobs_u/getupdate_sse/{job.pk}")

    *_, final = [line for line in read_events(events) if line]
    update = json.loads(final.removeprefix("data: "))
    assert (update["completed"], update["only_result"]) == (True, [1])
    assert [module["type"] for module in update["flow_status"]["modules"]] == [
        "Success",
        "WaitingForPriorSteps",
    ]


def read_events(answer):
    async def read():
        return [chunk.decode() async for chunk in answer.streaming_content]

    return "".join(async_to_sync(read)()).split("\n\n")
