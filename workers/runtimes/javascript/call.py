"""What is put into the job's folder to call a script: wrapper.mjs with the call in it, the script, what it imports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jobs.dependencies.typescript import without_versions
from jobs.signatures import FUNCTION_CALL
from jobs.signatures.signature import Signature
from jobs.signatures.typescript import parse
from workers.job_process.serving import CANNOT_ANSWER
from workers.runtimes.base import Execution

ENTRYPOINT_OVERRIDE = "_ENTRYPOINT_OVERRIDE"
WRAPPER = "wrapper.mjs"
# By kind, as Ended.values has them: the result, the error, what the preprocessor returned.
RESULT_FILES = {"R": ".result.json", "E": ".error.json", "A": ".preprocessed.json"}
LANGUAGES = frozenset({"bun", "bunnative", "nativets", "deno"})

_JOB = "JSON.parse(JOB)"  # what a program is to do


def _program(*parts: str) -> str:
    texts = (Path(__file__).parent / f"{part}.mjs" for part in ("calling", *parts))
    return "\n".join(text.read_text(encoding="utf-8") for text in texts)


_ONCE, _AGAIN = _program("wrapper"), _program("serving")
# The text of a WRAPPER for which there is no job yet: see prepared.mjs.
WAITING = _program("prepared", "wrapper").replace(_JOB, "nextJob()", 1)
_PREPROCESSOR = "preprocessor"
_MOST_REMEMBERED = 50_000  # characters of code whose signature is kept


def wrapper(execution: Execution, *, module: str, folder: str = "") -> str:
    """The text of WRAPPER that calls the execution's function. See `job`."""
    return _told(_ONCE, job(execution, module=module, folder=folder))


def job(execution: Execution, *, module: str, folder: str = "") -> dict[str, Any]:
    """What wrapper.mjs is to do.

    `module` is the script as the wrapper imports it; `folder` where it and its packages lie, when that is not the job's
    folder: neither is shown in the stacks of errors.
    """
    args = {
        key: value
        for key, value in execution.args.items()
        if key != ENTRYPOINT_OVERRIDE and value != FUNCTION_CALL
    }
    entrypoint = str(execution.args.get(ENTRYPOINT_OVERRIDE) or execution.entrypoint)
    return {
        "module": module,
        "folder": folder,
        "file": source_path(execution.script_path),
        "args": args,
        "main": function(execution.code, entrypoint),
        "preprocessor": function(execution.code, _PREPROCESSOR) if execution.preprocess else None,
    }


def server(execution: Execution, *, module: str, folder: str = "", mark: str) -> str:
    """The text of WRAPPER that loads the execution's script and then takes calls, see serving.mjs; the rest as above."""
    told = {
        "module": module,
        "folder": folder,
        "file": source_path(execution.script_path),
        "mark": mark,
        "resultBytes": execution.limits.result_bytes,
        "cannotAnswer": CANNOT_ANSWER,
    }
    return _told(_AGAIN, told)


def _told(program: str, what: Mapping[str, Any]) -> str:
    # JSON in a JavaScript text: as an object literal a key __proto__ would mean something else.
    return program.replace(_JOB, f"JSON.parse({json.dumps(json.dumps(what))})", 1)


def sources(execution: Execution, *, written: Callable[[str], str] = without_versions) -> dict[str, str]:
    """The script and the scripts that it imports, text by path. `written` makes the text of a file out of code."""
    files = {
        source_path(one.path): written(one.content)
        for one in execution.imports.values()
        if one.language in LANGUAGES
    }
    return files | {source_path(execution.script_path): written(execution.code)}


def source_path(script_path: str | None) -> str:
    """Where a script lies below the folder from which it runs.

    >>> source_path("f/ops/report")
    'f/ops/report.ts'
    """
    parts = (re.sub(r"[^\w.@-]", "_", part) for part in (script_path or "tmp/main").split("/"))
    return "/".join(part if part.strip(".") else "_" for part in parts) + ".ts"


def function(code: str, name: str) -> Mapping[str, Any]:
    """How to call a function of `code`: its name, its parameters in order, and which of them are dates."""
    signature = (_remembered if len(code) <= _MOST_REMEMBERED else parse)(code, name)
    # Code that our grammar cannot read may still run: then arguments are passed in the order in which they came.
    parameters = None if signature.problem else [one.name for one in signature.args]
    return {
        "name": name,
        "parameters": parameters,
        "dates": [one.name for one in signature.args if one.typ == "datetime"],
    }


@lru_cache(maxsize=512)
def _remembered(code: str, name: str) -> Signature:
    return parse(code, name)
