"""Flows from outside: deployed and run over HTTP and by the `wmill` client, on a running site with a real worker."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
import wmill

from tests.browser.site import Person
from tests.flows.conftest import FlowRun
from tests.flows.gate import Gate
from tests.jobs.flows.samples import SAMPLES, bash, for_loop, js, module, python, static
from workspaces import tokens

Deploy = Callable[..., str]

pytestmark = pytest.mark.usefixtures("worker")


@pytest.fixture
def deploy(http: httpx.Client, ada: Person) -> Deploy:
    """deploy("name", flow) or deploy("name", module, …, fields of the value): deploy it over HTTP; answers its path."""

    def deploy(name: str, *modules: Any, flow: dict[str, Any] | None = None, **fields: Any) -> str:
        path = f"u/{ada.username}/{name}"
        flow = flow or {"summary": name, "value": {"modules": list(modules), **fields}, "schema": {}}
        answer = http.post("flows/create", json={"path": path, **flow})
        assert answer.status_code == 201, answer.text
        return path

    return deploy


@pytest.fixture
def client(ada: Person, monkeypatch: pytest.MonkeyPatch) -> "wmill.Windmill":
    """The `wmill` client of somebody who has a token."""
    monkeypatch.delenv("WM_JOB_ID", raising=False)
    token = tokens.create_session(ada.account)
    return wmill.Windmill(base_url=ada.site.url, token=token, workspace=ada.workspace.id)


def run(answer: httpx.Response) -> FlowRun:
    """The run that a route answers with."""
    assert answer.status_code in (200, 201), answer.text
    return FlowRun(UUID(answer.text))


def total(id: str, **inputs: str) -> dict[str, Any]:
    """A step that adds what these expressions give."""
    code = f"def main({', '.join(inputs)}):\n    return {' + '.join(inputs)}\n"
    return module(id, python(code, **{name: js(expr) for name, expr in inputs.items()}))


# --- HTTP -------------------------------------------------------------------------------------------------------------


def test_a_flow_is_run_and_read_over_http(http: httpx.Client, deploy: Deploy) -> None:
    path = deploy("table", flow=SAMPLES["nested_loops"].make())

    id = http.post(f"jobs/run/f/{path}", json=SAMPLES["nested_loops"].args).text
    FlowRun(UUID(id)).wait(60)

    assert http.get(f"jobs_u/completed/get_result/{id}").json() == SAMPLES["nested_loops"].result
    job = http.get(f"jobs_u/get/{id}").json()
    assert (job["type"], job["job_kind"], job["script_path"]) == ("CompletedJob", "flow", path)
    assert [entry["type"] for entry in job["flow_status"]["modules"]] == ["Success"]
    assert len(job["flow_status"]["modules"][0]["flow_jobs"]) == 2
    assert http.get(f"jobs_u/completed/get_timing/{id}").json()["duration_ms"] >= 0
    inner = http.get(f"jobs/list?parent_job={id}").json()
    assert len(inner) == 2
    for job in inner:
        assert http.get(f"jobs_u/get_root_job_id/{job['id']}").json() == id


def test_who_waits_gets_the_result_or_the_error(http: httpx.Client, deploy: Deploy) -> None:
    good = deploy("fan", flow=SAMPLES["fan_out"].make())
    bad = deploy("odd", flow=SAMPLES["stop_with_an_error"].make())

    answer = http.post(f"jobs/run_wait_result/f/{good}", json=SAMPLES["fan_out"].args)
    assert (answer.status_code, answer.json()) == (200, SAMPLES["fan_out"].result)

    answer = http.post(f"jobs/run_wait_result/f/{bad}", json=SAMPLES["stop_with_an_error"].args)
    assert answer.status_code == 422
    assert SAMPLES["stop_with_an_error"].is_result(answer.json())


def test_who_waits_gets_the_early_result_while_the_flow_goes_on(
    http: httpx.Client, deploy: Deploy, gate: Gate
) -> None:
    gate.close("b")
    path = deploy("early", gate.step("a"), gate.step("b"), gate.step("c"), early_return="a")

    answer = http.post(f"jobs/run_wait_result/f/{path}", json={})

    assert (answer.status_code, answer.json()) == (200, "a 1")
    [flow] = http.get(f"jobs/list?script_path_exact={path}&job_kinds=flow").json()
    assert flow["type"] == "QueuedJob"
    gate.open()
    assert FlowRun(UUID(flow["id"])).wait(60).result == "c 1"


def test_a_flow_says_what_its_answer_over_http_is(http: httpx.Client, deploy: Deploy) -> None:
    code = (
        "def main(name: str):\n"
        "    return {'windmill_status_code': 203, 'windmill_content_type': 'text/csv',\n"
        "            'windmill_headers': {'X-Name': name}, 'result': 'a;b'}\n"
    )
    path = deploy("composite", module("a", python(code, name=js("flow_input.name"))))

    answer = http.post(f"jobs/run_wait_result/f/{path}", json={"name": "Ada"})

    assert (answer.status_code, answer.text, answer.headers["X-Name"]) == (203, "a;b", "Ada")
    assert answer.headers["Content-Type"].startswith("text/csv")


def test_a_run_is_followed_as_a_stream_of_events(http: httpx.Client, deploy: Deploy) -> None:
    path = deploy("stream", flow=SAMPLES["fan_out"].make())

    with http.stream("POST", f"jobs/run_and_stream/f/{path}", json=SAMPLES["fan_out"].args) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith("data:")]

    events = [json.loads(line.removeprefix("data:")) for line in lines]
    assert events[-1]["completed"] is True
    assert events[-1]["only_result"] == SAMPLES["fan_out"].result


def test_a_flow_is_tried_without_deploying_it(http: httpx.Client) -> None:
    sample = SAMPLES["while_loop"]

    preview = run(
        http.post("jobs/run/preview_flow", json={"value": sample.make()["value"], "args": sample.args})
    )
    waited = http.post(
        "jobs/run_wait_result/preview_flow", json={"value": sample.make()["value"], "args": sample.args}
    )

    assert preview.wait(60).result == sample.result
    assert waited.json() == sample.result


def test_the_result_of_a_step_is_found_by_its_id(http: httpx.Client, deploy: Deploy) -> None:
    sample = SAMPLES["branch_by_country"]
    path = deploy("tax", flow=sample.make())
    flow = run(http.post(f"jobs/run/f/{path}", json=sample.args)).wait(60)

    results = {
        id: http.get(f"jobs/result_by_id/{flow.id}/{id}").json() for id in ("net", "tax", "vat", "price")
    }

    assert results == {"net": 100, "tax": 120, "vat": 120, "price": sample.result}
    assert http.get(f"jobs/result_by_id/{flow.id}/sales").status_code == 404


def test_a_run_is_restarted_from_a_step(http: httpx.Client, deploy: Deploy, gate: Gate) -> None:
    path = deploy("steps", gate.step("a"), gate.step("b"), gate.step("c"))
    first = run(http.post(f"jobs/run/f/{path}", json={})).wait(60)

    again = run(http.post(f"jobs/restart/f/{first.id}", json={"step_id": "b"})).wait(60)

    assert again.result == "c 2"
    assert gate.visits == {"a": 1, "b": 2, "c": 2}
    assert again.status["restarted_from"] == {"flow_job_id": str(first.id), "step_id": "b"}


def test_a_run_is_restarted_from_an_iteration(http: httpx.Client, deploy: Deploy, gate: Gate) -> None:
    loop = for_loop("", gate.step("x", n="flow_input.iter.index")) | {"iterator": static([0, 1, 2])}
    path = deploy("loop", module("all", loop))
    first = run(http.post(f"jobs/run/f/{path}", json={})).wait(60)

    wish = {"step_id": "all", "branch_or_iteration_n": 1}
    again = run(http.post(f"jobs/restart/f/{first.id}", json=wish)).wait(60)

    assert again.result == ["x-0 1", "x-1 2", "x-2 2"]


def test_runs_are_run_again_in_a_batch(http: httpx.Client, deploy: Deploy) -> None:
    path = deploy("sum", total("a", x="flow_input.x", y="1"))
    runs = [run(http.post(f"jobs/run/f/{path}", json={"x": x})).wait(60) for x in (1, 2)]

    body = {
        "job_ids": [str(one.id) for one in runs],
        "script_options_by_path": {},
        "flow_options_by_path": {},
    }
    lines = http.post("jobs/run/batch_rerun_jobs", json=body).text.split()

    assert sorted(FlowRun(UUID(line)).wait(60).result for line in lines) == [2, 3]


def test_a_run_is_canceled_with_all_that_runs_for_it(http: httpx.Client, deploy: Deploy, gate: Gate) -> None:
    gate.close("b")
    path = deploy("long", gate.step("a"), gate.step("b"), gate.step("c"))
    flow = run(http.post(f"jobs/run/f/{path}", json={}))
    gate.wait_for("b")

    answer = http.post(f"jobs_u/queue/cancel/{flow.id}", json={"reason": "enough"})

    assert answer.status_code == 200
    assert flow.wait(60).outcome == "canceled"
    assert http.get(f"jobs/list?parent_job={flow.id}&running=true").json() == []
    assert "c" not in gate.visits


# --- the wmill client -------------------------------------------------------------------------------------------------


def test_the_client_runs_a_flow_and_follows_it(
    client: "wmill.Windmill", deploy: Deploy, gate: Gate, http: httpx.Client
) -> None:
    gate.close("b")
    path = deploy("followed", gate.step("a"), gate.step("b"))

    id = client.run_flow_async(path, args={})
    gate.wait_for("b")
    assert client.get_job_status(id) == "RUNNING"
    [step, _] = http.get(f"jobs/list?parent_job={id}").json()
    assert client.get_root_job_id(step["id"]) == id
    gate.open()

    assert client.wait_job(id) == "b 1"
    assert client.get_job_status(id) == "COMPLETED"
    assert client.get_result(id) == "b 1"


def test_the_client_says_why_a_flow_failed(client: "wmill.Windmill", deploy: Deploy) -> None:
    path = deploy("fails", flow=SAMPLES["stop_with_an_error"].make())

    id = client.run_flow_async(path, args=SAMPLES["stop_with_an_error"].args)

    with pytest.raises(Exception, match="3 is odd"):
        client.wait_job(id, cleanup=False)  # what it would do at the end of this process


def test_the_client_cancels_a_flow_that_it_no_longer_waits_for(
    client: "wmill.Windmill", deploy: Deploy, gate: Gate
) -> None:
    gate.close("a")
    id = client.run_flow_async(deploy("slow", gate.step("a"), gate.step("b")), args={})
    gate.wait_for("a")

    with pytest.raises(TimeoutError):
        client.wait_job(id, timeout=1, cleanup=False)

    assert FlowRun(UUID(id)).wait(60).outcome == "canceled"
    assert "b" not in gate.visits


# What a script does with the client and the token of its job, without the library itself (it is not part of a sandbox).
_STATE = 'curl -fsS -H "Authorization: Bearer $WM_TOKEN" "$BASE_INTERNAL_URL/api/w/$WM_WORKSPACE/jobs'


def test_the_client_shares_values_with_the_steps_of_a_flow(
    ada: Person, deploy: Deploy, gate: Gate, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = bash(f'{_STATE}/flow/user_states/$WM_FLOW_JOB_ID/cursor" > result.json\n')
    path = deploy(
        "shared", gate.step("a"), module("b", read), total("c", x='flow_user_state("cursor").at', y="1")
    )
    gate.close("a")
    id = http.post(f"jobs/run/f/{path}", json={}).text
    gate.wait_for("a")
    [step] = http.get(f"jobs/list?parent_job={id}").json()
    monkeypatch.setenv("WM_JOB_ID", step["id"])  # as in that step
    client = wmill.Windmill(
        base_url=ada.site.url, token=tokens.create_session(ada.account), workspace=ada.workspace.id
    )

    client.set_flow_user_state("cursor", {"at": 41})

    assert client.get_flow_user_state("cursor") == {"at": 41}
    assert client.get_flow_user_state("unknown") is None
    gate.open()
    assert FlowRun(UUID(id)).wait(60).result == 42
    assert http.get(f"jobs/result_by_id/{id}/b").json() == {"at": 41}


def test_a_step_hands_out_its_own_approval_links(deploy: Deploy, http: httpx.Client) -> None:
    links = bash(f'{_STATE}/resume_urls/$WM_JOB_ID/5?approver=boss" > result.json\n')
    suspend = {"required_events": 1, "timeout": 3600}
    path = deploy(
        "links",
        module("ask", links, suspend=suspend),
        module(
            "answer",
            python("def main(said, who):\n    return [said, who]\n", said=js("resume"), who=js("approvers")),
        ),
    )
    flow = run(http.post(f"jobs/run/f/{path}", json={}))
    flow.wait_until_module("answer", "WaitingForEvents")
    urls = http.get(f"jobs/result_by_id/{flow.id}/ask").json()

    assert httpx.post(urls["resume"], json={"n": 1}).status_code == 201
    assert flow.wait(60).result == [{"n": 1}, ["boss"]]
