"""Helpers with a thread each, and the calls that wait for one."""

import asyncio
import logging
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from jobs.flows.javascript.calls import Answer, Program, Values, as_request, read_answers
from jobs.flows.javascript.helper import TOO_MUCH_MEMORY, EngineLost, Helper, Killed, LimitExceeded

logger = logging.getLogger(__name__)

TIME_LIMIT_S = 20.0
HEAP_MB = 48  # of one call, beyond its inputs
BIG_CALL = 500_000  # characters in and out; after that, or after free code, a helper's memory is looked at


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
        header, texts = as_request(programs, values)
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
        return read_answers(text, len(programs))

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
