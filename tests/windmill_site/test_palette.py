"""The palette: what it finds for whom, and what a first character asks for."""

from uuid import uuid4

import pytest
from django.test import Client

from jobs import queue, scripts
from jobs.flows import deployed
from tests import tenancy
from workspaces import folders

pytestmark = pytest.mark.django_db

GREET = 'def main(name):\n    # Grüße for everybody\n    return f"hello {name}"\n'


@pytest.fixture
def acme():
    """Ada is admin, bob a developer who may read f/shared but not u/ada, cleo an operator."""
    workspace = tenancy.make_workspace("acme", admin="ada@example.com")
    tenancy.join(workspace, "bob@example.com")
    tenancy.join(workspace, "cleo@example.com", operator=True)
    ada = tenancy.enter(workspace, "ada@example.com")
    folders.create_folder(ada, name="shared", extra_perms={"g/all": False})
    scripts.deploy_script(ada, scripts.ScriptDraft(path="f/shared/greet", content=GREET, language="python3"))
    rawscript = {"type": "rawscript", "language": "python3", "content": GREET, "input_transforms": {}}
    for path in ("f/shared/onboard", "u/ada/private"):
        value = {"modules": [{"id": "b", "value": rawscript}]}
        deployed.create_flow(ada, deployed.FlowDraft(path=path, value=value, summary=f"Flow {path}"))
    return workspace


def found(name, text):
    client = Client()
    client.cookies["token"] = tenancy.token_for(f"{name}@example.com")
    hits = client.get("/palette/", {"q": text, "w": "acme"}).context["hits"]
    return [(hit["kind"], hit["hint"]) for hit in hits]


def test_flows_are_found_by_path_and_summary_by_those_who_may_read_them(acme):
    assert found("bob", "flow onb") == [("Flow", "f/shared/onboard")]
    assert ("Flow", "u/ada/private") in found("ada", "flow")
    assert ("Flow", "u/ada/private") not in found("bob", "flow")


@pytest.mark.parametrize("text", ["# HELLO {name", "#grüße", '#return f"'])
def test_a_hash_searches_code_of_scripts_and_inline_code_of_flows(acme, text):
    assert found("bob", text) == [("Script", "f/shared/greet"), ("Flow", "f/shared/onboard, step b")]
    assert found("cleo", text) == []


def test_a_hash_finds_no_keys_of_the_flow_itself(acme):
    assert found("ada", "#input_transforms") == []


def test_a_greater_than_searches_runs(acme):
    job_id = queue.push_job(
        queue.JobRequest(
            workspace_id="acme",
            kind="script",
            runnable_path="f/shared/greet",
            runnable_id=1,
            language="python3",
            tag="python3",
            args={},
            created_by="ada",
            permissioned_as="u/ada",
            permissioned_as_email="ada@example.com",
        )
    )

    assert [kind for kind, _ in found("ada", "> path:f/shared/greet")] == ["Queued"]
    assert found("ada", f">{uuid4()}") == []
    assert found("ada", str(job_id)) == [("Run", str(job_id))]


def test_an_at_searches_people(acme):
    assert found("bob", "@cle") == [("Person", "cleo@example.com")]
    assert found("cleo", "@cle") == []
