"""Custom tags over REST: written as an instance setting, restricted by workspace at deployment and at run."""

from typing import Any

import pytest

from jobs.models import Job, WorkerPing
from tests.api.conftest import World

RAW = {"type": "rawscript", "language": "bash", "content": "echo 1", "input_transforms": {}}


@pytest.fixture
def tags(world: World) -> None:
    """gpu is for workspace other only, big for all but other, team-acme for workspace other only, slow for everybody."""
    value = ["gpu(other)", "big(^other)", "team-acme(other)", "slow", "team-$workspace"]
    assert world.post("root", "settings/global/custom_tags", {"value": value}).status_code == 200


def deploy(world: World, path: str, **fields: Any) -> Any:
    return world.post(
        "alice", "w/acme/scripts/create", {"path": path, "content": "echo 1", "language": "bash", **fields}
    )


def deploy_flow(world: World, value: dict[str, Any], **fields: Any) -> Any:
    body = {"path": "u/alice/steps", "summary": "", "value": value, **fields}
    return world.post("alice", "w/acme/flows/create", body)


def test_a_pattern_that_means_nothing_is_refused(world: World) -> None:
    answer = world.post("root", "settings/global/custom_tags", {"value": ["gpu(acme,other)"]})

    assert answer.status_code == 400 and b"gpu(acme,other)" in answer.content


def test_each_workspace_has_its_tags(world: World, tags: None) -> None:
    of_acme = world.get("alice", "w/acme/workers/custom_tags").json()
    of_other = world.get("olga", "w/other/workers/custom_tags").json()

    assert of_acme == ["big", "slow", "team-$workspace"]
    assert of_other == ["gpu", "team-acme", "slow", "team-$workspace"]


def test_restrictions_are_shown_to_those_who_run_the_instance(world: World, tags: None) -> None:
    route = "workers/custom_tags?show_workspace_restriction=true"

    assert world.get("root", route).json()[:2] == ["gpu(other)", "big(^other)"]
    assert world.get("alice", route).json()[:2] == ["gpu", "big"]


def test_default_tags_of_each_workspace_are_told(world: World) -> None:
    assert world.get("alice", "workers/is_default_tags_per_workspace").json() is False
    world.post("root", "settings/global/default_tags_per_workspace", {"value": True})

    assert world.get("alice", "workers/is_default_tags_per_workspace").json() is True


def test_a_tag_of_the_workspace_is_looked_for_under_its_own_name(world: World) -> None:
    WorkerPing.objects.create(worker="w1", worker_instance="h", custom_tags=["team-acme"])

    answer = world.get("alice", "workers/exists_workers_with_tags?tags=team-$workspace,gpu&workspace=acme")

    assert answer.json() == {"team-$workspace": True, "gpu": False}


def test_a_script_cannot_be_deployed_with_a_tag_of_other_workspaces(world: World, tags: None) -> None:
    for tag in ("gpu", "team-$workspace"):
        answer = deploy(world, "u/alice/train", tag=tag)
        assert answer.status_code == 400 and b"not available in workspace acme" in answer.content

    assert deploy(world, "u/alice/train", tag="big").status_code == 201


def test_a_flow_cannot_be_deployed_with_a_tag_of_other_workspaces(world: World, tags: None) -> None:
    step = {"id": "a", "value": {**RAW, "tag": "gpu"}}
    loop = {
        "id": "b",
        "value": {
            "type": "forloopflow",
            "iterator": {"type": "static", "value": [1]},
            "skip_failures": False,
            "modules": [step],
        },
    }

    of_the_flow = deploy_flow(world, {"modules": []}, tag="gpu")
    of_a_step = deploy_flow(world, {"modules": [loop]})

    assert of_the_flow.status_code == 400 and b"tag gpu is not available" in of_the_flow.content
    assert of_a_step.status_code == 400
    assert b"modules[0].value.modules[0].value: tag gpu is not available" in of_a_step.content


def test_a_tag_that_depends_on_arguments_is_decided_when_they_are_known(world: World, tags: None) -> None:
    assert deploy(world, "u/alice/any", tag="$args[machine.kind]").status_code == 201
    run = "w/acme/jobs/run/p/u/alice/any"

    refused = world.post("alice", run, {"machine": {"kind": "gpu"}})
    taken = world.post("alice", run, {"machine": {"kind": "big"}})

    assert refused.status_code == 400 and b"tag gpu is not available" in refused.content
    assert Job.objects.get(pk=taken.content.decode()).tag == "big"
