"""Who may read and change what: u/, f/, g/, rules of items, roles."""

import pytest

from tests.tenancy import identity, join, make_account, make_workspace
from tests.workspaces.conftest import People
from workspaces import acls, folders, groups, variables, workspaces
from workspaces.access import Caller, Right, caller_for_job, enter_workspace
from workspaces.errors import BadRequest, Conflict, NotFound, NotSignedIn, PermissionDenied
from workspaces.models import Account, Member


def make_variable(caller: Caller, path: str) -> None:
    variables.create_variable(caller, path=path, value="x", is_secret=False)


def readable(caller: Caller) -> list[str]:
    return list(variables.list_variables(caller).values_list("path", flat=True))


def test_ones_own_paths_are_ones_own(people: People) -> None:
    make_variable(people.dev, "u/dan/x")

    assert people.dev.right_on("u/dan/x") is Right.OWN
    with pytest.raises(PermissionDenied, match="u/ann"):
        make_variable(people.dev, "u/ann/x")


def test_a_username_that_starts_like_another_gives_no_right_on_it(people: People) -> None:
    danny = join(people.workspace, "danny@example.com")
    make_variable(danny, "u/danny/x")

    assert readable(people.dev) == []
    assert people.dev.right_on("u/danny/x") is Right.NONE


def test_an_underscore_in_a_name_is_no_wildcard(people: People) -> None:
    someone = join(people.workspace, "d_n@example.com")
    make_variable(people.dev, "u/dan/x")

    assert readable(someone) == []


def test_what_cannot_be_read_does_not_exist_and_what_can_says_which_right_is_missing(people: People) -> None:
    make_variable(people.admin, "u/ann/x")

    with pytest.raises(NotFound):
        variables.update_variable(people.dev, "u/ann/x", value="y")
    acls.set_rule(people.admin, "variable", "u/ann/x", owner="u/dan", may_write=False)
    assert variables.get_value(people.dev, "u/ann/x") == "x"
    with pytest.raises(PermissionDenied, match="write u/ann/x"):
        variables.update_variable(people.dev, "u/ann/x", value="y")


def test_a_rule_that_gives_write_gives_no_right_to_share(people: People) -> None:
    make_variable(people.admin, "u/ann/x")
    acls.set_rule(people.admin, "variable", "u/ann/x", owner="u/dan", may_write=True)

    variables.update_variable(people.dev, "u/ann/x", value="y")
    with pytest.raises(PermissionDenied, match="manage"):
        acls.set_rule(people.dev, "variable", "u/ann/x", owner="u/oda", may_write=True)


def test_folder_rules_hold_for_what_lies_in_it(people: People) -> None:
    folders.create_folder(people.admin, name="ops", extra_perms={"g/all": False})
    make_variable(people.admin, "f/ops/x")

    assert readable(people.dev) == ["f/ops/x"] and people.dev.right_on("f/ops/x") is Right.READ
    folders.update_folder(people.admin, "ops", extra_perms={"u/dan": True})
    assert people.again(people.dev).right_on("f/ops/x") is Right.WRITE
    assert readable(people.again(people.operator)) == []


def test_rules_of_an_item_add_to_those_of_its_folder_and_take_nothing(people: People) -> None:
    folders.create_folder(people.admin, name="ops", extra_perms={"u/dan": True})
    make_variable(people.admin, "f/ops/x")
    acls.set_rule(people.admin, "variable", "f/ops/x", owner="u/dan", may_write=False)

    assert people.again(people.dev).right_on("f/ops/x", {"u/dan": False}) is Right.WRITE


def test_rights_come_through_groups(people: People) -> None:
    groups.create_group(people.admin, name="crew")
    folders.create_folder(people.admin, name="ops", owners=["g/crew"])
    groups.add_to_group(people.admin, "crew", username="dan")

    dev = people.again(people.dev)
    make_variable(dev, "g/crew/x")
    assert dev.folders_owned == ["ops"] and dev.right_on("g/crew/x") is Right.WRITE
    groups.remove_from_group(people.admin, "crew", username="dan")
    assert people.again(people.dev).folders_owned == []


def test_a_new_group_of_an_old_name_starts_with_no_rights(people: People) -> None:
    groups.create_group(people.admin, name="crew")
    folders.create_folder(people.admin, name="ops", owners=["g/crew", "u/ann"], extra_perms={"g/crew": True})
    groups.delete_group(people.admin, "crew")

    groups.create_group(people.dev, name="crew")

    assert people.again(people.dev).folders_read == []


def test_what_is_left_of_a_deleted_folder_does_not_fall_to_who_makes_it_again(people: People) -> None:
    folders.create_folder(people.admin, name="ops")
    make_variable(people.admin, "f/ops/x")
    folders.delete_folder(people.admin, "ops")

    with pytest.raises(PermissionDenied, match="left in f/ops/"):
        folders.create_folder(people.dev, name="ops")
    folders.create_folder(people.admin, name="ops")


