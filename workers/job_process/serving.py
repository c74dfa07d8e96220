"""A warm process: a script that is loaded once and called again and again, by lines of JSON.

calls    in   {"args": {...}, "env": {...}, "main": "main", "pre": false}     one line a call, any number at once
answers  out  "0 L null"       the script is loaded; "0 E {...}": it is not, and the process ends
              "7 R <result>", "7 E <error>", before either "7 A <what the preprocessor returned>"   of call 7
              Calls are numbered from 1. An answer is written before the next call is begun: a later crash cannot
              lose it.
log      out  what the script prints and, on the same pipe, marks: a text that cannot be guessed, then the number
              of the call whose output follows, 0 between calls. The mark that ends the output of a call is written
              before its answer. It is the next call's own mark if that one has come already.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import select
import socket
import sys
import weakref
from types import ModuleType
from typing import Any, NoReturn

from . import python_main

_READ_BYTES = 1 << 18
# Where programs that are executed find the three, in this order: calls, answers, log.
_PLACES = (3, 4, 5)
_FIRST_FREE = 10
CANNOT_ANSWER = 121  # exit code of a process that lost its pipes


def put_in_place(calls: int, answers: int) -> None:
    """Let a program that is executed next find the pipes at _PLACES; whatever is there is closed."""
    kept = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for fd in (calls, answers, 1)]
    for fd, place in zip(kept, _PLACES, strict=True):
        os.dup2(fd, place, inheritable=True)


def serve(
    job: dict[str, Any], env: dict[str, str], worker: socket.socket, *, calls: int, answers: int
) -> NoReturn:
    """Load the script of `job` (see python_main.run), then answer calls until no more can come; ends this process.

    job["mark"] is what marks in the log begin with.
    """
    worker.close()  # user code has no business with it, and nothing is said there
    server = _Server(job, env, calls, answers)
    exit_code = 1
    try:
        if server.load(env):
            server.answer_calls()
            exit_code = 0
    except OSError as error:
        exit_code = CANNOT_ANSWER
        server.give_up(error)
    python_main.end(exit_code)


class _Server:
    def __init__(self, job: dict[str, Any], env: dict[str, str], calls: int, answers: int) -> None:
        self._job = job
        self._calls = calls
        self._answers = answers
        self._log = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)  # the script may put another file at 1
        self._mark: str = job["mark"]
        self._module: ModuleType
        self._own_env = env
        self._last_env: dict[str, str] = {}
        self._clients = _Clients(env.get("WM_TOKEN", ""))

    def load(self, env: dict[str, str]) -> bool:
        try:
            python_main.become_an_ordinary_process(env, self._job)
            self._module = python_main.load(self._job)
        except BaseException as error:
            # One that leaves in peace while it is loaded has no main to call either.
            self._answer(0, "E", python_main.outcome_of(_without_peace(error), self._job)[1])
            return False
        _flush()
        self._say(0)
        self._answer(0, "L", b"null")
        gc.freeze()  # what the script loaded stays: the collector need not look at it again
        return True

    def answer_calls(self) -> None:
        number, rest = 0, b""
        while data := os.read(self._calls, _READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            if not lines:
                rest = self._whole_line(rest)
                *lines, rest = rest.split(b"\n")
            if lines:
                self._say(number + 1)
            for left, line in zip(range(len(lines) - 1, -1, -1), lines, strict=True):
                number += 1
                self._one(number, line, number + 1 if left else 0)

    def _whole_line(self, begun: bytes) -> bytes:
        """The rest of a line that is longer than one read: pieces are put together once, not again and again."""
        pieces = [begun]
        while data := os.read(self._calls, _READ_BYTES):
            pieces.append(data)
            if b"\n" in data:
                break
        return b"".join(pieces)

    def _one(self, number: int, line: bytes, next_number: int) -> None:
        try:
            call = json.loads(line)
            self._set_environment(call["env"])
            kind = "R"
            text = python_main.answer(
                self._module,
                self._job,
                call["args"],
                entrypoint=call["main"],
                preprocess=call["pre"],
                on_preprocessed=lambda text: self._answer(number, "A", text),
            )
        except BaseException as error:
            kind, text = python_main.outcome_of(error, self._job)
        _flush()
        self._say(next_number)
        self._answer(number, kind, text)

    def _set_environment(self, env: dict[str, str]) -> None:
        last, self._last_env = self._last_env, env
        for name, value in env.items():
            if last.get(name) != value:
                os.environ[name] = value
        for name in last.keys() - env.keys():
            if name in self._own_env:
                os.environ[name] = self._own_env[name]
            else:
                os.environ.pop(name, None)
        token = env.get("WM_TOKEN")
        if token and token != last.get("WM_TOKEN"):
            self._clients.renew(token)

    def _say(self, number: int) -> None:
        _write(self._log, f"{self._mark}{number}\n".encode())

    def _answer(self, number: int, kind: str, text: bytes) -> None:
        _write(self._answers, b"%d %s %s\n" % (number, kind.encode(), text))

    def give_up(self, error: OSError) -> None:
        with contextlib.suppress(OSError):
            _write(self._log, f"the process of this script can no longer answer: {error.strerror}\n".encode())


class _Clients:
    """Clients of the API (package wmill) that the script keeps between calls: they remember the token of the job in
    which they were made, which ends with it."""

    def __init__(self, token: str) -> None:
        self._known: weakref.WeakSet[Any] | None = None
        self._tokens = {token}  # that jobs of this process had; others were given by the script

    def renew(self, token: str) -> None:
        """Let them use `token` from now on."""
        self._tokens.add(token)
        module = sys.modules.get("wmill.client")
        kind = getattr(module, "Windmill", None)
        if not isinstance(kind, type):
            return
        if self._known is None:
            self._watch(kind)
        for client in list(self._known or ()):
            if getattr(client, "token", None) in self._tokens:
                with contextlib.suppress(
                    Exception
                ):  # another version of the package, which keeps it elsewhere
                    client.token = token
                    client.headers["Authorization"] = f"Bearer {token}"
                    client.client.headers["Authorization"] = f"Bearer {token}"
        if len(self._tokens) > 10_000:
            self._tokens = {token}

    def _watch(self, kind: Any) -> None:
        """Remember the clients that there are, and those that are made from now on."""
        gc.unfreeze()  # frozen objects are not found
        self._known = known = weakref.WeakSet(one for one in gc.get_objects() if type(one) is kind)
        gc.freeze()
        made = kind.__init__

        def __init__(client: Any, *args: Any, **named: Any) -> None:
            known.add(client)
            made(client, *args, **named)

        kind.__init__ = __init__


def _without_peace(error: BaseException) -> BaseException:
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return python_main.JobFailed(
            "NotLoaded",
            "The script ended itself (sys.exit) while it was loaded, before any of its functions was called",
        )
    return error


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):  # the script may have replaced or closed it
            stream.flush()


def _write(fd: int, data: bytes) -> None:
    """All of `data`, also when the script made the pipe non-blocking. Raises OSError."""
    try:
        written = os.write(fd, data)
    except BlockingIOError:
        written = 0
    while written < len(data):
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        poll.poll()
        with contextlib.suppress(BlockingIOError):
            written += os.write(fd, data[written:])
