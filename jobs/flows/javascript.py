"""V8 for expressions: a few helper processes, each evaluating one call at a time, with limits of time and memory.

Why processes: a JavaScript program can make V8 end its process (an allocation that fails at a bad moment) or keep it in
a loop that cannot be interrupted (`new Array(2 ** 27).fill(1)`). A helper that does either is killed and replaced, and
nobody else notices. It also holds no credentials: code of users never shares memory with the worker.

What runs in the helper: jobs/flows/isolate.py, and in each isolate jobs/flows/harness.js.
"""

import asyncio
import json
import logging
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

logger = logging.getLogger(__name__)

TIME_LIMIT_S = 20.0
HEAP_MB = 48  # of one call, beyond its inputs
MAX_VALUE_CHARS = 50_000_000  # of one value as JSON
START_LIMIT_S = 30.0
TOO_MUCH_MEMORY = "needs too much memory"
BIG_CALL = 500_000  # characters in and out; after that, or after free code, a helper's memory is looked at
MAX_IDLE_MB = 160

CALLS = ("variable", "resource", "flow_user_state")  # functions of expressions that ask for something


# --- what goes in and comes out ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One expression."""

    source: str
    names: tuple[str, ...]  # its parameters: names of values, "results", and CALLS
    is_pure: bool = False  # cannot change what it reads: may share it with others of the call
    is_tame: bool = False  # cannot change anything but what it reads: may run in a shared isolate
    awaits: bool = False  # uses `await`
    thens: bool = False  # uses .then(): functions return promises
    truth: bool = False  # only whether its value is truthy

    def as_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "names": self.names,
            "pure": self.is_pure,
            "awaits": self.awaits,
            "thens": self.thens,
            "truth": self.truth,
        }


@dataclass(frozen=True, slots=True)
class Done:
    text: bytes  # JSON


@dataclass(frozen=True, slots=True)
class Failed:
    name: str
    message: str
    line: int | None = None  # of the expression, from 1


@dataclass(frozen=True, slots=True)
class Needs:
    """It asked for values that were not sent: evaluate it again with them."""

    asked: tuple[tuple[str, str], ...]  # ("results" or one of CALLS, name)


Answer = Done | Failed | Needs


@dataclass(slots=True)
class Values:
    """What the programs of a call may read, each as JSON text."""

    named: dict[str, bytes] = field(default_factory=dict)
    results: dict[str, bytes] = field(default_factory=dict)
    calls: dict[str, dict[str, bytes]] = field(default_factory=lambda: {kind: {} for kind in CALLS})

    def has(self, kind: str, name: str) -> bool:
        return name in (self.results if kind == "results" else self.calls[kind])

    def add(self, kind: str, name: str, text: bytes) -> None:
        (self.results if kind == "results" else self.calls[kind])[name] = text


class LimitExceeded(Exception):
    """The call took too long, or too much memory; the text says which, for the author."""


class EngineLost(Exception):
    """The helper process died, and not because of a limit; the call may be tried again."""


class Killed(Exception):
    """The helper process was killed: by us, for another call that was canceled; by an operator; or by the kernel."""


# --- the helper process ---


class Helper:
    """One helper process. Used by one thread at a time, except for `kill`."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(Path(__file__).with_name("isolate.py")), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # V8 describes its end at length
                env={"PATH": os.defpath, "LANG": "C.UTF-8", "TZ": os.environ.get("TZ", "UTC")},
                cwd="/",
                start_new_session=True,  # a Ctrl-C is the worker's
            )
        self._channel = ours
        self._is_killed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        """Return when it can take a call. Raises EngineLost."""
        try:
            self._receive(time.monotonic() + START_LIMIT_S)
        except (OSError, EngineLost, LimitExceeded) as exc:
            self.kill()
            raise EngineLost("the helper process for expressions does not start") from exc

    def call(
        self, header: str, texts: Sequence[bytes], *, is_shared: bool, heap_mb: int, limit_s: float
    ) -> str:
        """Evaluate; the harness' answer. Raises LimitExceeded, EngineLost, Killed: then it is gone."""
        deadline = time.monotonic() + limit_s
        about = json.dumps(
            {
                "header": header,
                "is_shared": is_shared,
                "sizes": [len(text) for text in texts],
                "heap_mb": heap_mb,
            }
        ).encode()
        try:
            self._channel.settimeout(max(limit_s, 0.001))
            self._channel.sendall(b"".join([struct.pack("!I", len(about)), about, *texts]))
            kind, text = self._receive(deadline)
        except TimeoutError:
            self.kill()
            raise LimitExceeded(f"took longer than {limit_s:g} seconds") from None
        except (OSError, EngineLost):
            if not self._is_killed:
                try:
                    self._process.wait(timeout=1)  # it closed its side: its end is near, and tells why
                except subprocess.TimeoutExpired:
                    pass
            self.kill()
            if self._process.returncode == -signal.SIGKILL:
                raise Killed from None
            # V8 ended its process. It does nothing but this call: it is this call that needs the memory.
            raise LimitExceeded(TOO_MUCH_MEMORY) from None
        if kind == b"A":
            return text.decode()
        self.kill()
        if kind == b"M":
            raise LimitExceeded(TOO_MUCH_MEMORY)
        raise EngineLost(text.decode(errors="replace"))

    def _receive(self, deadline: float) -> tuple[bytes, bytes]:
        kind, length = struct.unpack("!cQ", self._read(9, deadline))
        return kind, self._read(length, deadline)

    def _read(self, length: int, deadline: float) -> bytes:
        buffer = bytearray(length)
        view = memoryview(buffer)
        while view:
            self._channel.settimeout(max(deadline - time.monotonic(), 0.001))
            count = self._channel.recv_into(view)
            if not count:
                raise EngineLost("the helper process for expressions ended")
            view = view[count:]
        return bytes(buffer)

    @property
    def is_alive(self) -> bool:
        return not self._is_killed and self._process.poll() is None

    @property
    def is_bloated(self) -> bool:
        """Whether big inputs left it with more memory than it should keep."""
        try:
            return psutil.Process(self.pid).memory_info().rss > MAX_IDLE_MB << 20
        except psutil.NoSuchProcess:
            return True

    def kill(self) -> None:
        """End it, whatever it does. Safe from any thread, and more than once."""
        self._is_killed = True
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        try:
            self._channel.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # closed by the other side already

    def close(self) -> None:
        self.kill()
        self._channel.close()


