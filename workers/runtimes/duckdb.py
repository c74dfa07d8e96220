"""DuckDB: a script may read and write files and reach the network, so it runs in a sandbox, in a Python process."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import importlib.metadata
import importlib.util
import json
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jobs.signatures.sql import Parameter, typ_of
from workers.cache import Cache
from workers.runtimes import failures, results
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site
from workers.runtimes.program_runs import run_program
from workers.runtimes.sql.duckdb_attach import with_resources
from workers.runtimes.sql.duckdb_program import RESULT
from workers.runtimes.sql.script import SqlJob, bad_argument, sql_job
from workers.runtimes.sql.statements import Statement
from workers.sandbox import Ended, Program

_MEMORY_SHARE = 0.7  # of the job's memory that DuckDB may use before it spills to /tmp
_PACKAGES = ("_duckdb", "orjson")
# DuckDB asks pytz for the zones of its timestamps; what it asks, Python's own zoneinfo can answer.
_PYTZ = """
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError as UnknownTimeZoneError


class _Zone(ZoneInfo):
    def localize(self, moment, is_dst=False):
        return moment.replace(tzinfo=self)


timezone = _Zone
utc = UTC = _Zone("UTC")
"""
# Cast where they are used: the values are sent as text, or as lists whose items would decide the type.
_CAST_TYPES = frozenset(
    ("date", "time", "timetz", "timestamp", "timestamptz", "datetime", "interval", "uuid", "json", "hugeint")
)


class Duckdb:
    """Executor for language duckdb."""

    language = "duckdb"
    default_tag = "duckdb"

    def __init__(self, site: Site) -> None:
        self._host = site.host
        self._cache = Cache(site.cache_dir / "duckdb")

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run."""
        limits = execution.limits
        job = sql_job(execution, "duckdb")
        passwords: list[str] = []
        statements = [_statement(statement, job, execution, passwords) for statement in job.statements]
        packages = await self._cache.get(_packages_key(), _build_packages)
        program = Program(
            env=execution.env,
            share=execution.share,
            network=execution.network,
            python={
                "script_path": "duckdb_program.py",
                "code": _program_text(),
                "args": {
                    "job": {
                        "statements": statements,
                        "every_statement": job.collection.every_statement,
                        "first_row": job.collection.first_row,
                        "scalar": job.collection.scalar,
                        "result_bytes": limits.result_bytes,
                        "memory_mib": max(64, int(limits.memory_bytes * _MEMORY_SHARE) >> 20),
                    }
                },
                "entrypoint": "main",
                "preprocess": False,
                "scripts": {},
                "folders": {},
                "python_paths": [str(packages)],
                "result_bytes": limits.result_bytes,
                "memory_bytes": limits.memory_bytes,
            },
            result_files={"J": RESULT},
        )
        ended, _ = await run_program(self._host, program, execution, log)
        try:
            return Outcome(
                result_json=await _result(ended, execution, passwords),
                mem_peak_kb=ended.peak_kb,
                timings=ended.timings,
            )
        except ExecutionFailed as failed:
            failed.mem_peak_kb = ended.peak_kb
            raise


async def _result(ended: Ended, execution: Execution, passwords: Sequence[str]) -> str:
    limits = execution.limits
    if ended.over_memory:
        raise failures.killed(ended, limits) or AssertionError
    if "E" in ended.values:
        raise ExecutionFailed(_told(results.error_object(ended.values["E"]), passwords))
    if "J" in ended.overflowed:
        raise results.result_too_large(
            limits.result_bytes + 1, limits.result_bytes, mem_peak_kb=ended.peak_kb
        )
    if "J" in ended.values and ended.exit_code == 0:
        return await results.checked(ended.values["J"], what="the result")
    raise failures.killed(ended, limits) or ExecutionFailed(
        {
            "name": "ExecutionErr",
            "message": f"DuckDB ended with exit code {ended.exit_code}, without a result",
        }
    )


def _told(error: dict[str, Any], passwords: Sequence[str]) -> dict[str, Any]:
    """The error for the author: DuckDB's words, without our program's frames and without passwords."""
    message = str(error["message"])
    for password in passwords:
        message = message.replace(password, "*****")
    if "extension" in message and (
        "Failed to download" in message or "Could not establish connection" in message
    ):
        name = message.partition('extension "')[2].partition('"')[0] or "that it names"
        message = (
            f"This needs DuckDB's extension {name}, which could not be downloaded from where this worker runs "
            f"(extensions.duckdb.org): {message.splitlines()[0]}"
        )
    told: dict[str, Any] = {"name": error["name"], "message": message}
    if isinstance(error.get("extra"), dict):
        told["extra"] = error["extra"]
    return told


