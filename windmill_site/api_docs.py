"""/openapi/: the REST API to read in the browser, straight from the schema that programs get."""

from typing import Any, TypedDict

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from windmill_site import openapi
from workspaces.access import Identity
from workspaces.pages import page


class Field(TypedDict):
    """A parameter, or a field of a body or an answer."""

    name: str
    place: str  # "path", "query" or "body"
    kind: str  # as a reader writes it: string, boolean or null, list of string, User
    required: bool
    description: str


class Answer(TypedDict):
    """What a route answers."""

    status: str
    media: str
    kind: str
    fields: list[Field]


class Route(TypedDict):
    """One operation."""

    id: str
    method: str
    path: str
    description: str
    fields: list[Field]
    answers: list[Answer]


class Group(TypedDict):
    """The operations under one tag."""

    name: str
    routes: list[Route]


@require_safe
@page
def browse(request: HttpRequest, identity: Identity) -> HttpResponse:
    """All operations by tag; `?q=` shows those whose id, path or description holds the words."""
    words = request.GET.get("q", "").lower().split()
    matching = [
        Group(name=group["name"], routes=[route for route in group["routes"] if _matches(route, words)])
        for group in by_tag(openapi.schema())
    ]
    groups = [group for group in matching if group["routes"]]
    count = sum(len(group["routes"]) for group in groups)
    return render(
        request,
        "openapi.html",
        {
            "groups": groups,
            "q": request.GET.get("q", ""),
            "count": count,
            "is_open": bool(words) and count <= 10,
        },
    )


def _matches(route: Route, words: list[str]) -> bool:
    text = f"{route['id']} {route['method']} {route['path']} {route['description']}".lower()
    return all(word in text for word in words)


def by_tag(schema: dict[str, Any]) -> list[Group]:
    """The operations of an OpenAPI schema, grouped and sorted for reading."""
    groups: dict[str, list[Route]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            route = _route(schema, method, path, operation)
            groups.setdefault((operation.get("tags") or ["other"])[0], []).append(route)
    return [
        {"name": name, "routes": sorted(groups[name], key=lambda route: (route["path"], route["method"]))}
        for name in sorted(groups)
    ]


def _route(schema: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> Route:
    fields = [
        Field(
            name=parameter["name"],
            place=parameter["in"],
            kind=kind_of(parameter.get("schema", {})),
            required=parameter.get("required", False),
            description=parameter.get("description") or parameter.get("schema", {}).get("description", ""),
        )
        for parameter in operation.get("parameters", [])
    ]
    for body in operation.get("requestBody", {}).get("content", {}).values():
        fields += _fields(schema, body.get("schema", {})) or [
            Field(
                name="body", place="body", kind=kind_of(body.get("schema", {})), required=True, description=""
            )
        ]
        break
    answers = [
        Answer(
            status=status,
            media=media,
            kind=kind_of(content.get("schema", {})),
            fields=_fields(schema, content.get("schema", {})),
        )
        for status, answer in operation["responses"].items()
        if status.startswith("2")
        for media, content in (answer.get("content") or {"": {}}).items()
    ]
    return Route(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        description=operation.get("description", ""),
        fields=fields,
        answers=answers,
    )


def _fields(schema: dict[str, Any], shape: dict[str, Any]) -> list[Field]:
    """The fields of an object, or of the objects of a list, behind references."""
    shape = shape.get("items", shape)
    if "$ref" in shape:
        shape = schema["components"]["schemas"][shape["$ref"].rsplit("/", 1)[1]]
    required = shape.get("required", [])
    return [
        Field(
            name=name,
            place="body",
            kind=kind_of(field),
            required=name in required,
            description=field.get("description", ""),
        )
        for name, field in shape.get("properties", {}).items()
    ]


def kind_of(shape: dict[str, Any]) -> str:
    """A schema in words: `list of string or null`."""
    if "$ref" in shape:
        name = shape["$ref"].rsplit("/", 1)[1]
        return str(name.removesuffix("Request"))
    for key in ("allOf", "oneOf", "anyOf"):
        if key in shape:
            return " or ".join(dict.fromkeys(kind_of(inner) for inner in shape[key]))
    kind = shape.get("type", "any JSON")
    if kind == "array":
        kind = f"list of {kind_of(shape.get('items', {}))}"
    if shape.get("enum"):
        kind = " | ".join(str(item) for item in shape["enum"])
    if shape.get("format") == "date-time":
        kind = "time"
    return f"{kind} or null" if shape.get("nullable") else kind
