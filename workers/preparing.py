"""What a job needs before its code runs: the scripts it imports, and a lock of its dependencies when it came without."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from django.db import Error

from jobs.dependencies import imported_paths
from jobs.dependencies.needs import needs_nothing
from jobs.queue import Claim
from workers.runtime_store import RuntimeStore
from workers.runtimes import Available, Execution, ExecutionFailed, Executor, Imported, LogSink, Resolver
from workers.runtimes.python_versions import found_pythons
from workspaces.outages import is_away

T = TypeVar("T")
logger = logging.getLogger(__name__)

MOST_IMPORTED = (
    500  # scripts that one script may reach; more is a mistake, or an attack on the worker's memory
)
AWAY_RETRY_S = 0.5  # between attempts while the database is away


async def prepared(
    execution: Execution, claim: Claim, *, executor: Executor, store: RuntimeStore, log: LogSink
) -> Execution:
    """`execution` ready to run. Raises ExecutionFailed: what it depends on cannot be had.

    A job that imports no scripts and whose lock is known costs nothing here.
    """
    needs_lock = execution.lock is None and isinstance(executor, Resolver)
    if not needs_lock and not imported_paths(execution.language, execution.code, execution.script_path):
        if execution.lock:  # it may have to be installed
            return replace(execution, registries=await while_database_is_away(store.registries))
        return execution
    if needs_lock and needs_nothing(execution.language, execution.code):
        # Unless a dependency file of the workspace is for all scripts that name none.
        files = await while_database_is_away(lambda: store.wanted_files(claim))
        if "" not in files.by_name:
            return replace(execution, lock="")
    execution = await with_surroundings(execution, claim, store=store, resolving=needs_lock)
    if not needs_lock:
        return execution
    assert isinstance(executor, Resolver)
    key = lock_key(execution)
    lock = await while_database_is_away(lambda: store.find_lock(key))
    if lock is None:
        lock = await executor.resolve(execution, log)
        found = lock
        await while_database_is_away(lambda: store.keep_lock(key, found))
    return replace(execution, lock=lock)


async def with_surroundings(
    execution: Execution, claim: Claim, *, store: RuntimeStore, resolving: bool
) -> Execution:
    """`execution` with all scripts that it reaches by imports; for resolving also the dependency files."""
    imports = await _reachable(execution, claim, store)
    execution = replace(execution, imports=imports, registries=await while_database_is_away(store.registries))
    if resolving:
        files = await while_database_is_away(lambda: store.wanted_files(claim))
        execution = replace(execution, wanted_files=files)
    return execution


async def _reachable(execution: Execution, claim: Claim, store: RuntimeStore) -> dict[str, Imported]:
    found: dict[str, Imported] = {}
    own_path = execution.script_path
    pending = [
        path for path in imported_paths(execution.language, execution.code, own_path) if path != own_path
    ]
    asked = set(pending)
    while pending:
        if len(asked) > MOST_IMPORTED:
            raise ExecutionFailed(
                {
                    "name": "TooManyImports",
                    "message": f"The imports of this script reach more than {MOST_IMPORTED} scripts.",
                }
            )
        batch: Sequence[str] = pending
        answer = await while_database_is_away(lambda batch=batch: store.imported(claim, batch))  # type: ignore[misc]
        found |= answer
        further = (
            path
            for one in answer.values()
            for path in imported_paths(one.language, one.content, one.path)
            if path != own_path
        )
        pending = [path for path in dict.fromkeys(further) if path not in asked]
        asked.update(pending)
    return found


def lock_key(execution: Execution) -> str:
    """Names all that the lock of an execution depends on."""
    what = [
        execution.workspace_id,
        execution.language,
        execution.code,
        sorted((one.path, one.content) for one in execution.imports.values()),
        sorted(execution.wanted_files.by_name.items()),
        asdict(execution.registries),
        *([sorted(execution.local_packages)] if execution.local_packages else ()),
    ]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def readable_paths(available: Available) -> list[Path]:
    """What jobs must see of the host to run the tools, and the Pythons, that were found."""
    pythons = [folder for python in found_pythons() for folder in (python.prefix, python.executable.parent)]
    return [*(tool.readable for tool in available.tools.values()), *pythons]


async def while_database_is_away(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer of `ask`, asked again as long as the database is away (workspaces.outages)."""
    while True:
        try:
            return await ask()
        except Error as exc:
            if not is_away(exc):
                raise
            logger.warning("waiting for the database: %s", exc)
            await asyncio.sleep(AWAY_RETRY_S)