def test_who_makes_a_folder_owns_it_and_cannot_lock_themselves_out(people: People) -> None:
    assert folders.create_folder(people.dev, name="mine").owners == ["u/dan"]
    assert folders.create_folder(people.dev, name="given", owners=["u/ann"]).owners == ["u/ann", "u/dan"]
    assert folders.create_folder(people.admin, name="pushed", owners=["g/all"]).owners == ["g/all"]
    with pytest.raises(Conflict):
        folders.create_folder(people.dev, name="mine")


def test_things_lie_in_folders_and_groups_that_exist(people: People) -> None:
    with pytest.raises(BadRequest, match="folder nowhere does not exist"):
        make_variable(people.admin, "f/nowhere/x")
    with pytest.raises(BadRequest, match="group nobody does not exist"):
        make_variable(people.admin, "g/nobody/x")


def test_operators_see_what_is_shared_and_change_nothing(people: People) -> None:
    folders.create_folder(people.admin, name="ops", extra_perms={"g/all": True})
    make_variable(people.admin, "f/ops/x")

    assert readable(people.operator) == ["f/ops/x"]
    for deed in (
        lambda: make_variable(people.operator, "u/oda/x"),
        lambda: variables.update_variable(people.operator, "f/ops/x", value="y"),
        lambda: folders.create_folder(people.operator, name="mine"),
        lambda: groups.create_group(people.operator, name="mine"),
    ):
        with pytest.raises(PermissionDenied, match="operator"):
            deed()


def test_a_job_that_an_operator_started_writes_where_the_operator_has_rights(people: People) -> None:
    job = caller_for_job(
        workspace_id="acme", email="oda@example.com", username="oda", permissioned_as="u/oda"
    )

    make_variable(job, "u/oda/state")
    with pytest.raises(PermissionDenied):
        make_variable(job, "u/ann/state")


def test_a_job_of_a_superadmin_has_no_power_over_the_instance(people: People) -> None:
    job = caller_for_job(
        workspace_id="acme",
        email="root@example.com",
        username="root@example.com",
        permissioned_as="u/root@example.com",
    )

    assert job.is_admin
    with pytest.raises(PermissionDenied):
        job.identity.require_super_admin()


def test_a_job_of_a_group_has_the_rights_of_the_group_alone(people: People) -> None:
    groups.create_group(people.admin, name="crew")
    make_variable(people.admin, "g/crew/x")
    make_variable(people.admin, "u/ann/x")
    job = caller_for_job(
        workspace_id="acme", email="ann@example.com", username="ann", permissioned_as="g/crew"
    )

    assert readable(job) == ["g/crew/x"] and not job.is_admin


def test_a_job_of_a_disabled_account_gets_nowhere(people: People) -> None:
    Account.objects.filter(pk="dan@example.com").update(disabled=True)

    with pytest.raises(NotSignedIn, match="disabled"):
        caller_for_job(workspace_id="acme", email="dan@example.com", username="dan", permissioned_as="u/dan")


def test_outsiders_disabled_members_and_archived_workspaces(people: People) -> None:
    make_account("stranger@example.com")
    Member.objects.filter(username="oda").update(disabled=True)

    with pytest.raises(NotFound, match="not a member"):
        enter_workspace(identity("stranger@example.com"), "acme")
    with pytest.raises(PermissionDenied, match="disabled"):
        enter_workspace(identity("oda@example.com"), "acme")
    workspaces.archive_workspace(people.admin)
    with pytest.raises(NotFound):
        enter_workspace(identity("dan@example.com"), "acme")
    assert enter_workspace(identity("root@example.com"), "acme").is_admin


def test_the_same_path_in_two_workspaces_is_two_things(people: People) -> None:
    make_workspace("other", admin="ann@example.com")
    elsewhere = enter_workspace(identity("ann@example.com"), "other")
    make_variable(people.admin, "u/ann/x")

    with pytest.raises(NotFound):
        variables.get_variable(elsewhere, "u/ann/x")
    make_variable(elsewhere, "u/ann/x")
    variables.delete_variable(elsewhere, "u/ann/x")
    assert readable(people.admin) == ["u/ann/x"]


def test_a_token_for_one_path_lists_and_reads_that_alone(people: People) -> None:
    make_variable(people.admin, "u/ann/x")
    make_variable(people.admin, "u/ann/y")
    limited = enter_workspace(identity("ann@example.com", scopes=("variables:read:u/ann/x",)), "acme")

    assert readable(limited) == ["u/ann/x"]
    with pytest.raises(PermissionDenied, match="variables:read:u/ann/y"):
        variables.get_variable(limited, "u/ann/y")
    with pytest.raises(PermissionDenied, match="variables:write"):
        variables.update_variable(limited, "u/ann/x", value="z")


def test_moving_needs_the_right_on_both_ends(people: People) -> None:
    make_variable(people.dev, "u/dan/x")
    folders.create_folder(people.admin, name="ops")

    with pytest.raises(PermissionDenied):
        variables.update_variable(people.dev, "u/dan/x", new_path="f/ops/x")
    assert variables.update_variable(people.dev, "u/dan/x", new_path="u/dan/y") == "u/dan/y"
    make_variable(people.dev, "u/dan/x")
    with pytest.raises(Conflict, match="u/dan/y exists"):
        variables.update_variable(people.dev, "u/dan/x", new_path="u/dan/y")