# --- the engine ---


@dataclass(slots=True)
class _Task:
    header: str
    texts: list[bytes]
    is_shared: bool
    heap_mb: int
    limit_s: float
    future: "Future[str]" = field(default_factory=Future)
    helper: Helper | None = None
    is_canceled: bool = False


class Engine:
    """Helpers with a thread each. `lanes` of them are always there; up to `max_lanes` while all are busy.

    A lane costs about 60 MB (V8 with its data); surplus lanes go after `idle_s` without work.
    """

    def __init__(
        self,
        *,
        lanes: int = 2,
        max_lanes: int = 4,
        time_limit_s: float = TIME_LIMIT_S,
        heap_mb: int = HEAP_MB,
        idle_s: float = 60.0,
    ) -> None:
        self.time_limit_s = time_limit_s
        self.heap_mb = heap_mb
        self._min_lanes = lanes
        self._max_lanes = max(lanes, max_lanes)
        self._idle_s = idle_s
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._lanes: set[_Lane] = set()
        self._pending = 0  # tasks given to lanes and not answered yet
        self._is_closed = False

    def warm_up(self) -> None:
        """Start the helpers now, in the background, so that the first call finds them ready."""
        with self._lock:
            while len(self._lanes) < self._min_lanes and not self._is_closed:
                self._start_lane()

    def close(self) -> None:
        """End all helpers; calls that run fail with EngineLost."""
        with self._lock:
            self._is_closed = True
            lanes = list(self._lanes)
        for _ in lanes:
            self._tasks.put(None)
        for lane in lanes:
            lane.stop()
        for lane in lanes:
            lane.join(timeout=5)

    @property
    def lane_count(self) -> int:
        return len(self._lanes)

    @property
    def pids(self) -> list[int]:
        """Of the helper processes, those being started included."""
        with self._lock:
            helpers = [lane.helper for lane in self._lanes]
        return [helper.pid for helper in helpers if helper is not None]

    async def evaluate(
        self, programs: Sequence[Program], values: Values, *, limit_s: float | None = None
    ) -> list[Answer]:
        """Evaluate each program; one answer for each, in order.

        Raises LimitExceeded (all of them together took too long or too much), EngineLost.
        """
        header, texts = _request(programs, values)
        heap_mb = self.heap_mb + sum(map(len, texts)) * 10 // (1 << 20)
        limit_s = self.time_limit_s if limit_s is None else limit_s
        is_shared = all(program.is_tame for program in programs)
        task = _Task(header, texts, is_shared, heap_mb, limit_s)
        self._submit(task)
        try:
            text = await asyncio.wrap_future(task.future)
        except asyncio.CancelledError:
            task.is_canceled = True
            if task.helper is not None and not task.future.done():
                task.helper.kill()  # in the worst case it has begun another call by now, which is then tried again
            raise
        return _answers(text, len(programs))

    def _submit(self, task: _Task) -> None:
        with self._lock:
            if self._is_closed:
                raise EngineLost("stopped")
            self._pending += 1
            while len(self._lanes) < self._min_lanes or self._pending > len(self._lanes) < self._max_lanes:
                self._start_lane()
        self._tasks.put(task)

    def _start_lane(self) -> None:
        lane = _Lane(self, f"expressions-{len(self._lanes) + 1}")
        self._lanes.add(lane)
        lane.start()

    # Called by lanes.

    def next_task(self, lane: "_Lane") -> _Task | None:
        """The next task; None when the lane shall end, and is no longer counted on."""
        while True:
            try:
                return self._tasks.get(timeout=self._idle_s)
            except queue.Empty:
                with self._lock:
                    if len(self._lanes) > self._min_lanes and not self._pending:
                        self._lanes.discard(
                            lane
                        )  # in the same breath: a task that comes now starts another one
                        return None

    def task_done(self) -> None:
        with self._lock:
            self._pending -= 1

    def lane_ended(self, lane: "_Lane") -> None:
        with self._lock:
            self._lanes.discard(lane)


