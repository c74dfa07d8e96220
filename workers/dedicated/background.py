"""What a lane does beside its loop, and what wakes the loop."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Background:
    """Tasks that nobody waits for. Each that ends, and whoever calls `wake`, lets the loop look again."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Let the loop look again."""
        self._woken.set()

    async def woken(self, within_s: float) -> bool:
        """Return when `wake` has been called since the last time (True), or after this time (False)."""
        try:
            if not self._woken.is_set():
                async with asyncio.timeout(within_s):
                    await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` beside the loop; a failure is logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def cancel(self) -> None:
        """Drop whatever is under way."""
        for task in self._tasks:
            task.cancel()

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            logger.error("work for tag=%s failed", self._tag, exc_info=exc)
        self.wake()
