"""/api/openapi.json: valid OpenAPI 3, complete, and what the routes really answer."""

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml
from drf_spectacular.validation import validate_schema

from tests.api.conftest import World
from tests.api.test_every_route import API, NOT_THERE, ROUTES, W, Who, address
from windmill_site import openapi


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in openapi.schema()["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_schema_is_valid_openapi() -> None:
    validate_schema(openapi.schema())


def test_every_route_is_in_it_with_an_id_of_its_own() -> None:
    described = {(method.upper(), path) for method, path, _ in operations()}
    routes = {(method, "/api/" + route.replace("<", "{").replace(">", "}")) for method, route in API}
    ids = [operation["operationId"] for _, _, operation in operations()]

    assert routes - described == set()
    assert sorted(ids) == sorted(set(ids))


def test_every_operation_says_what_it_does_and_answers() -> None:
    for method, path, operation in operations():
        assert operation.get("description"), f"{method} {path} has no docstring"
        success = [status for status in operation["responses"] if status.startswith("2")]
        assert success, f"{method} {path} describes no success"


def test_names_of_operations_are_those_clients_know() -> None:
    ids = {operation["operationId"] for _, _, operation in operations()}

    assert {
        "login", "globalWhoami", "whoami", "createToken", "listTokens", "deleteToken", "listWorkspaces",
        "createWorkspace", "existsWorkspace", "listUserWorkspaces", "listWorkspacesAsSuperAdmin",
        "addUser", "listUsers", "getUser", "updateUser", "deleteUser", "createUserGlobally",
        "globalUserDelete", "listUsersAsSuperAdmin", "addGranularAcls", "removeGranularAcls",
        "createVariable", "updateVariable", "getVariable", "listVariable", "existsVariable",
        "deleteVariable", "createResource", "updateResource", "getResource", "listResource",
        "deleteResource", "createResourceType", "listResourceType", "getFolder", "createFolder",
        "updateFolder", "deleteFolder", "getGroup", "createGroup", "getGlobal", "setGlobal",
        "listGlobalSettings", "listAuditLogs", "getAuditLog", "getSettings", "getWorkspaceName",
        "changeWorkspaceColor", "fileResourceTypeToFileExtMap",
    } <= ids  # fmt: skip


def test_the_documents_are_served_signed_out_and_as_what_they_are(world: World) -> None:
    as_json, as_yaml = world.get(None, "openapi.json"), world.get(None, "openapi.yaml")

    assert as_json["Content-Type"] == "application/json"
    assert as_json.json() == yaml.safe_load(as_yaml.content) == openapi.schema()


# Jobs, scripts and workers hold their answers against their own tests.
OTHERS = re.compile(r"(^|>/)(jobs|script|worker|job_)")
GOVERNANCE = [route for method, route in API if method == "GET" and not OTHERS.search(route)]


@pytest.mark.parametrize("route", GOVERNANCE)
def test_answers_have_the_shape_that_the_schema_says(route: str, world: World) -> None:
    who = "root" if ROUTES[route] is Who.SUPERADMIN or route in NOT_THERE else "alice"
    answer = world.get(who, address(route))
    operation = openapi.schema()["paths"]["/api/" + route.replace("<", "{").replace(">", "}")]["get"]
    described = operation["responses"].get(str(answer.status_code))

    assert described is not None, f"{answer.status_code} is not described"
    content = answer["Content-Type"].split(";")[0]
    assert content in described["content"], f"{content} is not described"
    if content == "application/json":
        schema = {**described["content"][content]["schema"], "components": openapi.schema()["components"]}
        checker = jsonschema.Draft202012Validator(nullable_as_type(schema))
        problems = [
            f"{error.json_path}: {error.message}" for error in checker.iter_errors(json.loads(answer.content))
        ]
        assert problems == []


def nullable_as_type(schema: Any) -> Any:
    """OpenAPI 3.0 writes `nullable: true` where JSON Schema says type: [x, "null"]; unknown keys become errors."""
    if isinstance(schema, list):
        return [nullable_as_type(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: nullable_as_type(value) for key, value in schema.items()}
    if result.pop("nullable", False) is True and "type" in result:
        result["type"] = [result["type"], "null"]
    if result.get("type") == "object" and "properties" in result:
        result.setdefault("additionalProperties", False)
    return result


def test_workspace_routes_name_the_workspace_in_their_path() -> None:
    prefix = "/api/" + W.replace("<", "{").replace(">", "}")

    assert all(path.startswith(prefix) for _, path, _ in operations() if "/w/" in path)