class _Lane(threading.Thread):
    """A thread and its helper."""

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._engine = engine
        self.helper: Helper | None = None
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True
        helper = self.helper
        if helper is not None:
            helper.kill()

    def run(self) -> None:
        try:
            while not self._is_stopped:
                if not self._ensure_helper():
                    self._fail_one()
                    continue
                task = self._engine.next_task(self)
                if task is None:
                    return
                try:
                    self._serve(task)
                finally:
                    self._engine.task_done()
        finally:
            if self.helper is not None:
                self.helper.close()
            self._engine.lane_ended(self)

    def _ensure_helper(self) -> bool:
        """A new helper is started before the next task is taken: no task waits for it while others are free."""
        if self.helper is not None and self.helper.is_alive:
            return True
        if self.helper is not None:
            self.helper.close()
        try:
            self.helper = Helper()
            self.helper.wait_ready()
        except (EngineLost, OSError):
            if not self._is_stopped:
                logger.exception("expressions: no helper process")
            return False
        return True

    def _fail_one(self) -> None:
        """Without helpers nobody shall wait for ever: each failed start answers one task."""
        task = self._engine.next_task(self)
        if task is not None:
            task.future.set_exception(EngineLost("the helper process for expressions does not start"))
            self._engine.task_done()

    def _serve(self, task: _Task) -> None:
        if not task.future.set_running_or_notify_cancel():
            return
        try:
            text = self._call(task)
        except Killed:
            task.future.set_exception(LimitExceeded(TOO_MUCH_MEMORY))
        except Exception as exc:
            task.future.set_exception(exc)
        else:
            task.future.set_result(text)
            self._slim(task, text)

    def _call(self, task: _Task) -> str:
        try:
            return self._try(task)
        except Killed:
            if self._is_stopped or task.is_canceled:
                raise EngineLost("stopped") from None
            logger.warning("expressions: a helper process was killed; its call is tried once more")
            if not self._ensure_helper():
                raise EngineLost("the helper process for expressions does not start") from None
            return self._try(task)

    def _try(self, task: _Task) -> str:
        helper = task.helper = self.helper
        assert helper is not None
        return helper.call(
            task.header, task.texts, is_shared=task.is_shared, heap_mb=task.heap_mb, limit_s=task.limit_s
        )

    def _slim(self, task: _Task, text: str) -> None:
        """End a helper that the call left too big; the next one starts before the next task is taken."""
        is_big = sum(map(len, task.texts)) + len(text) > BIG_CALL
        if self.helper is not None and (is_big or not task.is_shared) and self.helper.is_bloated:
            self.helper.kill()


def _request(programs: Sequence[Program], values: Values) -> tuple[str, list[bytes]]:
    texts: list[bytes] = []

    def numbered(named: Mapping[str, bytes]) -> dict[str, int]:
        start = len(texts)
        texts.extend(named.values())
        return {name: start + index for index, name in enumerate(named)}

    header = {
        "programs": [program.as_json() for program in programs],
        "values": numbered(values.named),
        "results": numbered(values.results),
        "calls": {kind: numbered(known) for kind, known in values.calls.items()},
        "maxLength": MAX_VALUE_CHARS,
        "isOnly": not all(program.is_tame for program in programs),  # the isolate serves this call alone
    }
    return json.dumps(header), texts


def _answers(text: str, count: int) -> list[Answer]:
    """Read the harness' answer. Users' code ran beside the harness: what does not fit is refused, never trusted."""
    lines = text.split("\n")
    try:
        about = json.loads(lines[0])
        if len(about) != count:
            raise ValueError("another number of answers")
        return [_one_answer(item, lines) for item in about]
    except (ValueError, LookupError, TypeError, RecursionError) as exc:
        raise EngineLost("the expression broke the engine's answer") from exc


def _one_answer(item: Any, lines: list[str]) -> Answer:
    if "line" in item:
        return Done(lines[item["line"]].encode())
    if "needs" in item:
        asked = tuple((kind, name) for kind, name in item["needs"])
        if not asked or any(
            kind not in ("results", *CALLS) or not isinstance(name, str) for kind, name in asked
        ):
            raise ValueError("it asks for something unknown")
        return Needs(asked)
    if "failed" in item:
        failed = item["failed"]
        line = failed.get("line")
        return Failed(str(failed["name"]), str(failed["message"]), line if isinstance(line, int) else None)
    return Failed("Error", "waits for a promise that nothing settles")
