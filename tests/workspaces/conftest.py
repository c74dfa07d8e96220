"""A workspace with an admin, a developer and an operator, as callers."""

from dataclasses import dataclass

import pytest

from tests.tenancy import enter, join, make_account, make_workspace
from workspaces.access import Caller
from workspaces.models import Workspace


@dataclass
class People:
    """Members of workspace `acme`, each ready to call."""

    workspace: Workspace
    admin: Caller
    dev: Caller
    operator: Caller

    def again(self, caller: Caller) -> Caller:
        """The same person, rights looked up anew."""
        return enter(self.workspace, caller.email)


@pytest.fixture
def people(db: None) -> People:
    make_account("root@example.com", super_admin=True)
    workspace = make_workspace("acme", admin="ann@example.com")
    return People(
        workspace=workspace,
        admin=enter(workspace, "ann@example.com"),
        dev=join(workspace, "dan@example.com"),
        operator=join(workspace, "oda@example.com", operator=True),
    )
