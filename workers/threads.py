"""Queries of Django's ORM from the worker's event loop: each on a thread that gives its connection back."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The answer of `work`. Raises what it raises, django.db's OperationalError while the database is away among it."""

    def run() -> T:
        try:
            return work(*args, **kwargs)
        finally:
            close_old_connections()  # the thread may never be used again

    return await sync_to_async(run, thread_sensitive=False)()
