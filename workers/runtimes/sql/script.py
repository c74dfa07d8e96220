"""A script with its arguments, ready to be executed statement by statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.signatures.signature import FUNCTION_CALL
from jobs.signatures.sql import DATABASE, Interpolated, Parameter, read
from jobs.signatures.sql_tokens import Dialect
from workers.runtimes.base import Execution, ExecutionFailed
from workers.runtimes.sql.collecting import Collection, collection_of
from workers.runtimes.sql.statements import Statement, split

_SAFE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SAFE_CONTEXT = re.compile(r"[\w.@/+:= -]*")
_PLACE = re.compile(r"%%([^\W\d]\w*)%%")


@dataclass(frozen=True, slots=True)
class SqlJob:
    """What is to be done."""

    statements: list[Statement]
    parameters: Mapping[str, Parameter]  # by marker
    values: Mapping[str, Any]  # JSON value by marker
    collection: Collection


def sql_job(execution: Execution, dialect: Dialect) -> SqlJob:
    """Raises ExecutionFailed, with a sentence for the author, for what cannot be run."""
    # Lines end in \n from here on, as the lines in messages are counted.
    code = execution.code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    script = read(code, dialect)
    if script.s3:
        raise ExecutionFailed(
            {
                "name": "NoObjectStorage",
                "message": "This script sends its result to object storage (-- s3), which is not set up for this "
                "workspace. Remove that line to get the rows as the result.",
            }
        )
    code = _interpolated(code, script.interpolated, execution)
    statements = split(code, dialect)
    if not statements:
        raise ExecutionFailed({"name": "NoStatement", "message": "There is no SQL statement in this script."})
    return SqlJob(
        statements=statements,
        parameters={parameter.marker: parameter for parameter in script.parameters},
        values={parameter.marker: _value(parameter, execution.args) for parameter in script.parameters},
        collection=collection_of(script, len(statements)),
    )


def _value(parameter: Parameter, args: Mapping[str, Any]) -> Any:
    value = args.get(parameter.name)
    return parameter.default if value is None or value == FUNCTION_CALL else value


def _interpolated(code: str, names: tuple[Interpolated, ...], execution: Execution) -> str:
    """`code` with %%name%% replaced by arguments that are plain names, and by what the job's environment says."""
    if "%%" not in code:
        return code
    allowed: dict[str, str] = {one.name: _name(one, execution.args.get(one.name)) for one in names}
    # LIKE '%%x%%' means something too: only names that are known are replaced.
    context = {name: value for name, value in execution.env.items() if name.startswith("WM_")}

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        if name in allowed:
            return allowed[name]
        value = context.get(name)
        if value is None:
            return match[0]
        if not _SAFE_CONTEXT.fullmatch(value):
            raise ExecutionFailed(
                {
                    "name": "BadArguments",
                    "message": f"%%{name}%% cannot be put into SQL safely: its value has other characters than letters, "
                    "digits and _.@/+:=- in it.",
                }
            )
        return value

    return _PLACE.sub(replaced, code)


def _name(one: Interpolated, value: Any) -> str:
    if not isinstance(value, str) or not _SAFE_NAME.fullmatch(value):
        raise bad_argument(
            one.name, "is put into the SQL text itself: a name of letters, digits and _ only", value
        )
    if one.choices and value not in one.choices:
        raise bad_argument(one.name, f"should be one of {', '.join(one.choices)}", value)
    return value


def database_of(execution: Execution, resource_type: str) -> dict[str, Any]:
    """The resource that the job runs on. Raises ExecutionFailed when there is none."""
    value = execution.args.get(DATABASE)
    if isinstance(value, dict):
        return value
    if value is None:
        raise ExecutionFailed(
            {
                "name": "BadArguments",
                "message": f"No database to run on: the argument {DATABASE} should be a {resource_type} resource, for "
                f"example $res:f/folder/name; or pin one with a line -- {DATABASE} f/folder/name.",
            }
        )
    raise bad_argument(
        DATABASE, f"should be a {resource_type} resource, for example $res:f/folder/name", value
    )


def bad_argument(name: str, expected: str, value: Any) -> ExecutionFailed:
    """The failure for an argument that does not fit. Resources are not shown: they hold passwords."""
    kind = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
        type(None): "empty",
    }.get(type(value), type(value).__name__)
    shown = f" ({str(value)[:60]!r})" if isinstance(value, str | int | float) and name != DATABASE else ""
    return ExecutionFailed(
        {"name": "BadArguments", "message": f"The argument {name} {expected}; it is {kind}{shown}."}
    )
