"""A Python job: the script as a module, its arguments, its entry function, its result or its error.

Runs in the job's own process, which was forked from a warm interpreter; nothing here is trusted by the worker.
"""

from __future__ import annotations

import atexit
import contextlib
import inspect
import json
import linecache
import os
import re
import resource
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from . import packets, python_args, python_imports, python_results

_FIXED_NAMES = ("main", "preprocessor")  # of what is called where nobody asks for another function
_OWN_FOLDER = os.path.dirname(__file__) + os.sep
_IMPORTS_OF_SCRIPTS = re.compile(r"^\s*(?:from\s+(?:\.|[uf]\.)|import\s+[uf]\.)", re.MULTILINE)


class JobFailed(Exception):
    """A failure with a message of ours for the author; it has no traceback worth showing."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def run(job: dict[str, Any], env: dict[str, str], worker: socket.socket) -> NoReturn:
    """Run the script of `job` and end this process; the result goes to `worker` as a value of kind R, an error as E.

    `job` holds script_path ("f/ops/report.py"), code, args, entrypoint, preprocess, python_paths, scripts and folders
    (see python_imports.install), result_bytes and memory_bytes.
    """
    try:
        become_an_ordinary_process(env, job)
        module = load(job)
        encoded = answer(
            module,
            job,
            job["args"],
            entrypoint=job["entrypoint"],
            preprocess=job["preprocess"],
            on_preprocessed=lambda text: packets.send(worker, "A", text),
        )
        packets.send(worker, "R", encoded)
        exit_code = 0
    except BaseException as error:
        exit_code = report(worker, error, job)
    end(exit_code)


def rehearse(job: dict[str, Any], env: dict[str, str]) -> None:
    """Do what `run` does with `job`, and undo it (see job._rehearse)."""
    argv, path, main_module = sys.argv, sys.path[:], sys.modules["__main__"]
    become_an_ordinary_process(env, job)
    module = load(job)
    answer(
        module,
        job,
        job["args"],
        entrypoint=job["entrypoint"],
        preprocess=False,
        on_preprocessed=lambda _: None,
    )
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main_module
    sys.modules.pop(module.__name__)
    linecache.cache.pop(job["script_path"])
    os.environ.clear()


def report(worker: socket.socket, error: BaseException, job: dict[str, Any] | None = None) -> int:
    """Send `error` as the job's error, unless it is a clean exit (kind R, null); returns the exit code."""
    kind, text = outcome_of(error, job)
    packets.send(worker, kind, text)
    return 0 if kind == "R" else 1


def outcome_of(error: BaseException, job: dict[str, Any] | None = None) -> tuple[str, bytes]:
    """What comes of code that raised `error`: kind E and the error as JSON; R and null for a clean exit."""
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return "R", b"null"
    try:
        text = python_results.to_json(_describe(error, job), postprocess=True)
    except BaseException:  # an exception whose own str() fails, or no memory left for the rest
        text = json.dumps({"name": type(error).__name__, "message": "the error could not be described"})
    return "E", text.encode()


