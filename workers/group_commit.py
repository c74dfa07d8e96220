"""Group commit: whatever was asked for while the last statement was under way goes out together in the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class GroupCommit(Generic[T, R]):
    """Batches calls of many tasks. Alone, a call goes out at once; under load, batches grow by themselves."""

    def __init__(
        self,
        send: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        *,
        weight: Callable[[T], int],
        max_weight: int,
        max_items: int,
    ) -> None:
        """`send` answers one result an item, in order. A batch holds at most `max_items`, or about `max_weight`."""
        self._send = send
        self._weight = weight
        self._max_weight = max_weight
        self._max_items = max_items
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """Send `item` with the next batch; answers its result, or raises what `send` raised."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._run(), name="group commit")
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._next_batch()
                try:
                    results = await self._send([item for item, _ in batch])
                except Exception as exc:
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(exc)
                else:
                    for (_, future), result in zip(batch, results, strict=True):
                        if not future.done():
                            future.set_result(result)
        finally:
            self._sender = None

    def _next_batch(self) -> list[tuple[T, asyncio.Future[R]]]:
        weight = 0
        count = 0
        while count < min(len(self._waiting), self._max_items) and weight < self._max_weight:
            weight += self._weight(self._waiting[count][0])
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch
