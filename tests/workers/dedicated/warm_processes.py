"""Warm processes in real sandboxes, and a listener that remembers what it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.workers.job_runs import Jobs, Log
from workers.dedicated import Answer, Call, WarmProcess
from workers.runtimes import Execution, ExecutionFailed, SandboxUnavailable
from workers.runtimes.base import Warmable

T = TypeVar("T")


class Heard:
    """A Listener. `told` is set whenever something comes."""

    def __init__(self) -> None:
        self.logs: dict[str, str] = {}
        self.answers: dict[str, Answer] = {}
        self.order: list[str] = []  # jobs with an answer
        self.log_at_answer: dict[str, str] = {}
        self.reason: ExecutionFailed | SandboxUnavailable | None = None
        self.begun: str | None = None
        self.not_begun: list[str] = []
        self.told = asyncio.Event()

    def on_log(self, job_id: str, text: str) -> None:
        self.logs[job_id] = self.logs.get(job_id, "") + text
        self.told.set()

    def on_answers(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self.answers[answer.job_id] = answer
            self.order.append(answer.job_id)
            self.log_at_answer[answer.job_id] = self.logs.get(answer.job_id, "")
        self.told.set()

    def on_end(
        self, reason: ExecutionFailed | SandboxUnavailable, begun: Call | None, not_begun: Sequence[Call]
    ) -> None:
        self.reason, self.begun = reason, None if begun is None else begun.job_id
        self.not_begun += [call.job_id for call in not_begun]
        self.told.set()

    async def until(self, *jobs: str) -> None:
        """Return when these jobs are answered, or the process has ended."""
        await self._wait(lambda: set(jobs) <= set(self.answers) or self.reason is not None)

    async def until_printed(self, job_id: str, text: str) -> None:
        await self._wait(lambda: text in self.logs.get(job_id, ""))

    async def until_end(self) -> None:
        await self._wait(lambda: self.reason is not None)

    async def _wait(self, is_so: Any) -> None:
        async with asyncio.timeout(30):
            while not is_so():
                self.told.clear()
                await self.told.wait()

    def result(self, job_id: str) -> Any:
        answer = self.answers[job_id]
        assert answer.is_success, answer.result_json
        return json.loads(answer.result_json)

    def error(self, job_id: str) -> dict[str, Any]:
        answer = self.answers[job_id]
        assert not answer.is_success, answer.result_json
        error: dict[str, Any] = json.loads(answer.result_json)
        return error

    @property
    def message(self) -> str:
        """Why the process ended."""
        assert isinstance(self.reason, ExecutionFailed), self.reason
        return str(self.reason.error["message"])


@dataclass
class Warm:
    """Starts warm processes of one language; its event loop only runs inside these calls."""

    jobs: Jobs
    language: str
    header: str = ""  # of all code

    def run(self, act: Coroutine[Any, Any, T]) -> T:
        return self.jobs.runner.run(act)

    def execution(self, code: str, **given: Any) -> Execution:
        defaults: dict[str, Any] = {"job_id": "j", "workspace_id": "w", "args": {}, "env": {}, "lock": ""}
        return Execution(language=self.language, code=self.header + code, **{**defaults, **given})

    async def start(self, code: str, *, log: Log | None = None, **given: Any) -> WarmProcess:
        executor = self.jobs.executors[self.language]
        assert isinstance(executor, Warmable)
        return await WarmProcess.start(executor, self.execution(code, **given), log or Log())

    def calls(self, code: str, *calls: Call, **given: Any) -> Heard:
        """Load `code`, make all `calls` at once and wait for their answers, or for the end of the process."""

        async def act() -> Heard:
            process = await self.start(code, **given)
            heard = Heard()
            process.send(calls, heard)
            try:
                await heard.until(*(call.job_id for call in calls))
            finally:
                await process.close()
            return heard

        return self.run(act())

    def fails_to_load(self, code: str, *, log: Log | None = None, **given: Any) -> dict[str, Any]:
        """The error of code that does not load."""

        async def act() -> dict[str, Any]:
            try:
                process = await self.start(code, log=log, **given)
            except ExecutionFailed as failed:
                return failed.error
            await process.close()
            raise AssertionError("it loads")

        return self.run(act())


def call(job_id: str, _args: dict[str, Any] | None = None, **given: Any) -> Call:
    return Call(job_id, json.dumps(_args or {}), **given)
