"""Passwords inside resources: typed into a form, kept as secret variables, referred to as `$var:<path>`.

A resource's value is stored as plain JSON and shown in lists and exports; what its type marks as a password
(`"password": true` or `"format": "password"`) must not be among it, nor in the HTML of the form that edits it.
"""

from collections.abc import Mapping
from typing import Any

from workspaces import variables
from workspaces.access import Caller
from workspaces.errors import NotFound

_REFERENCES = ("$var:", "$res:", "var://", "res://")


def password_fields(schema: Mapping[str, Any] | None) -> list[str]:
    """Names of the top-level fields that a type marks as passwords."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, dict):
        return []
    return [
        name
        for name, rule in properties.items()
        if isinstance(rule, dict) and (rule.get("password") is True or rule.get("format") == "password")
    ]


def is_plain_secret(value: Any) -> bool:
    """Is this a password itself, not a reference to one?"""
    return isinstance(value, str) and value != "" and not value.startswith(_REFERENCES)


def without_secrets(value: Any, schema: Mapping[str, Any] | None) -> Any:
    """The value as a form may show it: plain passwords left out, references kept."""
    if not isinstance(value, dict):
        return value
    secret = {name for name in password_fields(schema) if is_plain_secret(value.get(name))}
    return {name: inner for name, inner in value.items() if name not in secret}


def form_schema(schema: Mapping[str, Any] | None, stored: Any) -> dict[str, Any] | None:
    """The schema for editing: passwords that are stored but not shown need not be typed again."""
    if not isinstance(schema, Mapping):
        return None
    kept = [
        name
        for name in password_fields(schema)
        if isinstance(stored, dict) and is_plain_secret(stored.get(name))
    ]
    required = [name for name in schema.get("required") or [] if name not in kept]
    properties = {
        name: {
            **rule,
            "description": f"{rule.get('description', '')} Stored; leave empty to keep it.".strip(),
        }
        if name in kept
        else rule
        for name, rule in schema["properties"].items()
    }
    return {**schema, "properties": properties, "required": required}


def store_secrets(
    caller: Caller, *, path: str, value: Any, schema: Mapping[str, Any] | None, stored: Any = None
) -> Any:
    """The value to keep: each plain password becomes the secret variable <path>_<field>, and a reference to it.

    Passwords left empty keep what `stored` (the value so far) has. Run inside the transaction that writes the resource.
    """
    if not isinstance(value, dict):
        return value
    result = dict(value)
    for name in password_fields(schema):
        if not result.get(name) and isinstance(stored, dict) and stored.get(name):
            result[name] = stored[name]
        if not is_plain_secret(result.get(name)):
            continue
        secret_path = f"{path}_{name}"
        try:
            variables.update_variable(caller, secret_path, value=result[name], is_secret=True)
        except NotFound:
            variables.create_variable(
                caller,
                path=secret_path,
                value=result[name],
                is_secret=True,
                description=f"{name} of resource {path}",
            )
        result[name] = f"$var:{secret_path}"
    return result
