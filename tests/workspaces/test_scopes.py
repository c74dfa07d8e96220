"""What a scope opens, and what it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces import scopes
from workspaces.errors import BadRequest

DOMAINS = ("variables", "resources", "scripts", "jobs", "users")
path = st.from_regex(r"[uf]/[a-z]{1,3}/[a-z]{1,4}", fullmatch=True)
scope = st.builds("{}:{}".format, st.sampled_from(DOMAINS), st.sampled_from(scopes.ACTIONS))


@pytest.mark.parametrize(
    ("given_scopes", "domain", "action", "target", "opens"),
    [
        (None, "variables", "write", "u/a/b", True),
        ([], "variables", "read", None, False),
        (["variables:read"], "variables", "read", "u/a/b", True),
        (["variables:read"], "variables", "write", "u/a/b", False),
        (["variables:write"], "variables", "read", "u/a/b", True),
        (["variables:read"], "resources", "read", "u/a/b", False),
        (["variables:read:f/x/*"], "variables", "read", "f/x/deep/y", True),
        (["variables:read:f/x/*"], "variables", "read", "f/xy/z", False),
        (["variables:read:f/x/a,f/y/b"], "variables", "read", "f/y/b", True),
        (["variables:read:f/x/a"], "variables", "read", "f/x/a/b", False),
        (["jobs:run"], "jobs", "run", "scripts/f/x/y", True),
        (["jobs:run"], "jobs", "read", None, False),
        (["jobs:write"], "jobs", "run", "scripts/f/x/y", False),
        (["jobs:run:scripts"], "jobs", "run", "flows/f/x/y", False),
        (["jobs:run:scripts:f/x/*"], "jobs", "run", "scripts/f/x/y", True),
        (["jobs:run:scripts:f/x/*"], "jobs", "run", "scripts/f/y/y", False),
        (["run:script/f/x/y"], "jobs", "run", "scripts/f/x/y", True),
        (["run:script/f/x/y"], "jobs", "run", "flows/f/x/y", False),
        (["run:script/f/x/y"], "jobs", "read", None, False),
    ],
)
def test_what_scopes_open(
    given_scopes: list[str] | None, domain: str, action: str, target: str | None, opens: bool
) -> None:
    assert scopes.allows(given_scopes, domain, action, target) is opens


@given(st.lists(scope, max_size=4), st.sampled_from(DOMAINS), path)
def test_who_may_write_may_read(given_scopes: list[str], domain: str, target: str) -> None:
    if scopes.allows(given_scopes, domain, "write", target):
        assert scopes.allows(given_scopes, domain, "read", target)


@given(st.lists(scope, max_size=4), scope, st.sampled_from(DOMAINS), st.sampled_from(scopes.ACTIONS), path)
def test_more_scopes_never_open_less(
    fewer: list[str], more: str, domain: str, action: str, target: str
) -> None:
    if scopes.allows(fewer, domain, action, target):
        assert scopes.allows([*fewer, more], domain, action, target)


@given(st.sampled_from(DOMAINS), path, path)
def test_a_scope_with_a_path_opens_no_other_path(domain: str, mine: str, other: str) -> None:
    assert scopes.allows([f"{domain}:read:{mine}"], domain, "read", other) is (mine == other)


@given(st.text(max_size=40))
def test_scopes_that_cannot_be_read_are_refused(text: str) -> None:
    try:
        scopes.check_scopes([text])
    except BadRequest:
        return
    assert text.startswith(("run:script/", "run:flow/")) or text.split(":")[1] in scopes.ACTIONS
