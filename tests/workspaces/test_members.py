"""Members: roles, and a workspace that never loses its last admin."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.tenancy import join, make_account
from tests.workspaces.conftest import People
from workspaces import folders, workspaces
from workspaces.errors import BadRequest, Conflict, NotFound, PermissionDenied
from workspaces.models import Member


def test_the_last_admin_can_neither_step_down_nor_leave(people: People) -> None:
    for deed in (
        lambda: workspaces.update_member(people.admin, "ann", is_admin=False),
        lambda: workspaces.update_member(people.admin, "ann", disabled=True),
        lambda: workspaces.update_member(people.admin, "ann", operator=True),
        lambda: workspaces.remove_member(people.admin, "ann"),
        lambda: workspaces.leave_workspace(people.admin),
    ):
        with pytest.raises(BadRequest, match="last admin"):
            deed()
    assert Member.objects.get(username="ann").is_admin


def test_with_a_second_admin_the_first_may_go(people: People) -> None:
    workspaces.update_member(people.admin, "dan", is_admin=True)

    workspaces.leave_workspace(people.admin)

    assert list(Member.objects.values_list("username", flat=True)) == ["dan", "oda"]


def test_a_disabled_admin_does_not_count_as_another(people: People) -> None:
    workspaces.update_member(people.admin, "dan", is_admin=True)
    workspaces.update_member(people.admin, "dan", disabled=True)

    with pytest.raises(BadRequest, match="last admin"):
        workspaces.remove_member(people.admin, "ann")


def test_only_admins_manage_members(people: People) -> None:
    make_account("new@example.com")
    for deed in (
        lambda: workspaces.add_member(
            people.dev, email="new@example.com", username=None, is_admin=True, operator=False
        ),
        lambda: workspaces.update_member(people.dev, "dan", is_admin=True),
        lambda: workspaces.remove_member(people.dev, "oda"),
        lambda: workspaces.rename_workspace(people.dev, name="Mine"),
        lambda: workspaces.archive_workspace(people.dev),
    ):
        with pytest.raises(PermissionDenied, match="admin of workspace acme"):
            deed()


def test_a_member_has_an_account_and_a_username_of_their_own(people: People) -> None:
    make_account("dan@elsewhere.org")

    with pytest.raises(BadRequest, match="no account"):
        workspaces.add_member(
            people.admin, email="ghost@example.com", username=None, is_admin=False, operator=False
        )
    with pytest.raises(Conflict, match="dan is taken"):
        workspaces.add_member(
            people.admin, email="dan@elsewhere.org", username=None, is_admin=False, operator=False
        )
    with pytest.raises(NotFound):
        workspaces.update_member(people.admin, "ghost", operator=True)


def test_a_list_of_members_costs_the_same_however_long_it_is(people: People) -> None:
    folders.create_folder(people.admin, name="ops", owners=["u/dan"])

    def cost() -> tuple[int, list[dict[str, object]]]:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            shapes = workspaces.member_shapes(people.admin, list(workspaces.list_members(people.admin)))
        return len(queries), shapes

    few, shapes = cost()
    for i in range(5):
        join(people.workspace, f"more{i}@example.com")
    many, _ = cost()

    assert few == many <= 4
    assert {row["username"]: row["folders"] for row in shapes} == {"ann": ["ops"], "dan": ["ops"], "oda": []}


def test_nobody_is_called_anonymous(people: People) -> None:
    """Jobs of `anonymous` are open to whoever holds their id."""
    make_account("anonymous@example.com")
    make_account("eve@example.com")

    with pytest.raises(BadRequest, match="not signed in"):
        workspaces.add_member(
            people.admin, email="eve@example.com", username="anonymous", is_admin=False, operator=False
        )
    named = workspaces.add_member(
        people.admin, email="anonymous@example.com", username=None, is_admin=False, operator=False
    )

    assert named.username == "uanonymous"
