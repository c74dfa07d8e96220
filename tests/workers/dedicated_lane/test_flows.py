"""Flows and dedicated workers: their own, and those of the scripts that their steps name."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from jobs import flow_runs
from jobs.flows import deployed
from jobs.flows.deployed import FlowDraft
from jobs.models import CompletedJob, Job
from jobs.payloads import Payload
from jobs.runs import RunOptions
from workspaces.access import Caller

COUNT = "calls = 0\ndef main(x: int = 0):\n    global calls\n    calls += 1\n    return [calls, x]\n"
FLOW = "u/ada/steps"


@pytest.fixture
def run_flow(ada: Caller) -> Callable[..., UUID]:
    """Queue a run of the flow at FLOW."""

    def run_flow() -> UUID:
        flow, version = deployed.get_to_run(ada, path=FLOW)
        return flow_runs.run_flow(ada, flow, version, Payload(args={}), RunOptions())

    return run_flow


def deploy_flow(ada: Caller, modules: list[dict[str, Any]], **extra: Any) -> None:
    deployed.create_flow(ada, FlowDraft(path=FLOW, value={"modules": modules}, extra=extra))


def inline(id: str, x: str = "0", language: str = "python3", content: str = COUNT) -> dict[str, Any]:
    transforms = {"x": {"type": "javascript", "expr": x}}
    value = {
        "type": "rawscript",
        "language": language,
        "content": content,
        "lock": "",
        "input_transforms": transforms,
    }
    return {"id": id, "value": value}


def named(id: str, path: str) -> dict[str, Any]:
    transforms = {"x": {"type": "javascript", "expr": "5"}}
    return {"id": id, "value": {"type": "script", "path": path, "input_transforms": transforms}}


def tags_of_steps(flow_job: UUID) -> dict[str, str]:
    return dict(Job.objects.filter(parent_job=flow_job).values_list("flow_step_id", "tag"))


def test_each_step_of_a_dedicated_flow_has_a_process_that_stays(
    ada: Caller, start: Any, run_flow: Any, outcomes: Any
) -> None:
    deploy_flow(ada, [inline("a"), inline("b", "results.a[0] * 10")], dedicated_worker=True)
    start(f"acme:flow/{FLOW}")

    first = outcomes([run_flow()])
    job = run_flow()
    second = outcomes([job])

    assert (first, second) == ([[1, 10]], [[2, 20]])
    assert tags_of_steps(job) == {"a": f"acme:flow/{FLOW}", "b": f"acme:flow/{FLOW}"}
    assert CompletedJob.objects.filter(worker="wk-test").count() == 6


def test_steps_that_cannot_stay_loaded_run_beside_the_others(
    ada: Caller, start: Any, run_flow: Any, outcomes: Any
) -> None:
    deploy_flow(
        ada,
        [inline("a"), inline("b", "results.a[0]", "bash", 'x="$1"\necho "$x"\n')],
        dedicated_worker=True,
    )
    start(f"acme:flow/{FLOW}")

    assert outcomes([run_flow(), run_flow()]) == ["1", "2"]


def test_a_step_that_names_a_dedicated_script_runs_in_its_process(
    ada: Caller, deploy: Any, run: Any, start: Any, run_flow: Any, outcomes: Any
) -> None:
    script = deploy(COUNT)
    deploy_flow(ada, [named("a", script.path)])
    start()
    start("acme:u/ada/unused", name="wk-flows", tags=["flow"])
    outcomes([run(script)])

    job = run_flow()

    assert outcomes([job]) == [[2, 5]]
    assert tags_of_steps(job) == {"a": "acme:u/ada/fast"}
    step = Job.objects.get(parent_job=job)
    assert CompletedJob.objects.get(pk=step.pk).worker == "wk-test"
    assert outcomes([run(script, x=1)]) == [[3, 1]]
