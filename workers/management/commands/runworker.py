"""Run a worker: claims jobs from the queue and executes them until it is told to leave."""

import asyncio
import itertools
import os
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from workers.groups.schema import GroupConfig
from workers.host.cache_clearing import clear_when_asked
from workers.housekeeping import keep_house
from workers.pg_queue import PgJobQueue
from workers.pg_runtimes import PgRuntimeStore
from workers.sandbox import SandboxUnavailable
from workers.setup import options_from_settings, read_group_config, runner_from_settings, slots_from_settings
from workers.tags import worker_name
from workers.worker import Worker
from workers.worker_options import WorkerOptions


class Command(BaseCommand):
    """`manage.py runworker`. SIGTERM or Ctrl-C drains; a second one puts what runs back into the queue and leaves."""

    help = "Run a worker: claims jobs from the queue and executes them. SIGTERM drains it, a second one stops it at once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--slots", type=int, default=None, help="jobs at once (default: NUM_WORKERS)")
        parser.add_argument(
            "--drain-timeout",
            type=float,
            default=None,
            metavar="SECONDS",
            help="when draining, put jobs that still run after this time back into the queue (default: wait for them)",
        )

    def handle(self, *args: Any, slots: int | None, drain_timeout: float | None, **options: Any) -> None:
        code = asyncio.run(_run(slots=slots, drain_timeout_s=drain_timeout))
        if code:
            raise SystemExit(code)


async def _run(*, slots: int | None, drain_timeout_s: float | None) -> int:
    name = worker_name(group=settings.WORKER_GROUP, hostname=settings.INSTANCE_NAME)
    queue = PgJobQueue(worker=name)
    config = await read_group_config(queue)
    slots = slots or slots_from_settings(config)
    await asyncio.to_thread(
        clear_when_asked, settings.WORKER_DIR / "cache", group=settings.WORKER_GROUP, wish=config.cache_clear
    )
    runner = runner_from_settings(worker=name, slots=slots, store=PgRuntimeStore(), config=config)

    def options(config: GroupConfig) -> WorkerOptions:
        return options_from_settings(name=name, slots=slots, runner=runner, config=config, environ=os.environ)

    worker = Worker(
        options(config), queue=queue, runner=runner, housekeeping=keep_house, reconfigured=options
    )
    signals = itertools.count(1)

    def leave() -> None:
        # Counted here: a worker that drains by itself has not been told to hurry.
        (worker.told_to_leave if next(signals) == 1 else worker.stop)()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    try:
        return await worker.run(drain_timeout_s=drain_timeout_s)
    except SandboxUnavailable as exc:
        raise CommandError(f"This host cannot run jobs. {exc}") from exc
