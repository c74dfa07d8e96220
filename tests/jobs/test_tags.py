"""Tags that scripts, flows and runs ask for: what no worker can listen to is refused before a job waits for ever."""

import pytest

from jobs import runs, scripts, tags
from jobs.flows import deployed
from jobs.models import Job
from jobs.payloads import Payload
from jobs.runs import RunOptions
from tests.tenancy import enter, make_workspace
from workspaces.access import Caller
from workspaces.errors import BadRequest

UNUSABLE = ["gpu(", "gpu(acme)", "a,b", " gpu", "$args[a", "$machine", "g\npu"]


@pytest.fixture
def ada(db: None) -> Caller:
    return enter(make_workspace("acme", admin="ada@example.com"), "ada@example.com")


def draft(tag: str) -> scripts.ScriptDraft:
    return scripts.ScriptDraft(path="u/ada/x", content="echo 1", language="bash", tag=tag)


@pytest.mark.parametrize("tag", UNUSABLE)
def test_a_script_with_a_tag_that_no_worker_can_listen_to_is_refused(ada: Caller, tag: str) -> None:
    with pytest.raises(
        BadRequest, match=r"no worker can listen to tag .* expected at most 255 characters, no comma"
    ):
        scripts.deploy_script(ada, draft(tag))


@pytest.mark.parametrize("tag", UNUSABLE)
def test_a_run_that_asks_for_one_is_refused(ada: Caller, tag: str) -> None:
    script = scripts.deploy_script(ada, draft("gpu"))

    with pytest.raises(BadRequest, match="no worker can listen to tag"):
        runs.run_script(ada, script, Payload(args={}), RunOptions(tag=tag))

    assert not Job.objects.exists()


def test_a_step_of_a_flow_with_one_is_refused(ada: Caller) -> None:
    step = {"id": "a", "value": {"type": "rawscript", "language": "bash", "content": "echo 1", "tag": "gpu("}}

    with pytest.raises(BadRequest, match="no worker can listen to tag 'gpu\\('"):
        deployed.create_flow(ada, deployed.FlowDraft(path="u/ada/f", value={"modules": [step]}))


def test_what_arguments_make_of_a_tag_is_checked_when_it_is_known(ada: Caller) -> None:
    script = scripts.deploy_script(ada, draft("m-$args[machine.name]-$workspace"))

    job = runs.run_script(ada, script, Payload(args={"machine": {"name": "big"}}), RunOptions())
    assert Job.objects.get(pk=job).tag == "m-big-acme"

    with pytest.raises(
        BadRequest, match=r"'m-\$args\[machine.name\]-\$workspace', which becomes 'm-a,b-acme',"
    ):
        runs.run_script(ada, script, Payload(args={"machine": {"name": "a,b"}}), RunOptions())


def test_the_longest_tag_is_one_that_workers_take() -> None:
    assert tags.is_tag("x" * tags.MAX_TAG)
    assert not tags.is_tag("x" * (tags.MAX_TAG + 1))
