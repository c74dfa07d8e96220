"""The warm processes of one worker, by script."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from workers.dedicated.calls import Answer, Call, WarmKey
from workers.dedicated.process import ENTRYPOINT_OVERRIDE, WarmProcess
from workers.runtimes.base import (
    Execution,
    ExecutionFailed,
    Executor,
    LogSink,
    Outcome,
    SandboxUnavailable,
    Warmable,
)

logger = logging.getLogger(__name__)

IDLE_S = 30 * 60.0
SUPERSEDED_S = 10.0
_LOOK_EVERY_S = 5.0
_ATTEMPTS = 3  # to begin a call, in as many processes


Prepare = Callable[[Execution], Awaitable[Execution]]


class DedicatedPool:
    """Starts processes when they are wanted, and ends those that nobody uses or that are of no use any more."""

    def __init__(
        self,
        executors: Mapping[str, Executor],
        *,
        most_each: int = 1,
        idle_s: float = IDLE_S,
        superseded_s: float = SUPERSEDED_S,
    ) -> None:
        """`executors` by language. At most `most_each` processes for one key.

        One without a call for `idle_s` ends; `superseded_s` if another version of its script was started later.
        """
        self._executors = executors
        self._most_each = most_each
        self._idle_s = idle_s
        self._superseded_s = superseded_s
        self._kept: dict[WarmKey, list[WarmProcess]] = {}
        self._starting: dict[WarmKey, set[asyncio.Task[WarmProcess]]] = {}
        self._newest: dict[tuple[str, str, str], str] = {}  # version started last, by the rest of the key
        self._keeper: asyncio.Task[None] | None = None
        self._is_closed = False

    def can(self, language: str) -> bool:
        """Whether scripts in `language` can have warm processes here."""
        return isinstance(self._executors.get(language), Warmable)

    async def run(
        self, key: WarmKey, execution: Execution, log: LogSink, *, prepare: Prepare | None = None
    ) -> Outcome:
        """Run one job in a warm process. Raises as Executor.run does. Cancelled: its process is killed first.

        `prepare` as in `process`.
        """
        args = {name: value for name, value in execution.args.items() if name != ENTRYPOINT_OVERRIDE}
        call = Call(
            job_id=execution.job_id,
            args_json=json.dumps(args),
            env=execution.env,
            timeout_s=execution.timeout_s,
            preprocess=execution.preprocess,
            entrypoint=str(execution.args.get(ENTRYPOINT_OVERRIDE) or execution.entrypoint),
        )
        for _ in range(_ATTEMPTS):
            process = await self.process(key, execution, log, prepare=prepare)
            one = _OneJob(log)
            process.send([call], one)
            try:
                answer = await asyncio.shield(one.answer)
            except asyncio.CancelledError:
                await process.kill(call.job_id)
                raise
            if answer is not None:
                return _outcome(answer)
        raise SandboxUnavailable("the processes of this script end before they run anything")

    async def process(
        self, key: WarmKey, execution: Execution, log: LogSink, *, prepare: Prepare | None = None
    ) -> WarmProcess:
        """The open process of `key` with the fewest calls; a new one when all have some and there may be more.

        `execution` and `log` are used when one has to be started; `prepare` then makes `execution` ready to run. Raises
        as WarmProcess.start and `prepare` do.
        """
        while True:
            if self._is_closed:
                raise SandboxUnavailable("the worker is about to end")
            self.let_misfits_leave(key, execution)
            open_ones = self.processes(key)
            idle = next((one for one in open_ones if not one.load), None)
            if idle is not None:
                return idle
            starting = self._starting.get(key, set())
            if len(open_ones) + len(starting) < self._most_each:
                return await self._start(key, execution, log, prepare)
            if open_ones:
                return min(open_ones, key=lambda one: one.load)
            await asyncio.wait(starting, return_when=asyncio.FIRST_COMPLETED)

    def let_misfits_leave(self, key: WarmKey, execution: Execution) -> None:
        """End the processes of `key` whose limits, or network, were others than those of `execution` when they began."""
        for one in self.processes(key):
            if not one.fits(execution):
                one.leave()

    def processes(self, key: WarmKey) -> Sequence[WarmProcess]:
        """The open ones that there are."""
        return [one for one in self._kept.get(key, ()) if one.is_open]

    async def close(self) -> None:
        """End all of them."""
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.cancel()
        starting = [task for tasks in self._starting.values() for task in tasks]
        for task in starting:
            task.cancel()
        if starting:
            await asyncio.wait(starting)
        await asyncio.gather(*(one.close() for ones in list(self._kept.values()) for one in list(ones)))

    # --- inside ---

    async def _start(
        self, key: WarmKey, execution: Execution, log: LogSink, prepare: Prepare | None
    ) -> WarmProcess:
        executor = self._executors[execution.language]
        if not isinstance(executor, Warmable):
            raise ExecutionFailed(
                {
                    "name": "ExecutionErr",
                    "message": f"Scripts in {execution.language} cannot have dedicated workers; those in Python, Bun and "
                    "Deno can",
                }
            )

        async def start() -> WarmProcess:
            ready = execution if prepare is None else await prepare(execution)
            return await WarmProcess.start(
                executor, ready, log, on_end=lambda process: self._forget(key, process)
            )

        task = asyncio.create_task(start())
        self._starting.setdefault(key, set()).add(task)
        try:
            process = await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            starting = self._starting[key]
            starting.discard(task)
            if not starting:
                del self._starting[key]
        self._kept.setdefault(key, []).append(process)
        self._newest[(key.workspace_id, key.path, key.step_id)] = key.version
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._look_after_them())
        logger.info("warm process started workspace=%s path=%s version=%s", *key[:3])
        return process

    def _forget(self, key: WarmKey, process: WarmProcess) -> None:
        ones = self._kept.get(key, [])
        with contextlib.suppress(ValueError):
            ones.remove(process)
        if not ones:
            self._kept.pop(key, None)
        logger.info(
            "warm process ended workspace=%s path=%s version=%s peak_kb=%s", *key[:3], process.peak_kb
        )

    async def _look_after_them(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(_LOOK_EVERY_S, self._idle_s, self._superseded_s))
            for key, ones in list(self._kept.items()):
                is_newest = self._newest.get((key.workspace_id, key.path, key.step_id)) == key.version
                until = loop.time() - (self._idle_s if is_newest else self._superseded_s)
                for one in ones:
                    if not one.load and one.idle_since <= until:
                        one.leave()


class _OneJob:
    """A Listener for one call. `answer`: None when it has not begun and its process is gone."""

    def __init__(self, log: LogSink) -> None:
        self._log = log
        self.answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    def on_log(self, job_id: str, text: str) -> None:
        self._log.write(text)

    def on_answers(self, answers: Sequence[Answer]) -> None:
        self.answer.set_result(answers[0])

    def on_end(
        self, reason: ExecutionFailed | SandboxUnavailable, begun: Call | None, not_begun: Sequence[Call]
    ) -> None:
        if begun is None:
            self.answer.set_result(None)
        else:
            self.answer.set_exception(reason)


def _outcome(answer: Answer) -> Outcome:
    if not answer.is_success:
        raise ExecutionFailed(
            json.loads(answer.result_json),
            mem_peak_kb=answer.peak_kb,
            preprocessed_args_json=answer.preprocessed_args_json,
        )
    return Outcome(
        result_json=answer.result_json,
        mem_peak_kb=answer.peak_kb,
        preprocessed_args_json=answer.preprocessed_args_json,
    )
