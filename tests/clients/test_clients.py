"""What scripts do with the official clients, unmodified: `wmill` in Python, `windmill-client` in Bun and Deno jobs."""

from typing import Any

import httpx
import pytest

from tests.browser.site import Person, wait_until
from tests.clients.conftest import Clients, end_of

ADD = "def main(x: int, y: int):\n    return x + y\n"


def test_a_job_knows_who_and_where_it_is(clients: Clients, ada: Person) -> None:
    found = clients.run("identity").result

    assert found == {
        "email": ada.account.email,
        "workspace": ada.workspace.id,
        "by_name": ada.account.email,
    }


def test_variables_are_made_changed_and_read(clients: Clients, http: httpx.Client) -> None:
    plain, secret, absent = (clients.path(name) for name in ("plain", "secret", "absent"))

    seen = clients.run("variables", plain=plain, secret=secret, absent=absent).result

    assert seen == ["one", 'two "quoted" é\n', "hush hush", True]
    assert http.get(f"variables/get/{plain}").json()["is_secret"] is False
    assert http.get(f"variables/get/{secret}").json()["is_secret"] is True


def test_a_secret_that_a_job_was_given_is_not_in_its_log(clients: Clients, http: httpx.Client) -> None:
    secret = clients.path("password")
    http.post("variables/create", json={"path": secret, "value": "correct horse", "is_secret": True})
    path = clients.path("holder")
    http.post("resources/create", json={"path": path, "value": {}, "resource_type": "any"})

    ended = clients.run("masked", password=f"$var:{secret}", path=path)

    assert ended.result == len("correct horse")
    assert "given *****" in ended.log and "stored *****" in ended.log
    assert "correct horse" not in ended.log


def test_resources_are_made_changed_and_read_with_the_secrets_in_them(clients: Clients) -> None:
    path, secret, absent = (clients.path(name) for name in ("server", "password", "absent"))

    found = clients.run("resources", path=path, secret=secret, absent=absent).result

    assert found == {
        "first": {"host": "a", "password": "swordfish"},
        "second": {"host": "b", "ports": [1, 2]},
        "absent": None,
        "of_type": [path],
    }


def test_a_script_finds_its_state_in_the_next_run(clients: Clients) -> None:
    path = clients.path("counter")

    counts = [clients.run("state", at=path).result for _ in range(2)]
    elsewhere = clients.run("state", at=clients.path("other")).result

    assert counts == [{"count": 1}, {"count": 2}]
    assert elsewhere == {"count": 1}


def test_a_job_runs_scripts_and_uses_their_results(clients: Clients, http: httpx.Client) -> None:
    path, version = clients.deploy("add", ADD, "python3")

    ended = clients.run("children", path=path, hash=version)

    assert ended.result["results"] == [3, 7, 11, 11]
    assert (ended.result["status"], ended.result["root"]) == ("COMPLETED", ended.id)
    assert http.get(f"jobs_u/get/{ended.result['child']}").json()["parent_job"] == ended.id


def test_why_a_script_failed_is_told_to_who_ran_it(clients: Clients) -> None:
    path, _ = clients.deploy("fails", "def main():\n    raise ValueError('the disk is full')\n", "python3")

    ended = clients.run("failing_child", path=path, fails=True)

    assert "the disk is full" in ended.result["error"]["message"]


def test_a_job_cancels_another(clients: Clients) -> None:
    path, _ = clients.deploy("sleeps", "sleep 600")

    assert clients.run("cancel", path=path).result == {"canceled": True, "reason": "not needed"}


def test_a_job_tells_how_far_it_is(clients: Clients, http: httpx.Client) -> None:
    ended = clients.run("progress")

    assert ended.result == {"before": None, "after": 42}
    assert http.get(f"job_metrics/get_progress/{ended.id}").json() in (42, 100)


def test_a_job_runs_a_flow(clients: Clients, http: httpx.Client) -> None:
    path = clients.path("flow")
    add = {
        "type": "rawscript",
        "language": "python3",
        "content": ADD,
        "input_transforms": {
            "x": {"type": "javascript", "expr": "flow_input.x"},
            "y": {"type": "static", "value": 22},
        },
    }
    flow = {"path": path, "summary": "", "schema": {}, "value": {"modules": [{"id": "a", "value": add}]}}
    assert http.post("flows/create", json=flow).status_code == 201

    assert clients.run("run_flow", path=path).result == 42


def test_steps_of_a_flow_share_values(clients: Clients, http: httpx.Client) -> None:
    modules = [clients.step("a", "write_flow_state"), clients.step("b", "read_flow_state")]

    ended = end_of(preview_flow(http, modules))

    assert ended.result == {"cursor": {"at": 7}, "absent": None}


def test_a_step_hands_out_links_that_let_the_flow_go_on(clients: Clients, http: httpx.Client) -> None:
    ask = clients.step("ask", "ask", suspend={"required_events": 1, "timeout": 3600})
    answer = {
        "type": "rawscript",
        "language": "python3",
        "content": "def main(said, who):\n    return [said, who]\n",
        "input_transforms": {
            "said": {"type": "javascript", "expr": "resume"},
            "who": {"type": "javascript", "expr": "approvers"},
        },
    }
    flow = preview_flow(http, [ask, {"id": "answer", "value": answer}])

    links: dict[str, str] = wait_until(lambda: links_of(http, flow), "the step's links", 120)
    resumed = httpx.post(links["resume"], json={"n": 1})

    assert (resumed.status_code, set(links)) == (201, {"approvalPage", "resume", "cancel"})
    assert end_of(flow).result == [{"n": 1}, ["bob"]]


def test_what_a_job_streams_is_in_its_log_before_its_result(clients: Clients) -> None:
    ended = clients.run("stream")

    lines = ended.log.split("\n")
    assert lines.index("WM_STREAM: one, ") < lines.index("WM_STREAM: three")
    assert ended.result == "done"


def test_a_job_runs_code_that_it_brings_along(clients: Clients) -> None:
    assert clients.run("preview").result == 42


def preview_flow(http: httpx.Client, modules: list[dict[str, Any]], **fields: Any) -> str:
    """The id of a run of a flow of these modules and further fields of its value."""
    answer = http.post("jobs/run/preview_flow", json={"value": {"modules": modules, **fields}, "args": {}})
    assert answer.status_code == 201, answer.text
    return answer.text


def links_of(http: httpx.Client, flow: str) -> dict[str, str] | None:
    """What the step "ask" answered; None until it has. Fails the test when the flow ended instead."""
    modules = http.get(f"jobs_u/get/{flow}").json()["flow_status"]["modules"]
    if modules[0]["type"] == "Failure":
        pytest.fail(f"the step failed: {end_of(flow).result}")
    if modules[0]["type"] != "Success":
        return None
    found: dict[str, str] = http.get(f"jobs/result_by_id/{flow}/ask").json()
    return found
