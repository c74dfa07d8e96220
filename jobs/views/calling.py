"""What an overview says about calling a script or flow from elsewhere: its parameters, and requests to copy."""

import json
import shlex
from typing import Any, Literal

from django.conf import settings

from workspaces.access import Caller

RunnableKind = Literal["script", "flow"]

# What the run routes of the API call the kinds: /jobs/run/p/<script>, /jobs/run/f/<flow>.
_LETTER = {"script": "p", "flow": "f"}
_EXAMPLES = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def arguments(schema: Any) -> list[dict[str, Any]]:
    """The parameters of a JSON Schema, in order, as a short table: name, kind, required, default, description."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return []
    order = schema.get("order")
    names = [name for name in order if name in properties] if isinstance(order, list) else []
    required = schema.get("required") if isinstance(schema.get("required"), list) else []
    rows = []
    for name in [*names, *(name for name in properties if name not in names)]:
        field = properties[name] if isinstance(properties[name], dict) else {}
        kind = field.get("format") or field.get("type") or "any"
        default = field.get("default")
        rows.append(
            {
                "name": name,
                "kind": kind if isinstance(kind, str) else " or ".join(map(str, kind)),
                "required": name in required,
                "default": "" if default is None else json.dumps(default, ensure_ascii=False)[:80],
                "description": field.get("description") or "",
            }
        )
    return rows


def example_args(schema: Any) -> dict[str, Any]:
    """Arguments that fit a schema roughly: defaults, else a value of the type."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    found = {}
    for name, field in properties.items() if isinstance(properties, dict) else ():
        given = field if isinstance(field, dict) else {}
        kind = given.get("type")
        choices = given.get("enum")
        if given.get("default") is not None:
            found[name] = given["default"]
        elif isinstance(choices, list) and choices:
            found[name] = choices[0]
        else:
            found[name] = _EXAMPLES.get(kind if isinstance(kind, str) else "")
    return found


def calls(caller: Caller, kind: RunnableKind, path: str, schema: Any) -> list[dict[str, str]]:
    """The same run asked for in several ways, with example arguments from the schema."""
    args = example_args(schema)
    address = f"{settings.BASE_URL}/api/w/{caller.workspace_id}/jobs"
    run = f"{address}/run/{_LETTER[kind]}/{path}"
    wait = f"{address}/run_wait_result/{_LETTER[kind]}/{path}"
    body = json.dumps(args, ensure_ascii=False)
    return [
        {
            "id": "curl",
            "label": "curl",
            "note": "Starts a run and answers its id.",
            "code": _curl(run, body),
        },
        {
            "id": "wait",
            "label": "curl, with result",
            "note": "Waits for the end and answers the result.",
            "code": _curl(wait, body),
        },
        {
            "id": "python",
            "label": "Python",
            "note": "pip install wmill",
            "code": _python(caller, kind, path, args),
        },
        {
            "id": "javascript",
            "label": "JavaScript",
            "note": "Waits for the end and answers the result.",
            "code": _javascript(wait, body),
        },
    ]


def _curl(url: str, body: str) -> str:
    return (
        f'curl -X POST {shlex.quote(url)} \\\n  -H "Authorization: Bearer $TOKEN" \\\n'
        f"  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"
    )


def _python(caller: Caller, kind: RunnableKind, path: str, args: dict[str, Any]) -> str:
    client = (
        "import wmill\n\n"
        f'client = wmill.Windmill(base_url="{settings.BASE_URL}", workspace="{caller.workspace_id}", token="…")\n'
    )
    if kind == "script":
        return f"{client}result = client.run_script_by_path({path!r}, args={args!r})\n"
    return (
        f"{client}job_id = client.run_flow_async({path!r}, args={args!r})\nresult = client.wait_job(job_id)\n"
    )


def _javascript(url: str, body: str) -> str:
    return (
        f"const answer = await fetch({json.dumps(url, ensure_ascii=False)}, {{\n"
        '  method: "POST",\n'
        "  headers: { Authorization: `Bearer ${token}`, "
        '"Content-Type": "application/json" },\n'
        f"  body: JSON.stringify({body}),\n"
        "});\n"
        "const result = await answer.json();\n"
    )
