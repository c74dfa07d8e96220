"""Waiting for flows over HTTP, with real servers and a real worker."""

import httpx
import pytest

from jobs.models import CompletedJob, Job, QueuedJob
from tests.browser.site import wait_until

WAIT = "jobs/run_wait_result/preview_flow"


def bash(id, code, **options):
    script = {"type": "rawscript", "language": "bash", "content": code, "input_transforms": {}}
    return {"id": id, "value": script, **options}


def wait(acme, *modules, timeout=None, **flow):
    body = {"value": {"modules": list(modules), **flow}, "args": {}}
    extra = {} if timeout is None else {"timeout": timeout}
    return acme.http.post(acme.api(WAIT), json=body, **extra)


def test_the_answer_is_the_result_of_the_last_step(acme, real_worker):
    answer = wait(acme, bash("a", "echo one"), bash("b", "echo two"))

    assert (answer.status_code, answer.json()) == (200, "two")


def test_a_flow_that_fails_answers_422_with_the_error_and_its_step(acme, real_worker):
    answer = wait(acme, bash("a", "exit 3"), bash("b", "echo never"))

    assert answer.status_code == 422
    assert answer.json()["error"]["step_id"] == "a" and "3" in answer.json()["error"]["message"]


def test_a_step_may_answer_early_while_the_flow_goes_on(acme, real_worker):
    answer = wait(acme, bash("a", "echo early"), bash("b", "sleep 60"), early_return="a")

    assert (answer.status_code, answer.json()) == (200, "early")
    flow = Job.objects.get(workspace_id=acme.workspace_id, kind="flowpreview")
    assert QueuedJob.objects.filter(pk=flow.pk, canceled_by=None).exists()
    acme.http.post(acme.api(f"jobs_u/queue/force_cancel/{flow.pk}"), json={})


def test_a_client_that_leaves_cancels_the_flow_and_its_steps(acme, real_worker):
    with pytest.raises(httpx.ReadTimeout):
        wait(acme, bash("a", "sleep 60"), bash("b", "echo never"), timeout=2)

    def ended():
        return not QueuedJob.objects.filter(workspace_id=acme.workspace_id).exists()

    wait_until(ended, "the flow and its step to end", 15)
    jobs = CompletedJob.objects.filter(workspace_id=acme.workspace_id)
    assert {(job.status, job.canceled_reason) for job in jobs} == {("canceled", "http connection broke")}


def test_a_deployed_flow_is_waited_for_by_get_too(acme, real_worker):
    flow = {
        "path": "u/alice/hello",
        "summary": "",
        "value": {"modules": [{"id": "a", "value": {"type": "identity"}}]},
    }
    acme.http.post(acme.api("flows/create"), json=flow)

    answer = acme.http.get(acme.api("jobs/run_wait_result/f/u/alice/hello?payload=eyJ4IjoyfQ=="))

    assert (answer.status_code, answer.json()) == (200, {"x": 2})


def test_a_script_runs_again_when_it_fails_and_retries_are_asked_for(acme, real_worker):
    acme.deploy("u/alice/flaky", "exit 1", language="bash", tag=None)
    retry = {"retry": '{"constant":{"attempts":2,"seconds":0}}'}

    answer = acme.http.post(acme.api("jobs/run_wait_result/p/u/alice/flaky"), json={"x": 1}, params=retry)

    assert answer.status_code == 422 and "error" in answer.json()
    flow = Job.objects.get(workspace_id=acme.workspace_id, kind="singlestepflow")
    attempts = Job.objects.filter(parent_job=flow.pk)
    assert [job.args for job in attempts] == [{"x": 1}] * 3
