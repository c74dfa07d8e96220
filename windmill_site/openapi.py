"""The OpenAPI schema of the instance: generated once a process, since the routes do not change while it runs."""

import json
from functools import cache
from typing import Any

import yaml
from drf_spectacular.generators import SchemaGenerator


@cache
def schema() -> dict[str, Any]:
    """The whole schema as OpenAPI 3 data."""
    generated: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    # Lazy texts and ordered dicts become plain ones.
    plain: dict[str, Any] = json.loads(json.dumps(generated, default=str))
    return plain


@cache
def as_json() -> bytes:
    """The schema as a JSON document."""
    return json.dumps(schema(), separators=(",", ":")).encode()


@cache
def as_yaml() -> bytes:
    """The schema as a YAML document."""
    return yaml.safe_dump(schema(), sort_keys=False, allow_unicode=True).encode()
