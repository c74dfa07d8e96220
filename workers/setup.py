"""Puts a worker together from settings and from the configuration of its group."""

import logging
from collections.abc import Mapping

from django.conf import settings

from workers.environment import EnvironmentSource
from workers.job_queue import GroupConfig, JobQueue, QueueAway
from workers.runner import Runner
from workers.tags import resolve_tags
from workers.worker import WorkerOptions

logger = logging.getLogger(__name__)


async def read_group_config(queue: JobQueue) -> GroupConfig:
    """The configuration of WORKER_GROUP; waits for the database as long as it takes."""
    while True:
        try:
            return await queue.group_config(settings.WORKER_GROUP)
        except QueueAway as exc:
            logger.warning("waiting for the database: %s", exc)


def options_from_settings(
    *, name: str, slots: int, runner: Runner, config: GroupConfig, environ: Mapping[str, str]
) -> WorkerOptions:
    """How this worker behaves, with a warning for everything that was asked for and cannot be had."""
    tags, unknown = resolve_tags(
        group=settings.WORKER_GROUP,
        languages=runner.languages,
        forced=settings.FORCE_WORKER_TAGS,
        configured=config.worker_tags,
        from_environment=settings.WORKER_TAGS,
    )
    if unknown:
        logger.warning("left out tags=%s: this host cannot run those languages", ",".join(unknown))
    source = EnvironmentSource(
        base_url=settings.BASE_URL,
        base_internal_url=settings.BASE_INTERNAL_URL,
        worker_group=settings.WORKER_GROUP,
        worker_environment=environ,
        allowed=[*settings.WHITELIST_ENVS, *config.env_vars_allowlist],
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
        init_script=settings.INIT_SCRIPT or config.init_bash or "",
    )