# --- statements and arguments ------------------------------------------------------------------------------------------


def _statement(
    statement: Statement, job: SqlJob, execution: Execution, passwords: list[str]
) -> dict[str, Any]:
    """One statement as the program takes it: its text with named parameters only, and their values."""
    parts: list[str] = []
    values: dict[str, Any] = {}
    binary: list[str] = []
    at, positional = statement.start, _positional_before(statement, job)
    for token in statement.parameters:
        positional += token.text == "?"
        marker = f"?{positional}" if token.text == "?" else token.text
        parameter = job.parameters.get(marker)
        if parameter is None:
            continue
        name = f"arg{positional}" if token.text == "?" else token.text[1:]
        values[name] = _value(parameter, job.values[marker])
        if typ_of(parameter.type, "duckdb") == "bytes" and values[name] is not None:
            binary.append(name)
        parts += [
            statement.text[at - statement.start : token.start - statement.start],
            _place(name, parameter),
        ]
        at = token.end
    text = "".join(parts) + statement.text[at - statement.start :]
    if statement.words[:1] == ("attach",):
        text, found = with_resources(text, statement.line, execution.args)
        passwords += found
    return {"text": text, "line": statement.line, "values": values, "binary": list(dict.fromkeys(binary))}


def _positional_before(statement: Statement, job: SqlJob) -> int:
    earlier = job.statements[: job.statements.index(statement)]
    return sum(token.text == "?" for one in earlier for token in one.parameters)


def _place(name: str, parameter: Parameter) -> str:
    needs_cast = parameter.type in _CAST_TYPES or parameter.type.endswith("[]")
    return f"(${name}::{parameter.type})" if needs_cast else f"${name}"


def _value(parameter: Parameter, value: Any) -> Any:
    """`value` (JSON) as the program binds it. Raises ExecutionFailed, naming the argument, when it does not fit."""
    name, written = parameter.name, parameter.type
    typ = typ_of(written, "duckdb")
    if isinstance(typ, dict) and "resource" in typ:
        raise ExecutionFailed(
            {
                "name": "NoObjectStorage",
                "message": f"The argument {name} is a file in object storage, which is not set up for this workspace.",
            }
        )
    if value is None or not written:
        return value
    if typ == "int":
        if isinstance(value, str) and value.strip().lstrip("+-").isdecimal():
            value = int(value[:60])
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise bad_argument(name, f"should be a whole number, of type {written}", value)
    elif typ == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise bad_argument(name, f"should be a number, of type {written}", value)
    elif typ == "bool" and not isinstance(value, bool):
        raise bad_argument(name, f"should be true or false, of type {written}", value)
    elif typ == "bytes":
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise bad_argument(name, f"should be bytes in base64, of type {written}", value) from None
    elif isinstance(typ, dict) and "list" in typ:
        if not isinstance(value, list):
            raise bad_argument(name, f"should be a list, of type {written}", value)
    elif isinstance(typ, dict) and "object" in typ:
        return json.dumps(value, ensure_ascii=False) if written == "json" else value
    elif isinstance(value, dict | list):
        raise bad_argument(name, f"should be text, of type {written}", value)
    elif typ in ("date", "datetime") and not isinstance(value, str):
        raise bad_argument(name, f"should be text such as 2024-12-31T23:59:59Z, of type {written}", value)
    elif isinstance(typ, dict) and not isinstance(value, str):
        return json.dumps(value)
    return value


# --- the packages that the program imports -----------------------------------------------------------------------------


@cache
def _program_text() -> str:
    return (Path(__file__).parent / "sql" / "duckdb_program.py").read_text()


@cache
def _packages_key() -> str:
    """Another one for other packages, and for another Python, which they are compiled for."""
    versions = [importlib.metadata.version(name) for name in ("duckdb", "orjson")]
    return hashlib.sha256(json.dumps([versions, sys.version, _PYTZ]).encode()).hexdigest()


async def _build_packages(folder: Path) -> None:
    await asyncio.to_thread(_copy_packages, folder)


def _copy_packages(folder: Path) -> None:
    """Only these two, out of our own site-packages: jobs see nothing of the rest."""
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        source = Path(spec.origin)
        if spec.submodule_search_locations:
            shutil.copytree(
                source.parent, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyi")
            )
        else:
            shutil.copyfile(source, folder / source.name)
    (folder / "pytz.py").write_text(_PYTZ)
