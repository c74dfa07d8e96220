"""The `wmill` client from PyPI, unchanged, against a real server and a real worker."""

import uuid

import pytest

from tests.jobs.flows.suspended import make_waiting

wmill_client = pytest.importorskip("wmill.client")

CSV = """import csv, io

def main(text: str, column: str = "amount"):
    rows = list(csv.DictReader(io.StringIO(text)))
    print(f"read {len(rows)} rows")
    return {"rows": len(rows), "total": sum(float(row[column]) for row in rows)}
"""


@pytest.fixture
def client(acme, real_worker):
    return wmill_client.Windmill(base_url=acme.served.urls[0], token=acme.token, workspace=acme.workspace_id)


def test_a_script_runs_and_its_result_comes_back(acme, client):
    acme.deploy("u/alice/sum_csv", CSV, tag=None)

    result = client.run_script_by_path(
        "u/alice/sum_csv", args={"text": "who,amount\na,1.5\nb,2\n"}, timeout=30
    )

    assert result == {"rows": 2, "total": 3.5}


def test_an_asynchronous_run_has_status_result_and_root(acme, client):
    version = acme.deploy("u/alice/sum_csv", CSV, tag=None)

    job_id = client.run_script_by_hash_async(version, {"text": "amount\n4\n"})

    assert str(uuid.UUID(job_id)) == job_id
    assert client.wait_job(job_id, timeout=30) == client.get_result(job_id) == {"rows": 1, "total": 4}
    assert client.get_job_status(job_id) == "COMPLETED"
    assert client.get_root_job_id(job_id) == job_id


def test_a_failure_is_raised_with_its_message(acme, client):
    acme.deploy("u/alice/fails", "def main():\n    raise ValueError('no such customer')\n", tag=None)

    with pytest.raises(Exception, match="no such customer"):
        client.run_script_by_path("u/alice/fails", args={}, timeout=30)


def test_a_waiting_job_is_canceled(acme, client):
    acme.deploy("u/alice/later", "def main():\n    pass\n", tag="nobody")
    job_id = client.run_script_by_path_async("u/alice/later", {})

    assert client.get_job_status(job_id) == "WAITING"
    client.cancel_job(job_id, reason="changed my mind")

    assert client.get_job(job_id)["canceled_reason"] == "changed my mind"
    with pytest.raises(Exception, match="canceled"):
        client.wait_job(job_id, timeout=5)


def test_progress_and_draining(acme, client, monkeypatch):
    monkeypatch.setenv("WM_WORKSPACE", acme.workspace_id)  # the client asks the environment here
    acme.deploy("u/alice/later", "def main():\n    pass\n", tag="nobody")
    job_id = client.run_script_by_path_async("u/alice/later", {})

    client.set_progress(42, job_id)

    assert client.get_progress(job_id) == 42
    assert client.worker_is_draining(job_id) is False


def test_inside_a_job_the_client_uses_its_own_token(acme, client):
    code = """import json, os, urllib.request

def main():
    headers = {"Authorization": f"Bearer {os.environ['WM_TOKEN']}"}
    url = f"{os.environ['BASE_INTERNAL_URL']}/api/w/{os.environ['WM_WORKSPACE']}/users/whoami"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return [answer.status, json.load(answer)["username"]]
"""
    acme.deploy("u/alice/whoami", code, tag=None)

    assert client.run_script_by_path("u/alice/whoami", args={}, timeout=30) == [200, "alice"]


def test_identity_and_version(acme, client):
    assert client.version.startswith("CE v")
    assert client.user["email"] == "alice@example.com"


def test_variables_resources_and_state(acme, client):
    client.set_variable("u/alice/greeting", "hello")
    client.set_resource({"host": "$var:u/alice/greeting"}, "u/alice/db", "any")
    client.set_state({"cursor": 7}, path="u/alice/state")

    assert client.get_variable("u/alice/greeting") == "hello"
    assert client.get_resource("u/alice/db") == {"host": "hello"}
    assert client.get_state(path="u/alice/state") == {"cursor": 7}


def test_a_step_makes_approval_links_and_shares_states(acme, client, monkeypatch):
    run = make_waiting(acme.workspace_id)
    monkeypatch.setenv("WM_JOB_ID", str(run.step))
    monkeypatch.setenv("WM_ROOT_FLOW_JOB_ID", str(run.id))

    links = client.get_resume_urls(approver="zoe")
    client.set_flow_user_state("cart", {"items": [1]})

    assert client.get_flow_user_state("cart") == {"items": [1]}
    assert client.get_flow_user_state("other") is None
    assert set(links) == {"approvalPage", "resume", "cancel"}
    assert f"/approve/{acme.workspace_id}/{run.step}/" in links["approvalPage"]
    assert client.get_resume_urls() != links
