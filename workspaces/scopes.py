"""Token scopes: pure rules of reference/governance.md section 4.

Grammar: `{domain}:{action}[:{path}[,{path}...]]`, actions read, write (implies read), run. For jobs the path part names
what may be run: `jobs:run:scripts:f/x/*`. Legacy forms `run:script/<path>` and `run:flow/<path>` mean the same.
"""

import re
from collections.abc import Sequence
from typing import Any

from workspaces.errors import BadRequest

ACTIONS = ("read", "write", "run")
_DOMAIN = re.compile(r"[a-z_]+")


# What tokens can be limited to: domain -> (what it is, its actions, whether a path may follow).
_KNOWN: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "jobs": ("Run scripts and follow jobs", ("read", "write", "run"), True),
    "scripts": ("Scripts", ("read", "write"), True),
    "flows": ("Flows", ("read", "write"), True),
    "variables": ("Variables and secrets", ("read", "write"), True),
    "resources": ("Resources and their types", ("read", "write"), True),
    "folders": ("Folders", ("read", "write"), True),
    "groups": ("Groups", ("read", "write"), False),
    "acls": ("Access rules of single items", ("read", "write"), False),
    "users": ("Accounts, members and tokens", ("read", "write"), False),
    "workspaces": ("Workspaces and their settings", ("read", "write"), False),
    "audit": ("The audit log", ("read",), False),
    "workers": ("Workers and queues", ("read", "write"), False),
    "configs": ("Configurations of worker groups", ("read", "write"), False),
    "settings": ("Settings of the instance", ("read", "write"), False),
}


def known_domains() -> list[dict[str, Any]]:
    """The scopes that there are, for a picker: [{name, description, scopes: [{value, label, ...}]}]."""
    return [
        {
            "name": domain,
            "description": description,
            "scopes": [
                {"value": f"{domain}:{action}", "label": action.capitalize(), "requires_resource_path": False}
                for action in actions
            ]
            + [
                {
                    "value": f"{domain}:{action}:{{path}}",
                    "label": f"{action.capitalize()} at a path",
                    "requires_resource_path": True,
                }
                for action in (actions if takes_path and domain != "jobs" else ())
            ]
            + [
                {
                    "value": f"jobs:run:{kind}:{{path}}",
                    "label": f"Run {kind} at a path",
                    "requires_resource_path": True,
                }
                for kind in (("scripts", "flows") if domain == "jobs" else ())
            ],
        }
        for domain, (description, actions, takes_path) in _KNOWN.items()
    ]


def check_scopes(scopes: Sequence[str] | None) -> list[str] | None:
    """The scopes as given, or BadRequest naming the first that cannot be read. None means unrestricted."""
    if scopes is None:
        return None
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        raise BadRequest("scopes must be a list of texts such as jobs:run:scripts:f/team/*")
    for scope in scopes:
        if scope.startswith(("run:script/", "run:flow/")):
            continue
        parts = scope.split(":")
        if len(parts) < 2 or not _DOMAIN.fullmatch(parts[0]) or parts[1] not in ACTIONS or len(scope) > 1000:
            raise BadRequest(
                f"scope {scope[:80]!r} is not valid; expected domain:action[:path], such as jobs:run:scripts:f/team/*"
            )
    return list(scopes)


def allows(scopes: Sequence[str] | None, domain: str, action: str, path: str | None = None) -> bool:
    """May a token with these scopes do `action` in `domain`, on `path` where the domain has paths?

    For domain "jobs" and action "run" the path is `scripts/<path>` or `flows/<path>`; None asks for any right at all.
    """
    if scopes is None:
        return True
    return any(_one_allows(scope, domain, action, path) for scope in scopes)


def readable_paths(scopes: Sequence[str] | None, domain: str) -> list[str] | None:
    """The path patterns (`f/x/y`, `f/x/*`) that these scopes let a list of `domain` show; None means all paths."""
    if scopes is None:
        return None
    patterns: list[str] = []
    for scope in scopes:
        have_domain, _, rest = scope.partition(":")
        action, _, paths = rest.partition(":")
        if have_domain == domain and action in ("read", "write"):
            if not paths:
                return None
            patterns += paths.split(",")
    return patterns


def _one_allows(scope: str, domain: str, action: str, path: str | None) -> bool:
    if scope.startswith("run:"):
        kind, _, target = scope[4:].partition("/")
        return (domain, action) == ("jobs", "run") and (path is None or _matches(f"{kind}s/{target}", path))
    have_domain, _, rest = scope.partition(":")
    have_action, _, have_path = rest.partition(":")
    if have_domain != domain:
        return False
    if have_action != action and not (have_action == "write" and action == "read"):
        return False
    if not have_path or path is None:
        return True
    kind, separator, targets = have_path.partition(":")
    if separator:  # jobs:run:scripts:f/a/x,f/b/*
        return any(_matches(f"{kind}/{target}", path) for target in targets.split(","))
    if (domain, action) == ("jobs", "run") and have_path in ("scripts", "flows"):
        return path.startswith(f"{have_path}/")
    return any(_matches(target, path) for target in have_path.split(","))


def _matches(pattern: str, path: str) -> bool:
    """`f/x/*` covers everything below f/x/; anything else is compared as it is."""
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
