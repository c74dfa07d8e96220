"""Who may read and run which version of a script, also after rights were taken back."""

from dataclasses import replace

import pytest

from jobs import scripts
from jobs.models import Script
from tests.tenancy import enter, join, make_workspace
from workspaces import acls, groups
from workspaces.access import Caller
from workspaces.errors import NotFound
from workspaces.models import Workspace

DRAFT = scripts.ScriptDraft(path="u/alice/report", content="def main(): ...", language="python3")


@pytest.fixture
def acme(db: None) -> Workspace:
    workspace = make_workspace("acme", admin="ada@example.com")
    join(workspace, "alice@example.com")
    join(workspace, "dave@example.com")
    return workspace


@pytest.fixture
def alice(acme: Workspace) -> Caller:
    return enter(acme, "alice@example.com")


def dave(acme: Workspace) -> Caller:
    return enter(acme, "dave@example.com")


@pytest.mark.parametrize("path", ["u/alice/report", "u/alice/moved"])
def test_a_right_that_is_taken_back_is_gone_for_older_versions_too(
    path: str, acme: Workspace, alice: Caller
) -> None:
    first = scripts.deploy_script(alice, DRAFT)
    acls.set_rule(alice, "script", DRAFT.path, owner="u/dave", may_write=False)
    changed = replace(DRAFT, path=path, content="def main(): return 1")
    second = scripts.deploy_script(alice, changed, parent_hash=first.hash)
    assert scripts.get_to_run(dave(acme), hash=first.hash) == first

    acls.remove_rule(alice, "script", path, owner="u/dave")

    for version in (first, second):
        with pytest.raises(NotFound):
            scripts.get_to_run(dave(acme), hash=version.hash)


def test_a_group_made_again_inherits_no_rights_on_archived_scripts(acme: Workspace, alice: Caller) -> None:
    groups.create_group(alice, name="team")
    script = scripts.deploy_script(alice, DRAFT)
    acls.set_rule(alice, "script", DRAFT.path, owner="g/team", may_write=False)
    scripts.archive_path(alice, DRAFT.path)

    groups.delete_group(alice, "team")

    assert Script.objects.get(pk=script.pk).extra_perms == {}


def test_a_developer_makes_nothing_run_as_somebody_else(acme: Workspace, alice: Caller) -> None:
    admin = enter(acme, "ada@example.com")
    as_admin = replace(DRAFT, on_behalf_of_email="ada@example.com")
    acls_for = scripts.deploy_script(admin, replace(as_admin, path="u/alice/by_admin"))

    own = scripts.deploy_script(alice, as_admin)
    edited = scripts.deploy_script(
        alice,
        replace(as_admin, path="u/alice/by_admin", content="def main(): return 'mine'"),
        parent_hash=acls_for.hash,
    )

    assert acls_for.on_behalf_of_email == "ada@example.com"
    assert own.on_behalf_of_email == edited.on_behalf_of_email == "alice@example.com"
