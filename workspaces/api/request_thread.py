"""The thread on which a request does its synchronous work: borrowed when first needed, given back as soon as may be.

Django makes a thread for each request and throws it away, and with it the thread's database handle; making both costs
more than a simple request does. One request stays on one thread while it holds it, because connections, transactions
among them, belong to their thread. A request that waits lets its thread go (`release_thread`): thousands may wait.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MAX_IDLE = 32  # threads kept for the next requests; more run at the same time when that many are needed

_idle: list[ThreadPoolExecutor] = []  # of one thread each; used in the event loop's thread only
_current: ContextVar["RequestThread | None"] = ContextVar("request_thread", default=None)


class RequestThread(Executor):
    """For `asgiref.sync.ThreadSensitiveContext`, which calls `submit` from the event loop, one call at a time."""

    def __init__(self) -> None:
        self._borrowed: ThreadPoolExecutor | None = None
        _current.set(self)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._borrowed is None:
            self._borrowed = _idle.pop() if _idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        return self._borrowed.submit(fn, *args, **kwargs)

    def release(self) -> None:
        """Let the thread go. What still runs there ends first; the next call may get another thread."""
        thread, self._borrowed = self._borrowed, None
        if thread is None:
            return
        if len(_idle) < MAX_IDLE:
            _idle.append(thread)
        else:
            thread.shutdown(wait=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.release()


def release_thread() -> None:
    """Let the current request's thread go: the caller has given back its connection and is about to wait."""
    thread = _current.get()
    if thread is not None:
        thread.release()
