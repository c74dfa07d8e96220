"""One warm process: started in a sandbox like any job, fed calls over a pipe, read until it ends.

What it speaks is written in workers/job_process/serving.py. Nothing that comes from it is believed: user code runs in it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from jobs.signatures import FUNCTION_CALL
from workers.dedicated.calls import Answer, Call, Listener
from workers.dedicated.marked_log import MarkedLog
from workers.job_process import serving
from workers.runtimes import failures, results
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Warmable, WarmProgram
from workers.sandbox import Ended, SandboxUnavailable, Session, SharedFolderLost

logger = logging.getLogger(__name__)

ENTRYPOINT_OVERRIDE = "_ENTRYPOINT_OVERRIDE"
_LARGE = 1 << 20  # bytes of an answer that are not looked at in the event loop
_WORN = (
    0.8  # of the memory limit: a process that takes more gets no further calls, lest it be killed during one
)
_FAREWELL_S = 2.0  # for atexit functions and the like of a process that is not wanted any more
_LOOK_AGAIN_S = 0.1
_LAST_WORDS_S = 1.0  # between the end of its answers and that of the process itself
_ANSWERS_CLOSED = (
    "The script closed the descriptor over which its process answers, or something that it started did "
    "(os.closerange does that): what this job returned cannot be known"
)
_NO_ANSWER = (
    "The script wrote to the descriptor over which its process answers (the first that is not standard input, output or "
    "error): what this job returned cannot be known"
)


class WarmProcess:
    """One script, loaded once. Calls run one after another, in the order in which they were sent."""

    def __init__(
        self, warm: WarmProgram, execution: Execution, log: LogSink, on_end: Callable[[WarmProcess], None]
    ) -> None:
        """Use `start`."""
        self._loop = asyncio.get_running_loop()
        self._warm = warm
        self._limits = execution.limits
        self._has_network = execution.network
        self._on_end = on_end
        self._held = AsyncExitStack()  # what the program needs on disk
        self._pending: deque[tuple[Call, Listener]] = deque()  # not answered yet, in order
        self._answered = 0
        self._preprocessed: str | None = None  # of the first pending
        self._ready: list[tuple[Answer, Listener]] = []  # to be told, in order
        self._checking: asyncio.Task[None] | None = (
            None  # a large answer is being looked at; others wait behind it
        )
        self._behind: deque[bytes] = deque()
        self._line: list[bytes] = []  # pieces of an answer whose end has not come
        self._line_bytes = 0
        self._functions: dict[str, str] = {}
        self._doomed: set[str] = set()  # jobs whose calls shall not run
        self._began_at = 0.0  # when the first pending call began, or could
        self._timer: asyncio.TimerHandle | None = None
        self._reason: ExecutionFailed | SandboxUnavailable | None = None  # why we ended it
        self._overdue: Call | None = None  # that was killed for its time
        self._is_garbled = False  # what comes over the pipe for answers means nothing any more
        self._is_leaving = False
        self._farewell: asyncio.TimerHandle | None = None
        self._session_ended: Ended | SandboxUnavailable | SharedFolderLost | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._is_over = False
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self.idle_since = self._loop.time()
        self._log = MarkedLog(warm.mark, self._limits, self._listener_of, log)
        self._session: Session = warm.host.open_session(
            warm.program,
            limits=self._limits,
            on_output=self._log.feed,
            on_message=self._on_message,
            on_closed=self._on_closed,
            on_end=self._on_session_end,
        )

    @classmethod
    async def start(
        cls,
        executor: Warmable,
        execution: Execution,
        log: LogSink,
        *,
        on_end: Callable[[WarmProcess], None] = lambda process: None,
    ) -> WarmProcess:
        """Load the script; `log` gets what it prints meanwhile, and what installing its packages says.

        `execution.args` are not used; `execution.env` holds what is the same for all calls (and, for code at the top
        level of the script, the variables of the job that it is started for); `timeout_s` is for loading. `on_end` is
        called when a process that had been loaded has ended, whatever the reason, after the listeners have been told.

        Raises ExecutionFailed when it does not load (in the words of the script's own lines), SandboxUnavailable.
        """
        async with AsyncExitStack() as held:
            warm = await held.enter_async_context(executor.warm(execution, log))
            process = cls(warm, execution, log, on_end)
            try:
                async with asyncio.timeout(execution.timeout_s):
                    await asyncio.shield(process._loaded)
            except TimeoutError:
                await process.close()
                raise failures.timed_out(execution.timeout_s) from None
            except BaseException:
                await process.close()
                raise
            process._held = held.pop_all()
        return process

    @property
    def is_open(self) -> bool:
        """Whether calls may be sent: it runs, and has not grown too large for more of them."""
        return not (self._is_over or self._is_leaving or self._reason or self._is_worn)

    def fits(self, execution: Execution) -> bool:
        """Whether its calls are held to what `execution` is to be held to."""
        return (execution.limits, execution.network) == (self._limits, self._has_network)

    @property
    def running(self) -> str | None:
        """The job whose call runs now, or is the next to do so."""
        return self._pending[0][0].job_id if self._pending else None

    @property
    def load(self) -> int:
        """Calls that are not answered yet."""
        return len(self._pending)

    @property
    def peak_kb(self) -> int:
        """The most memory that its processes took together so far."""
        return self._session.peak_kb

    @property
    def memory_kb(self) -> int:
        """The memory that its processes took together a moment ago."""
        return self._session.memory_kb

    def send(self, calls: Sequence[Call], listener: Listener) -> None:
        """Have `calls` run after those that were sent before. Never blocks. One write, however many there are.

        Calls that are sent to a process that is not open any more are told to the listener's on_end as not begun.
        """
        if self._is_over or self._is_leaving or self._reason:
            lost = SandboxUnavailable("the process of this script has ended")
            self._loop.call_soon(listener.on_end, lost, None, list(calls))
            return
        if not self._pending:
            self._began_at = self._loop.time()
        self._pending.extend([(call, listener) for call in calls])
        self._session.send("".join([self._line_of(call) for call in calls]).encode("utf-8", "replace"))
        self._set_timer()

    async def kill(self, job_id: str) -> None:
        """See to it that the call of this job does not go on: nobody hears of it any more.

        When it runs the process is killed, and nothing of it is left on return. When it waits the process is killed as
        soon as its turn comes. The other calls' listeners are told.
        """
        if job_id == self.running:
            self._doomed.add(job_id)
            self._end(SandboxUnavailable("its process was ended with the job that it ran"))
            await asyncio.shield(self._gone)
        elif any(call.job_id == job_id for call, _ in self._pending):
            self._doomed.add(job_id)

    def leave(self) -> None:
        """Take no more calls, and end when those that were sent are answered."""
        self._is_leaving = True
        self._leave_if_idle()

    async def close(self) -> None:
        """Kill the process; unanswered calls end as SandboxUnavailable."""
        self._end(SandboxUnavailable("the process of this script was ended by its worker"))
        await asyncio.shield(self._gone)

    # --- calls ---

    def _line_of(self, call: Call) -> str:
        args, entrypoint = call.args_json, call.entrypoint
        if ENTRYPOINT_OVERRIDE in args or FUNCTION_CALL in args:
            args, entrypoint = _plain_arguments(call)
        if "\n" in args:
            args = args.replace("\n", " ")  # between values: within texts it is escaped
        preprocessor = "null"
        if call.preprocess:
            preprocessor = self._function("preprocessor")
        return (
            f'{{"args":{args},"env":{json.dumps(dict(call.env))},"main":{self._function(entrypoint)},'
            f'"pre":{preprocessor}}}\n'
        )

    def _function(self, name: str) -> str:
        known = self._functions.get(name)
        if known is None:
            told = name if self._warm.function is None else self._warm.function(name)
            known = self._functions[name] = json.dumps(told)
        return known

    def _listener_of(self, number: int) -> tuple[Call, Listener] | None:
        """Who wants the output of call `number`."""
        at = number - self._answered - 1
        return self._pending[at] if 0 <= at < len(self._pending) else None

    # --- time and memory ---

    @property
    def _is_worn(self) -> bool:
        return self._session.memory_kb * 1024 > _WORN * self._limits.memory_bytes

    def _set_timer(self) -> None:
        """See to it that we look when the running call may have run too long. Not for each call: the timer stays."""
        timeout_s = self._pending[0][0].timeout_s
        if timeout_s is None:
            return
        at = self._began_at + timeout_s
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        if not self._pending or self._reason is not None:
            return
        call = self._pending[0][0]
        if self._checking is not None:  # it has answered; its answer is being looked at
            self._timer = self._loop.call_later(_LOOK_AGAIN_S, self._look_at_time)
        elif call.timeout_s is not None and self._loop.time() >= self._began_at + call.timeout_s:
            self._overdue = call
            self._end(failures.timed_out(call.timeout_s))
        else:
            self._set_timer()

    # --- answers ---

    def _on_message(self, data: bytes) -> None:
        if b"\n" not in data:
            self._line.append(data)
            self._line_bytes += len(data)
            if self._line_bytes > self._limits.result_bytes + _LARGE:
                self._end_garbled()
                self._line, self._line_bytes = [], 0
            return
        if self._line:
            data = b"".join([*self._line, data])
            self._line = []
        lines = data.split(b"\n")
        rest = lines.pop()
        self._line_bytes = len(rest)
        if rest:
            self._line.append(rest)
        if self._checking is not None:
            self._behind.extend(lines)
            return
        self._take(lines)

    def _take(self, lines: Sequence[bytes]) -> None:
        # What the calls printed comes over another pipe, and came first.
        self._session.read_output()
        for at, line in enumerate(lines):
            if self._is_garbled:
                break
            if len(line) > _LARGE:
                self._behind.extend(lines[at + 1 :])
                self._checking = self._loop.create_task(self._take_large(line))
                break
            try:
                self._take_one(line, results.checked_now)
            except _NoAnswer:
                self._end_garbled()
        self._tell()

    async def _take_large(self, line: bytes) -> None:
        """Take an answer that is looked at in a thread, and then what came behind it."""
        header = line.find(b" ", line.find(b" ") + 1) + 1  # behind number and kind
        what = next((what for kind, what in _WHAT.items() if b" %s " % kind in line[:header]), "the answer")
        try:
            checked: str | ExecutionFailed = await results.checked(line[header:], what=what)
        except ExecutionFailed as failed:
            checked = failed
        self._checking = None
        behind, self._behind = list(self._behind), deque()
        try:
            self._take_one(line[:header] + b"0", lambda content, what: _given(checked))
        except _NoAnswer:
            self._end_garbled()
        self._take(behind)
        if self._session_ended is not None and self._checking is None:
            self._over(self._session_ended)

    def _take_one(self, line: bytes, checked: Callable[[bytes, str], str]) -> None:
        """Take one answer. Raises _NoAnswer when it is none."""
        number, _, told = line.partition(b" ")
        kind, _, content = told.partition(b" ")
        if number == b"0":
            self._take_loaded(kind, content)
            return
        if not self._pending or number != b"%d" % (self._answered + 1) or kind not in _WHAT:
            raise _NoAnswer
        call, listener = self._pending[0]
        try:
            text = checked(content, _WHAT[kind])
            is_success = kind != b"E"
        except ExecutionFailed as failed:
            text, is_success, kind = json.dumps(failed.error), False, b"R"
        if kind == b"A":
            self._preprocessed = text
            return
        if kind == b"E":
            text = self._error(text.encode(), call, listener)
        if call.job_id in self._doomed:
            self._doomed.discard(call.job_id)  # nobody wants to hear of it
        else:
            answer = Answer(call.job_id, is_success, text, self._preprocessed, self._session.peak_kb)
            self._ready.append((answer, listener))
        self._preprocessed = None
        self._pending.popleft()
        self._answered += 1

    def _end_garbled(self) -> None:
        self._is_garbled = True
        self._end(ExecutionFailed({"name": "ExecutionErr", "message": _NO_ANSWER}))

    def _error(self, content: bytes, call: Call, listener: Listener) -> str:
        error = self._warm.readable(results.error_object(content))
        if hint := self._warm.hint(error):
            listener.on_log(call.job_id, hint)
        if step_id := call.env.get("WM_FLOW_STEP_ID"):
            error["step_id"] = step_id
        return json.dumps(error, ensure_ascii=False)

    def _take_loaded(self, kind: bytes, content: bytes) -> None:
        if self._loaded.done() or kind not in (b"L", b"E"):
            raise _NoAnswer
        self._log.load_over()
        if kind == b"L":
            self._loaded.set_result(None)
            return
        error = self._warm.readable(results.error_object(content))
        self._loaded.set_exception(ExecutionFailed(error, mem_peak_kb=self._session.peak_kb))

    def _tell(self) -> None:
        """Tell the listeners what is ready, as many at once as possible."""
        ready, self._ready = self._ready, []
        if not ready:
            return
        now = self._loop.time()
        if self._pending:
            self._began_at = now
            self._set_timer()
        else:
            self.idle_since = now
        answers: list[Answer] = []
        for at, (answer, listener) in enumerate(ready):
            answers.append(answer)
            if at + 1 == len(ready) or ready[at + 1][1] is not listener:
                _guarded(partial(listener.on_answers, answers))
                answers = []
        if self._doomed and self.running in self._doomed:
            self._end(SandboxUnavailable("its process was ended with a job that was canceled"))
        self._leave_if_idle()

    # --- the end ---

    def _leave_if_idle(self) -> None:
        if (self._is_leaving or self._is_worn) and not self._pending and self._farewell is None:
            self._is_leaving = True
            self._session.finish_sending()  # it sees the end of file, and ends as a process does that is done
            self._farewell = self._loop.call_later(_FAREWELL_S, self._end, _left())

    def _on_closed(self) -> None:
        """It cannot answer any more: it is about to end, or it closed the pipe and will be killed."""
        if self._farewell is None:
            self._farewell = self._loop.call_later(
                _LAST_WORDS_S,
                self._end,
                ExecutionFailed({"name": "ExecutionErr", "message": _ANSWERS_CLOSED}),
            )

    def _end(self, reason: ExecutionFailed | SandboxUnavailable) -> None:
        if self._is_over or self._reason is not None:
            return
        self._reason = reason
        self._in_background(self._session.close())

    def _on_session_end(self, how: Ended | SandboxUnavailable | SharedFolderLost) -> None:
        self._session_ended = how
        if self._checking is None:
            self._over(how)

    def _over(self, how: Ended | SandboxUnavailable | SharedFolderLost) -> None:
        if self._is_over:
            return
        self._is_over = True
        for timer in (self._timer, self._farewell):
            if timer is not None:
                timer.cancel()
        self._log.close()
        reason = self._reason or self._why(how)
        was_loaded = self._loaded.done() and self._loaded.exception() is None
        if not self._loaded.done():
            self._loaded.set_exception(reason)
            self._loaded.exception()  # nobody may wait for it any more
        elif isinstance(how, Ended) and not was_loaded:
            error = self._loaded.exception()
            if isinstance(error, ExecutionFailed):
                error.mem_peak_kb = max(error.mem_peak_kb, how.peak_kb)
        self._tell_of_the_end(reason)
        if not self._gone.done():
            self._gone.set_result(None)
        if was_loaded:
            self._on_end(self)
        self._in_background(self._held.aclose())

    def _tell_of_the_end(self, reason: ExecutionFailed | SandboxUnavailable) -> None:
        begun: tuple[Call, Listener] | None = None
        if self._pending and self._log.begun > self._answered:
            begun = self._pending.popleft()
            if self._overdue not in (None, begun[0]):
                # The one that took too long has answered after all, in its last moment; this one did nothing wrong.
                reason = SandboxUnavailable("the process of this script was ended for another job's time")
        left: dict[int, tuple[Listener, list[Call]]] = {}
        for call, listener in self._pending:
            left.setdefault(id(listener), (listener, []))[1].append(call)
        self._pending.clear()
        if begun is not None:
            left.setdefault(id(begun[1]), (begun[1], []))
        for listener, calls in left.values():
            own = begun[0] if begun is not None and begun[1] is listener else None
            wanted = [call for call in calls if call.job_id not in self._doomed]
            if own is not None and own.job_id in self._doomed:
                own = None
            if own is not None or wanted:
                _guarded(partial(listener.on_end, reason, own, wanted))

    def _why(
        self, how: Ended | SandboxUnavailable | SharedFolderLost
    ) -> ExecutionFailed | SandboxUnavailable:
        if isinstance(how, SandboxUnavailable):
            return how
        if isinstance(how, SharedFolderLost):
            return SandboxUnavailable(str(how))
        last_lines = self._log.last_lines
        killed = failures.killed(how, self._limits, last_lines)
        if killed is not None:
            return killed
        if how.exit_code == serving.CANNOT_ANSWER:
            return ExecutionFailed(
                {"name": "ExecutionErr", "message": _ANSWERS_CLOSED}, mem_peak_kb=how.peak_kb
            )
        what = "was loaded" if not self._loaded.done() else "returned"
        told = f", last log lines:\n{last_lines}" if last_lines else ""
        return ExecutionFailed(
            {
                "name": "ExecutionErr",
                "message": f"The process of this script ended with exit code {how.exit_code} before it {what}; "
                f"os._exit and process.exit do that{told}",
            },
            mem_peak_kb=how.peak_kb,
        )

    def _in_background(self, act: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(act)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _NoAnswer(Exception):
    """What came over the pipe for answers is none."""


_WHAT = {b"R": "the result", b"E": "the error", b"A": "what the preprocessor returned"}


def _left() -> SandboxUnavailable:
    return SandboxUnavailable("the process of this script was not used any more")


def _given(checked: str | ExecutionFailed) -> str:
    if isinstance(checked, ExecutionFailed):
        raise checked
    return checked


def _plain_arguments(call: Call) -> tuple[str, str]:
    """The arguments without what is not one, and the name of the function to call."""
    args = json.loads(call.args_json)
    entrypoint = str(args.pop(ENTRYPOINT_OVERRIDE, None) or call.entrypoint)
    # How forms show a default that is computed: the function's own one applies.
    return json.dumps({name: value for name, value in args.items() if value != FUNCTION_CALL}), entrypoint


def _guarded(tell: Callable[[], None]) -> None:
    """A listener that fails must not keep others from hearing."""
    try:
        tell()
    except Exception:
        logger.exception("a listener of a warm process failed")
