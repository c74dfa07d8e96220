"""Short ways to write flows in tests."""

from typing import Any

Json = Any


def js(expr: str) -> Json:
    return {"type": "javascript", "expr": expr}


def static(value: Json) -> Json:
    return {"type": "static", "value": value}


def step(
    id: str, code: str = "def main(x=0):\n    return x + 1\n", /, *, options: Json = None, **inputs: Json
) -> Json:
    """A Python step. Inputs that are texts beginning with "=" are expressions."""
    transforms = {
        name: js(value[1:]) if isinstance(value, str) and value.startswith("=") else static(value)
        for name, value in inputs.items()
    }
    value = {"type": "rawscript", "language": "python3", "content": code, "input_transforms": transforms}
    return {"id": id, "value": value, **(options or {})}


def failing(id: str, /, *, options: Json = None) -> Json:
    """A step that raises ValueError: boom."""
    return step(id, "def main():\n    raise ValueError('boom')\n", options=options)


def for_loop(id: str, expr: str, *modules: Json, options: Json = None, **settings: Json) -> Json:
    value = {
        "type": "forloopflow",
        "iterator": js(expr),
        "modules": list(modules),
        "skip_failures": False,
        **settings,
    }
    return {"id": id, "value": value, **(options or {})}


def while_loop(id: str, *modules: Json, stop: str | None = None, **settings: Json) -> Json:
    value = {"type": "whileloopflow", "modules": list(modules), "skip_failures": False, **settings}
    module = {"id": id, "value": value}
    if stop is not None:
        module["stop_after_if"] = {"expr": stop, "skip_if_stopped": False}
    return module


def branch_one(id: str, *branches: tuple[str, list[Json]], default: list[Json], options: Json = None) -> Json:
    made = [{"expr": expr, "modules": modules} for expr, modules in branches]
    return {"id": id, "value": {"type": "branchone", "branches": made, "default": default}, **(options or {})}


def branch_all(
    id: str, *branches: list[Json], parallel: bool, options: Json = None, **settings: Json
) -> Json:
    made = [{"modules": modules, **settings} for modules in branches]
    return {
        "id": id,
        "value": {"type": "branchall", "branches": made, "parallel": parallel},
        **(options or {}),
    }


def flow(*modules: Json, **settings: Json) -> Json:
    """A FlowValue."""
    return {"modules": list(modules), **settings}


def handler(code: str = "def main(message, step): return {'message': message, 'step': step}") -> Json:
    """A failure module that says what it got."""
    return step("failure", code, message="=error.message", step="=error.step_id")
