"""Tokens: never stored, never more powerful than the one they were made with."""

from typing import Any

import pytest
from django.test import override_settings

from tests.tenancy import identity, make_account
from tests.workspaces.conftest import People
from workspaces import accounts, tokens
from workspaces.access import Identity, enter_workspace, identity_for_job
from workspaces.errors import BadRequest, NotFound, NotSignedIn, PermissionDenied
from workspaces.models import Account, Token


def test_only_the_hash_is_kept(people: People) -> None:
    text = tokens.create_token(identity("dan@example.com"))

    row = Token.objects.get(token_prefix=text[:10])
    assert text not in str(row.__dict__) and row.token_hash == tokens.hash_token(text)
    assert tokens.authenticate(text).email == "dan@example.com"


@pytest.mark.parametrize("text", ["", "x" * 32, "x" * 5000, "a\x00b", "jwt_", "jwt_a.b.c", "é" * 32])
def test_what_is_no_token_opens_nothing(text: str, people: People) -> None:
    with pytest.raises(NotSignedIn):
        tokens.authenticate(text)


def test_who_calls_and_what_they_are_here_costs_two_round_trips(
    people: People, django_assert_num_queries: Any
) -> None:
    text = tokens.create_token(identity("dan@example.com"))

    with django_assert_num_queries(2):
        caller = enter_workspace(tokens.authenticate(text), "acme")

    assert (caller.username, caller.member, caller.workspace) == ("dan", people.dev.member, people.workspace)
    assert caller.identity.account == Account.objects.get(pk="dan@example.com")


def test_a_token_of_a_deleted_account_opens_nothing(people: People) -> None:
    text = tokens.create_token(identity("dan@example.com"))
    Account.objects.filter(pk="dan@example.com").delete()

    with pytest.raises(NotSignedIn, match="disabled or gone"):
        tokens.authenticate(text)


def test_limits_carry_over_to_the_tokens_made_with_a_token(people: People) -> None:
    confined = identity(
        "dan@example.com", workspace_id="acme", read_only=True, scopes=("variables:read", "users:write")
    )

    with pytest.raises(BadRequest, match="same or fewer"):
        tokens.create_token(confined)
    with pytest.raises(BadRequest, match="same or fewer"):
        tokens.create_token(confined, scopes=["variables:write"])
    made = tokens.authenticate(tokens.create_token(confined, scopes=["variables:read"]))
    assert (made.workspace_id, made.read_only, made.scopes) == ("acme", True, ("variables:read",))


def test_a_token_is_made_for_workspaces_one_is_in(people: People) -> None:
    make_account("stranger@example.com")

    with pytest.raises(NotFound):
        tokens.create_token(identity("stranger@example.com"), workspace_id="acme")


def test_impersonation_is_for_superadmins(people: People) -> None:
    with pytest.raises(PermissionDenied):
        tokens.create_impersonation(identity("ann@example.com"), email="dan@example.com")
    made = tokens.create_impersonation(identity("root@example.com"), email="dan@example.com")
    assert tokens.authenticate(made).email == "dan@example.com"


def test_the_superadmin_secret_is_compared_whole(db: None) -> None:
    with override_settings(SUPERADMIN_SECRET="a long enough secret"):
        assert tokens.authenticate("a long enough secret").super_admin
        with pytest.raises(NotSignedIn):
            tokens.authenticate("a long enough secre")


def test_a_new_password_ends_the_other_sign_ins_but_not_this_one_nor_api_tokens(people: People) -> None:
    account = identity("dan@example.com").account
    assert account is not None
    here, elsewhere = tokens.create_session(account), tokens.create_session(account)
    api = tokens.create_token(identity("dan@example.com"), label="ci")

    accounts.set_password(
        tokens.authenticate(here), email="dan@example.com", new_password="a long enough one"
    )

    assert tokens.authenticate(here) and tokens.authenticate(api)
    with pytest.raises(NotSignedIn):
        tokens.authenticate(elsewhere)


def test_passwords_are_long_and_not_well_known(people: People) -> None:
    for password in ("short", "password123", "changeme"):
        with pytest.raises(BadRequest, match="password"):
            accounts.set_password(identity("dan@example.com"), email="dan@example.com", new_password=password)


def test_the_last_superadmin_stays(people: People) -> None:
    root = identity("root@example.com")
    for deed in (
        lambda: accounts.update_account(root, "root@example.com", is_super_admin=False),
        lambda: accounts.update_account(root, "root@example.com", disabled=True),
        lambda: accounts.delete_account(root, "root@example.com"),
    ):
        with pytest.raises(BadRequest, match="last superadmin"):
            deed()


def test_starting_twice_makes_one_superadmin(db: None) -> None:
    assert accounts.bootstrap()[1] is True
    assert accounts.bootstrap() == ("admin@windmill.dev", False)


def test_jobs_of_whoever_holds_the_superadmin_secret_have_its_rights(db: None) -> None:
    def starts_as(permissioned_as: str) -> Identity:
        return identity_for_job(
            workspace_id="acme",
            email="superadmin@windmill.dev",
            username="superadmin@windmill.dev",
            permissioned_as=permissioned_as,
        )

    with override_settings(SUPERADMIN_SECRET="a long enough secret"):
        assert starts_as("u/superadmin@windmill.dev").super_admin is True
        assert starts_as("g/all").super_admin is False
        make_account("superadmin@windmill.dev")
        assert starts_as("u/superadmin@windmill.dev").super_admin is False, "an account is what it is"
    Account.objects.all().delete()
    with override_settings(SUPERADMIN_SECRET=None):
        assert starts_as("u/superadmin@windmill.dev").super_admin is False
