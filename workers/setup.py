"""Puts a worker together from settings and from the configuration of its group."""

import asyncio
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from jobs import dedicated
from workers.dedicated.pool import IDLE_S
from workers.environment import EnvironmentSource
from workers.groups.schema import GroupConfig
from workers.job_queue import JobQueue, QueueAway
from workers.networks import BlockedNetworks
from workers.runner import Runner
from workers.runtime_store import RuntimeStore
from workers.runtimes import Limits, look_around
from workers.sandbox_runner import SandboxRunner
from workers.tags import NATIVE_LANGUAGES, NATIVE_SLOTS, resolve_tags
from workers.worker_options import WorkerOptions
from workspaces.errors import BadRequest

logger = logging.getLogger(__name__)

_NO_TABLES_S = 2.0  # between looks whether the database has been migrated


async def read_group_config(queue: JobQueue) -> GroupConfig:
    """The configuration of WORKER_GROUP; waits for the database as long as it takes."""
    while True:
        try:
            return await queue.group_config(settings.WORKER_GROUP)
        except QueueAway as exc:
            logger.warning("waiting for the database: %s", exc)
        except psycopg.errors.UndefinedTable:
            logger.warning(
                "waiting for the tables of the database: start a server, or run ./windmill manage migrate"
            )
            await asyncio.sleep(_NO_TABLES_S)


def slots_from_settings(config: GroupConfig) -> int:
    """How many jobs run at once."""
    return settings.NUM_WORKERS or (NATIVE_SLOTS if _is_native(config) else settings.NUM_WORKERS_DEFAULT)


def options_from_settings(
    *, name: str, slots: int, runner: Runner, config: GroupConfig, environ: Mapping[str, str]
) -> WorkerOptions:
    """How this worker behaves, with a warning for everything that was asked for and cannot be had.

    Raises ImproperlyConfigured for a setting that makes no sense.
    """
    native = _is_native(config)
    wanted = list(config.dedicated or settings.DEDICATED_WORKER)
    try:
        dedicated_tags = [dedicated.parse(entry).tag for entry in wanted]
    except BadRequest as exc:
        raise ImproperlyConfigured(f"DEDICATED_WORKER: {exc.message}") from exc
    languages = [name for name in runner.languages if not native or name in NATIVE_LANGUAGES]
    tags, left_out = resolve_tags(
        group=settings.WORKER_GROUP,
        languages=languages,
        forced=settings.FORCE_WORKER_TAGS,
        configured=config.worker_tags,
        from_environment=settings.WORKER_TAGS,
        dedicated=[*dedicated_tags, *(["flow"] if dedicated_tags and settings.ADD_FLOW_TAG else [])],
        native=native,
    )
    if left_out:
        why = "a native worker does not do this work" if native else "this host cannot run those languages"
        logger.warning("left out tags=%s: %s", ",".join(left_out), why)
    for problem in config.problems:
        logger.error("configuration of group=%s: %s", settings.WORKER_GROUP, problem)
    source = EnvironmentSource(
        base_url=settings.BASE_URL,
        base_internal_url=settings.BASE_INTERNAL_URL,
        worker_group=settings.WORKER_GROUP,
        worker_environment=environ,
        allowed=list(dict.fromkeys([*settings.WHITELIST_ENVS, *config.env_vars_allowlist])),
        static=config.env_vars_static,
    )
    if missing := source.missing():
        logger.warning(
            "jobs are allowed to see variables=%s, which this worker does not have", ",".join(missing)
        )
    return WorkerOptions(
        name=name,
        instance=settings.INSTANCE_NAME,
        group=settings.WORKER_GROUP,
        tags=tags,
        slots=slots,
        version=settings.VERSION,
        environment=source,
        poll_s=settings.SLEEP_QUEUE / 1000,
        heartbeat_s=settings.HEARTBEAT_SECONDS,
        max_timeout_s=settings.TIMEOUT,
        default_timeout_s=settings.JOB_DEFAULT_TIMEOUT,
        token_expiry_s=settings.SCRIPT_TOKEN_EXPIRY,
        max_result_size_mb=settings.MAX_RESULT_SIZE_MB,
        max_log_size_mb=settings.MAX_LOG_SIZE_MB,
        keep_logs=not settings.NO_LOGS,
        restart_limit=settings.RESTART_LIMIT,
        config=config,
        priority_tags=config.priority_tags,
        dedicated=wanted,
        native=native,
        init_script=config.init_bash or settings.INIT_SCRIPT,
        periodic_script=config.periodic_script_bash or settings.PERIODIC_BASH_SCRIPT,
        periodic_interval_s=(
            config.periodic_interval_s
            if config.periodic_script_bash
            else settings.PERIODIC_BASH_SCRIPT_INTERVAL_SECONDS
        ),
        exit_after_jobs=settings.EXIT_AFTER_N_JOBS,
        blocked=BlockedNetworks(settings.JOB_BLOCKED_NETWORKS),
    )


