"""Accounts, workspaces, members and tokens for tests: the smallest real rows, made through the domain functions."""

from typing import Any

from workspaces import folders, resources, tokens, variables, workspaces
from workspaces.access import Caller, Identity, enter_workspace
from workspaces.models import Account, Member, Token, Workspace


def make_account(email: str, **columns: Any) -> Account:
    """An account that cannot sign in with a password (hashing one costs 100 ms)."""
    account, _ = Account.objects.get_or_create(pk=email, defaults={"password": "!", **columns})
    return account


def identity(email: str, **fields: Any) -> Identity:
    """The account as if it had called with an unrestricted token."""
    account = make_account(email)
    return Identity(
        email=email, account=account, super_admin=account.super_admin, devops=account.devops, **fields
    )


def make_workspace(id: str, *, admin: str) -> Workspace:
    """A workspace with one admin."""
    make_account("root@example.com", super_admin=True)
    workspace = workspaces.create_workspace(
        identity("root@example.com"), id=id, name=id.title(), username="root"
    )
    Member.objects.filter(workspace=workspace).delete()
    join(workspace, admin, is_admin=True)
    return workspace


def join(workspace: Workspace, email: str, **roles: bool) -> Caller:
    """Make the account a member under the first part of its address; answers it as a caller."""
    make_account(email)
    Member.objects.create(workspace=workspace, email=email, username=email.split("@")[0], **roles)
    return enter(workspace, email)


def enter(workspace: Workspace, email: str) -> Caller:
    """A member as a caller."""
    return enter_workspace(identity(email), workspace.id)


def token_for(email: str, **limits: Any) -> str:
    """The text of a token of the account. `limits`: scopes, read_only, workspace_id."""
    text = tokens.create_token(identity(email), **limits)
    assert Token.objects.filter(token_hash=tokens.hash_token(text)).exists()
    return text


def fill(caller: Caller, folder: str, *, secret: str) -> None:
    """A folder with a secret variable and a resource that refers to it; the same under u/<caller>."""
    folders.create_folder(caller, name=folder)
    for place in (f"f/{folder}", f"u/{caller.username}"):
        variables.create_variable(
            caller, path=f"{place}/secret", value=secret, is_secret=True, description=secret
        )
        resources.create_resource(
            caller,
            path=f"{place}/database",
            resource_type="postgresql",
            value={"host": secret, "password": f"$var:{place}/secret"},
        )
