"""The list of custom tags: who uses each, who takes it, and changes that lose nothing."""

import pytest

from jobs import scripts
from jobs.flows import deployed
from jobs.models import WorkerPing
from tests.tenancy import enter, identity, make_workspace
from workers.fleet import custom_tags
from workspaces import instance_settings
from workspaces.access import Identity
from workspaces.custom_tags import CustomTag, parse
from workspaces.errors import BadRequest, Conflict, NotFound, PermissionDenied

pytestmark = pytest.mark.django_db
STEP = {"type": "rawscript", "language": "bash", "content": "echo 1", "input_transforms": {}, "tag": "gpu"}


@pytest.fixture
def root() -> Identity:
    make_workspace("acme", admin="ann@example.com")
    return identity("root@example.com")


def kept(root: Identity) -> list[str]:
    value: list[str] = instance_settings.get_setting(root, "custom_tags")
    return value


def test_tags_are_added_changed_and_removed_one_by_one(root: Identity) -> None:
    custom_tags.add(parse("gpu(acme)"), actor=root)
    custom_tags.add(parse("big"), actor=root)
    custom_tags.replace("gpu", parse("gpu(^acme)"), actor=root)
    assert kept(root) == ["gpu(^acme)", "big"]

    custom_tags.remove("gpu", actor=root)
    assert kept(root) == ["big"]


def test_what_cannot_be_done_says_why_and_changes_nothing(root: Identity) -> None:
    custom_tags.add(parse("gpu"), actor=root)
    custom_tags.add(parse("big"), actor=root)

    with pytest.raises(Conflict, match="gpu exists already"):
        custom_tags.add(parse("gpu(acme)"), actor=root)
    with pytest.raises(Conflict, match="big exists already"):
        custom_tags.replace("gpu", parse("big"), actor=root)
    with pytest.raises(NotFound):
        custom_tags.replace("slow", parse("slow"), actor=root)
    with pytest.raises(NotFound):
        custom_tags.remove("slow", actor=root)
    with pytest.raises(BadRequest, match="'two words' is not valid"):
        custom_tags.add(CustomTag(name="two words"), actor=root)
    with pytest.raises(PermissionDenied):
        custom_tags.add(parse("slow"), actor=Identity(email="ops@example.com", devops=True))

    assert kept(root) == ["gpu", "big"]


def test_the_list_counts_scripts_flows_and_live_workers(root: Identity) -> None:
    ann = enter(make_workspace("umbra", admin="una@example.com"), "una@example.com")
    for text in ("gpu", "team-$workspace", "idle"):
        custom_tags.add(parse(text), actor=root)
    for path in ("u/una/a", "u/una/b"):
        scripts.deploy_script(
            ann, scripts.ScriptDraft(path=path, content="echo 1", language="bash", tag="gpu")
        )
    scripts.archive_path(ann, "u/una/b")
    steps = [{"id": "a", "value": STEP}, {"id": "b", "value": STEP}]
    deployed.create_flow(ann, deployed.FlowDraft(path="u/una/flow", value={"modules": steps}))
    WorkerPing.objects.create(worker="w1", worker_instance="h", custom_tags=["gpu", "team-umbra"])
    WorkerPing.objects.create(worker="w2", worker_instance="h", custom_tags=["gpu"], state="draining")

    shown = {
        row.tag.name: (row.script_count, row.flow_count, row.worker_count) for row in custom_tags.list_tags()
    }

    assert shown == {"gpu": (1, 1, 1), "team-$workspace": (0, 0, 1), "idle": (0, 0, 0)}
    assert [(use.kind, use.workspace_id, use.path) for use in custom_tags.uses("gpu")] == [
        ("script", "umbra", "u/una/a"),
        ("flow", "umbra", "u/una/flow"),
    ]
    assert custom_tags.list_tags()[0].worker_groups == ("default",)


def test_a_workspace_that_does_not_exist_is_told(root: Identity) -> None:
    assert custom_tags.unknown_workspaces(parse("gpu(acme+acne)")) == ["acne"]