def _is_native(config: GroupConfig) -> bool:
    return config.native_mode or settings.NATIVE_MODE


def runner_from_settings(*, worker: str, slots: int, store: RuntimeStore, config: GroupConfig) -> Runner:
    """The runner of an ordinary worker. Its folder is its own: several workers may share WORKER_DIR."""
    return SandboxRunner(
        folder=settings.WORKER_DIR / worker,
        cache_dir=settings.WORKER_DIR / "cache",
        cache_max_bytes=settings.CACHE_MAX_MB << 20,
        available=look_around(),
        store=store,
        hidden_paths=[settings.DATA_DIR, *_socket_folders()],
        policy=settings.JOB_ISOLATION,
        limits=Limits(
            memory_bytes=settings.JOB_MEMORY_LIMIT_MB << 20,
            cpus=settings.JOB_CPU_LIMIT,
            processes=settings.JOB_PROCESS_LIMIT,
            open_files=settings.JOB_OPEN_FILES_LIMIT,
            disk_bytes=settings.JOB_DISK_LIMIT_MB << 20,
            file_bytes=settings.JOB_FILE_LIMIT_MB << 20,
            output_bytes=settings.MAX_LOG_SIZE_MB << 20,
            result_bytes=settings.MAX_RESULT_SIZE_MB << 20,
        ),
        # One more than run at once: the next job's sandbox is made while the current one runs.
        warm=slots + 1,
        python_paths=_python_paths(config),
        local_packages=settings.PIP_LOCAL_DEPENDENCIES,
        control_groups=settings.JOB_CONTROL_GROUPS,
        dedicated_each=slots,
        # One that is there for some scripts keeps their processes; any other has more to do with its memory.
        dedicated_idle_s=math.inf if config.dedicated or settings.DEDICATED_WORKER else IDLE_S,
        blocked=BlockedNetworks(settings.JOB_BLOCKED_NETWORKS),
    )


def _python_paths(config: GroupConfig) -> list[Path]:
    """Folders on sys.path of all Python jobs, those of the group first; what is not there is left out with a warning."""
    wanted = dict.fromkeys([*config.additional_python_paths, *settings.ADDITIONAL_PYTHON_PATHS])
    found = [Path(path) for path in wanted if os.path.isdir(path)]
    if missing := [path for path in wanted if not os.path.isdir(path)]:
        logger.warning("left out additional_python_paths=%s: no such folders on this host", ",".join(missing))
    return found


def _socket_folders() -> list[Path]:
    """Folders of the database's Unix sockets: whoever reaches a socket may try passwords."""
    hosts = (
        settings.DATABASES["default"].get("OPTIONS", {}).get("host"),
        settings.DATABASES["default"].get("HOST"),
    )
    return [Path(host) for host in hosts if isinstance(host, str) and host.startswith("/")]
