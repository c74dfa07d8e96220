"""`workers.runtime_store.RuntimeStore` in PostgreSQL. Scripts are read with the rights of whom the job runs as.

A dependency job sees dependency files as they are when it runs: it was queued because they changed. One for what is not
deployed brings along what counts instead of what is deployed (jobs.dependency_runs.StandIns).
"""

import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import Error
from django.db.models.functions import Now

from jobs import scripts, temporary_code
from jobs.dependencies import WantedFiles
from jobs.dependencies.files import file_language
from jobs.dependency_runs import StandIns
from jobs.models import CachedLock, JobKind, WorkspaceDependencies
from jobs.queue import Claim
from workers.arguments import caller_of
from workers.runtimes.base import ExecutionFailed, Imported, Registries
from workers.threads import in_thread
from workspaces.job_limits import NOTHING, SETTING, AskedLimits, limits_from_json
from workspaces.models import InstanceSetting
from workspaces.outages import is_away

logger = logging.getLogger(__name__)

LOCK_AGE = timedelta(
    days=3
)  # after which a preview's dependencies are resolved anew: newer versions may be out
_SETTINGS_AGE_S = 10.0  # how long a change of registries or dependency files may take to reach a worker
_MOST_REMEMBERED = 1000  # workspaces and languages
_DEPENDENCY_KINDS = (JobKind.DEPENDENCIES, JobKind.FLOW_DEPENDENCIES)

# Instance settings over variables of the worker, by field of Registries.
_SETTINGS = {
    "pip_index_url": ("pip_index_url", "PIP_INDEX_URL"),
    "pip_extra_index_urls": ("pip_extra_index_url", "PIP_EXTRA_INDEX_URL"),
    "uv_index_strategy": ("uv_index_strategy", "UV_INDEX_STRATEGY"),
    "npm_registry": ("npm_config_registry", "NPM_CONFIG_REGISTRY"),
    "npmrc": ("npmrc", ""),
    "go_proxy": ("go_proxy", "GOPROXY"),
}


class PgRuntimeStore:
    """Remembers registries and dependency files for a few seconds; everything else is asked each time."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._registries: Registries | None = None
        self._read_at = 0.0
        self._files: dict[tuple[str, str], tuple[float, WantedFiles]] = {}  # by workspace and language
        self._limits: AskedLimits | None = None
        self._limits_read_at = 0.0
        self._reading_limits: asyncio.Task[None] | None = None

    async def imported(self, claim: Claim, paths: Sequence[str]) -> dict[str, Imported]:
        return await in_thread(_imported, claim, paths)

    async def wanted_files(self, claim: Claim) -> WantedFiles:
        key = (claim.workspace_id, file_language(claim.language or "") or "")
        if claim.kind in _DEPENDENCY_KINDS:
            deployed = await in_thread(_wanted_files, *key)
            return WantedFiles(by_name={**deployed.by_name, **_stand_ins(claim).files_of(key[1])})
        read_at, files = self._files.get(key, (float("-inf"), WantedFiles()))
        if time.monotonic() - read_at > _SETTINGS_AGE_S:
            files = await in_thread(_wanted_files, *key)
            if len(self._files) >= _MOST_REMEMBERED:
                self._files.clear()
            self._files[key] = (time.monotonic(), files)
        return files

    async def registries(self) -> Registries:
        if self._registries is None or time.monotonic() - self._read_at > _SETTINGS_AGE_S:
            self._registries = await in_thread(_registries, self._environ)
            self._read_at = time.monotonic()
        return self._registries

    async def job_limits(self) -> AskedLimits:
        # Every job asks: only the first one waits for the answer.
        if self._limits is None:
            await self._read_limits()
            return self._limits or NOTHING
        if time.monotonic() - self._limits_read_at > _SETTINGS_AGE_S:
            self._limits_read_at = time.monotonic()
            self._reading_limits = asyncio.create_task(self._read_limits_again())
        return self._limits

    async def _read_limits_again(self) -> None:
        try:
            await self._read_limits()
        except Error as exc:
            if not is_away(exc):
                raise
            # What was read last holds.

    async def _read_limits(self) -> None:
        stored = await in_thread(_stored_limits)
        self._limits_read_at = time.monotonic()
        try:
            self._limits = limits_from_json(stored)
        except ValueError as error:  # nobody who was checked wrote this
            logger.error("instance setting %s is not followed: %s", SETTING, error)

    async def find_lock(self, key: str) -> str | None:
        return await in_thread(_find_lock, key)

    async def keep_lock(self, key: str, lock: str) -> None:
        await in_thread(_keep_lock, key, lock)


def _imported(claim: Claim, paths: Sequence[str]) -> dict[str, Imported]:
    found = scripts.readable_at(caller_of(claim), paths)
    imported = {
        script.path: Imported(
            path=script.path, language=script.language, content=script.content, lock=script.lock
        )
        for script in found
    }
    stand_ins = _stand_ins(claim).scripts
    named = {path: stand_ins[path] for path in paths if path in stand_ins}
    texts = temporary_code.read(claim.workspace_id, list(named.values())) if named else {}
    for path, hash in named.items():
        if hash not in texts:
            raise ExecutionFailed(
                {
                    "name": "NotKept",
                    "message": f"The text {hash[:64]} of {path[:255]} is not kept: it was never sent, or more than "
                    f"{temporary_code.LIFE.days} day ago. Start the command again that sent it.",
                }
            )
        # Imports stay within a language, and what is deployed at the path may be an older script in another one.
        language = claim.language or ""
        imported[path] = Imported(path=path, language=language, content=texts[hash], lock=None)
    return imported


def _stand_ins(claim: Claim) -> StandIns:
    return StandIns.from_args(claim.args) if claim.kind in _DEPENDENCY_KINDS else StandIns()


def _wanted_files(workspace_id: str, language: str) -> WantedFiles:
    rows = WorkspaceDependencies.objects.filter(workspace=workspace_id, archived=False, language=language)
    return WantedFiles(by_name=dict(rows.values_list("name", "content")))


def _registries(environ: Mapping[str, str]) -> Registries:
    names = [setting for setting, _ in _SETTINGS.values()]
    stored = dict(InstanceSetting.objects.filter(name__in=names).values_list("name", "value"))
    values: dict[str, Any] = {}
    for field, (setting, variable) in _SETTINGS.items():
        value = stored.get(setting) or environ.get(variable)
        if isinstance(value, str) and value.strip():
            values[field] = (
                tuple(value.replace(",", " ").split()) if field.endswith("urls") else value.strip()
            )
    return Registries(**values)


def _stored_limits() -> Any:
    return InstanceSetting.objects.filter(pk=SETTING).values_list("value", flat=True).first()


def _find_lock(key: str) -> str | None:
    fresh = CachedLock.objects.filter(pk=key, created_at__gt=Now() - LOCK_AGE)
    return fresh.values_list("lock", flat=True).first()


def _keep_lock(key: str, lock: str) -> None:
    CachedLock.objects.update_or_create(key=key, defaults={"lock": lock, "created_at": Now()})
