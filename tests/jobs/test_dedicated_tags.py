"""Dedicated tags: what has a dedicated worker goes to it, wherever it is started from."""

from dataclasses import replace
from typing import Any

import pytest

from jobs import dedicated, flow_runs, runs, scripts, waiting
from jobs.dedicated import Dedicated
from jobs.flows import deployed
from jobs.flows.deployed import FlowDraft
from jobs.models import Job, Script
from jobs.payloads import Payload
from jobs.runs import RunOptions
from tests.jobs.test_waiting_reasons import READY
from tests.tenancy import enter, make_workspace
from workspaces.access import Caller
from workspaces.errors import BadRequest

CODE = "def main(x: int = 1):\n    return x\n"
LONG = "u/ada/reports_of_the_department_monthly_summary_for_the_board"


@pytest.fixture
def ada(db: None) -> Caller:
    return enter(make_workspace("acme", admin="ada@example.com"), "ada@example.com")


def deploy(caller: Caller, path: str = "u/ada/fast", **given: Any) -> Script:
    draft = scripts.ScriptDraft(
        **{"path": path, "content": CODE, "language": "python3", "extra": {"dedicated_worker": True}, **given}
    )
    return scripts.deploy_script(caller, draft, auto_parent=True)


def tag_of_run(caller: Caller, script: Script, **options: Any) -> str:
    job = runs.run_script(caller, script, Payload(args={}), RunOptions(**options))
    return Job.objects.get(pk=job).tag


def test_a_dedicated_script_is_queued_for_its_own_workers(ada: Caller) -> None:
    script = deploy(ada)

    assert tag_of_run(ada, script) == "acme:u/ada/fast"


def test_no_other_tag_takes_a_dedicated_script_from_them(ada: Caller) -> None:
    script = deploy(ada, tag="gpu")

    assert tag_of_run(ada, script, tag="big") == "acme:u/ada/fast"


def test_without_the_setting_the_tag_is_that_of_the_language(ada: Caller) -> None:
    script = deploy(ada, extra={"dedicated_worker": False})

    assert tag_of_run(ada, script) == "python3"


def test_a_long_tag_is_cut_and_stays_unique() -> None:
    one, other = Dedicated("acme", LONG), Dedicated("acme", LONG + "2")

    assert one.tag == "acme:u/ada/reports_of_the_departm" + "#" + one.tag[34:]
    assert len(one.tag) == len(other.tag) == 50
    assert one.tag != other.tag


def test_a_tag_of_fifty_characters_is_not_cut() -> None:
    fits = Dedicated("acme", "u/ada/" + "x" * 39)

    assert len(fits.tag) == 50 and "#" not in fits.tag


def test_a_dedicated_flow_is_queued_for_its_own_workers(ada: Caller) -> None:
    value = {"modules": [{"id": "a", "value": {"type": "identity"}}]}
    draft = FlowDraft(path="u/ada/nightly", value=value, extra={"dedicated_worker": True})
    deployed.create_flow(ada, draft)
    flow, version = deployed.get_to_run(ada, path="u/ada/nightly")

    job = flow_runs.run_flow(ada, flow, version, Payload(args={}), RunOptions(tag="other"))

    assert Job.objects.get(pk=job).tag == "acme:flow/u/ada/nightly"


def test_a_run_with_retries_is_a_flow_for_everybody_whose_attempts_are_for_its_workers(ada: Caller) -> None:
    script = deploy(ada, tag="gpu")

    assert tag_of_run(ada, script, retry={"constant": {"attempts": 1, "seconds": 1}}) == "flow"


@pytest.mark.parametrize("language", ["bash", "postgresql", "go"])
def test_what_cannot_be_kept_warm_cannot_be_dedicated(ada: Caller, language: str) -> None:
    with pytest.raises(BadRequest, match=f"dedicated_worker is for scripts in python3.*in {language}"):
        deploy(ada, language=language, content="x")


def test_any_script_may_say_that_it_is_not_dedicated(ada: Caller) -> None:
    assert deploy(ada, language="bash", content="x", extra={"dedicated_worker": False}).hash


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("acme:f/ops/report", Dedicated("acme", "f/ops/report")),
        (" acme:u/ada/x ", Dedicated("acme", "u/ada/x")),
        ("acme:flow/f/ops/nightly", Dedicated("acme", "f/ops/nightly", is_flow=True)),
        ("acme:f/flow/x", Dedicated("acme", "f/flow/x")),
    ],
)
def test_the_configuration_of_a_group_names_scripts_and_flows(entry: str, expected: Dedicated) -> None:
    assert dedicated.parse(entry) == expected
    assert str(expected) == entry.strip()


@pytest.mark.parametrize(
    "entry", ["", "python3", "acme:", ":f/ops/x", "acme:x", "acme:f/ops", "acme:g/a/b", "acme:f//x"]
)
def test_what_names_neither_is_refused_with_an_example(entry: str) -> None:
    with pytest.raises(BadRequest, match="workspace:path"):
        dedicated.parse(entry)


def test_the_tags_of_dedicated_flows_are_told_from_others() -> None:
    assert dedicated.is_of_flow(Dedicated("acme", "f/ops/nightly", is_flow=True).tag, "acme")
    assert dedicated.is_of_flow(Dedicated("acme", LONG, is_flow=True).tag, "acme")
    assert not dedicated.is_of_flow(Dedicated("acme", "f/flow/nightly").tag, "acme")
    assert not dedicated.is_of_flow(Dedicated("acme", "f/ops/nightly", is_flow=True).tag, "other")


@pytest.mark.parametrize("path", ["u/ada/fast", LONG])
def test_a_job_without_dedicated_workers_says_what_a_group_must_name(ada: Caller, path: str) -> None:
    script = deploy(ada, path)
    job = runs.run_script(ada, script, Payload(args={}), RunOptions())

    why = waiting.why_waiting(job, workspace_id="acme")

    assert why.reason == "no_worker"
    assert f"add acme:{path} to dedicated_workers" in why.sentence


def test_a_step_without_dedicated_workers_names_their_flow() -> None:
    facts = _facts(path=f"{LONG}/a", tag=Dedicated("acme", LONG, is_flow=True).tag)

    assert f"add acme:flow/{LONG} to dedicated_workers" in waiting.explain(facts).sentence


def test_other_tags_are_asked_of_the_environment() -> None:
    assert "WORKER_TAGS" in waiting.explain(_facts(path="u/ada/fast", tag="gpu")).sentence


def _facts(**given: Any) -> waiting.Facts:
    return replace(READY, workers_for_tag=0, workspace_id="acme", **given)
