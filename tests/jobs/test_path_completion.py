"""Paths offered while typing: only those that the caller may read, a bounded number, never a value."""

import pytest

from jobs import path_completion, scripts
from jobs.flows import deployed
from jobs.path_completion import MOST, complete
from tests.tenancy import enter, join, make_workspace
from workspaces import folders, resources, variables
from workspaces.access import Caller
from workspaces.errors import BadRequest
from workspaces.models import Workspace


@pytest.fixture
def acme(db: None) -> Workspace:
    workspace = make_workspace("acme", admin="ada@example.com")
    join(workspace, "bob@example.com")
    return workspace


@pytest.fixture
def ada(acme: Workspace) -> Caller:
    return enter(acme, "ada@example.com")


@pytest.fixture
def bob(acme: Workspace) -> Caller:
    return enter(acme, "bob@example.com")


def deploy(caller: Caller, path: str, language: str = "bash") -> None:
    scripts.deploy_script(caller, scripts.ScriptDraft(path=path, content="echo 1", language=language))


def paths(caller: Caller, prefix: str, *kinds: str, **options: str | list[str]) -> list[str]:
    found = complete(caller, prefix, kinds=kinds or path_completion.KINDS, **options)  # type: ignore[arg-type]
    return [item.path for item in found.items]


def test_paths_of_all_kinds_that_begin_so_in_their_order(ada: Caller) -> None:
    deploy(ada, "u/ada/load")
    deployed.create_flow(ada, deployed.FlowDraft(path="u/ada/lead", value={"modules": []}))
    variables.create_variable(
        ada, path="u/ada/login", value="s3cret", is_secret=True, description="For the shop"
    )
    resources.create_resource(
        ada, path="u/ada/lake", resource_type="postgresql", value={"password": "s3cret"}
    )
    variables.create_variable(ada, path="u/ada/other", value="x", is_secret=False)

    found = complete(ada, "u/ada/l", kinds=path_completion.KINDS)

    assert [(item.kind, item.path, item.type) for item in found.items] == [
        ("resource", "u/ada/lake", "postgresql"),
        ("flow", "u/ada/lead", "flow"),
        ("script", "u/ada/load", "bash"),
        ("variable", "u/ada/login", "secret"),
    ]
    assert found.is_whole
    assert "s3cret" not in str(found)


def test_what_one_may_not_read_is_not_offered(ada: Caller, bob: Caller) -> None:
    folders.create_folder(ada, name="closed")
    for path in ("f/closed/a", "u/ada/b"):
        deploy(ada, path)
        variables.create_variable(ada, path=path, value="x", is_secret=False)
    deploy(bob, "u/bob/mine")

    assert paths(bob, "") == ["u/bob/mine"]
    assert len(paths(ada, "")) == 5


def test_at_most_fifty_and_it_says_that_there_are_more(ada: Caller) -> None:
    for number in range(MOST + 1):
        variables.create_variable(ada, path=f"u/ada/v{number:02}", value="x", is_secret=False)

    found = complete(ada, "u/ada/", kinds=["variable"])

    assert (len(found.items), found.is_whole) == (MOST, False)
    assert complete(ada, "u/ada/v1", kinds=["variable"]).is_whole


def test_scripts_narrow_to_languages_and_resources_to_a_type(ada: Caller) -> None:
    deploy(ada, "u/ada/shell")
    deploy(ada, "u/ada/snake", "python3")
    for kind in ("postgresql", "mysql"):
        resources.create_resource(ada, path=f"u/ada/{kind}", resource_type=kind, value={})

    assert paths(ada, "", "script", languages=["python3"]) == ["u/ada/snake"]
    assert paths(ada, "", "resource", resource_type="mysql") == ["u/ada/mysql"]


def test_signs_that_mean_something_to_sql_mean_themselves(ada: Caller) -> None:
    deploy(ada, "u/ada/a_b")
    deploy(ada, "u/ada/axb")

    assert paths(ada, "u/ada/a_") == ["u/ada/a_b"]
    assert paths(ada, "%") == []


@pytest.mark.parametrize(("prefix", "kinds"), [("", ["secret"]), ("u/\x00", ["script"])])
def test_what_makes_no_sense_is_refused(ada: Caller, prefix: str, kinds: list[str]) -> None:
    with pytest.raises(BadRequest):
        complete(ada, prefix, kinds=kinds)