def end(exit_code: int) -> NoReturn:
    """Leave as an interpreter does: wait for threads, run atexit, flush; but do not take modules apart."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException as error:
        traceback.print_exception(error)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):  # the script may have replaced or closed it
                stream.flush()
        os._exit(exit_code)


def become_an_ordinary_process(env: dict[str, str], job: dict[str, Any]) -> None:
    """Look like a Python that was started to run the script of `job`."""
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = [job["script_path"]]
    sys.modules["__main__"] = ModuleType("__main__")
    sys.path[:0] = [os.getcwd(), *job["python_paths"]]


def load(job: dict[str, Any]) -> ModuleType:
    """Execute the script of `job` as a module."""
    return _load(job["script_path"], job["code"], job["scripts"], job["folders"])


def answer(
    module: ModuleType,
    job: dict[str, Any],
    args: dict[str, Any],
    *,
    entrypoint: str,
    preprocess: bool,
    on_preprocessed: Callable[[bytes], None],
) -> bytes:
    """Call the entry function with `args`, or with what the preprocessor makes of them; its result as JSON text."""
    if preprocess:
        text = python_results.to_json(_call(module, "preprocessor", args), postprocess=True)
        args = json.loads(text)
        if not isinstance(args, dict):
            raise JobFailed(
                "PreprocessorError",
                f"preprocessor returned {text[:100]}; it must return a dict with the arguments of {entrypoint}",
            )
        on_preprocessed(text.encode())
    value = _call(module, entrypoint, args)
    encoded = python_results.to_json(
        value, postprocess="#skip_result_postprocessing" not in job["code"]
    ).encode()
    if len(encoded) > job["result_bytes"]:
        raise JobFailed(*python_results.too_large(len(encoded), job["result_bytes"]))
    return encoded


def _call(module: ModuleType, name: str, args: dict[str, Any]) -> Any:
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        raise JobFailed(
            "MissingEntrypoint",
            f"{module.__file__} has no function named {name}; define it, for example: def {name}(name: str): ...",
        )
    if name not in _FIXED_NAMES and getattr(function, "__module__", None) != module.__name__:
        # Who may run a script may name any function of it, but not have `from subprocess import run` called.
        raise JobFailed(
            "MissingEntrypoint",
            f"{name} is imported in {module.__file__}, not defined there, and cannot be called by its name; define a "
            "function that calls it",
        )
    positional, named = python_args.bind(function, args)
    value = function(*positional, **named)
    if inspect.iscoroutine(value) or inspect.isasyncgen(value):
        import asyncio  # not for every job: it would make each fork a quarter of a millisecond slower

        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        if inspect.isasyncgen(value):
            value = asyncio.run(python_results.stream_async(value))
    if inspect.isgenerator(value):
        value = python_results.stream(value)
    return value


def _load(path: str, code: str, scripts: dict[str, str], folders: dict[str, str]) -> ModuleType:
    """Execute the script as the module that its path names: f/ops/report.py is f.ops.report."""
    name = path.removesuffix(".py").replace("/", ".")
    module = ModuleType(name)
    module.__file__ = path
    module.__package__ = name.rpartition(".")[0]
    sys.modules[name] = module
    linecache.cache[path] = (len(code), None, code.splitlines(keepends=True), path)  # also after a chdir
    if scripts or _IMPORTS_OF_SCRIPTS.search(code):
        python_imports.install(code, scripts, folders)
    exec(compile(code, path, "exec", dont_inherit=True), module.__dict__)
    return module


def _describe(error: BaseException, job: dict[str, Any] | None) -> dict[str, Any]:
    described: dict[str, Any] = {"name": type(error).__name__, "message": str(error), "stack": ""}
    if isinstance(error, JobFailed):
        described["name"] = error.name
    elif isinstance(error, SystemExit):
        what = (
            error.code if isinstance(error.code, str) else f"The script ended with sys.exit({error.code!r})"
        )
        described |= {"message": what, "stack": _stack(error)}
    elif isinstance(error, SyntaxError) and error.text is not None:
        described["stack"] = "".join(traceback.format_exception_only(error))
    else:
        described["stack"] = _stack(error)
        if isinstance(error, MemoryError) and not str(error):
            limit = f"its {job['memory_bytes'] >> 20} MB of memory" if job else "it may use"
            peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            described["message"] = f"The job asked for more than {limit} (peak {peak_kb / 1024:.0f} MB)"
        extra = {key: value for key, value in vars(error).items() if not key.startswith("__")}
        if extra:
            described["extra"] = extra
    if step_id := os.environ.get("WM_FLOW_STEP_ID"):
        described["step_id"] = step_id
    return described


def _stack(error: BaseException) -> str:
    """The frames of the script and below, as in a traceback; with causes when there are."""
    frames = _without_ours(error.__traceback__)
    if error.__cause__ is None and (error.__context__ is None or error.__suppress_context__):
        return "\n".join(traceback.format_tb(frames))
    return "".join(traceback.format_exception(error.with_traceback(frames)))


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    """Skip to the first frame of the script itself (asyncio may lie between our frames and it)."""
    current = frames
    while current is not None and not _is_a_script(current.tb_frame.f_code.co_filename):
        current = current.tb_next
    if current is not None:
        return current
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frames = frames.tb_next
    return frames


def _is_a_script(filename: str) -> bool:
    return filename in linecache.cache and linecache.cache[filename][1:2] == (None,)
