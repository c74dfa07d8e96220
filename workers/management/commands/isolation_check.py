"""Try on a live worker what jobs must not be able to do, and say what came of it."""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workers.probes import PROBES, Probe
from workers.probes.checking import (
    CannotCheck,
    Checked,
    abstract_listener,
    check,
    live_workers,
    surroundings_here,
    tags_of,
    worker_of_our_own,
)


class Command(BaseCommand):
    """`manage.py isolation_check`. Exit code 1 when something is not contained that should be."""

    help = (
        "Run hostile jobs on a live worker and print a table of what contained them (docs/security.md). "
        "Exit code 1 when one was not contained."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--worker", metavar="NAME", help="a worker by name, as on the workers page")
        parser.add_argument("--group", metavar="NAME", help="the workers of a group")
        parser.add_argument("--tag", help="queue the jobs with this tag (default: that of their language)")
        parser.add_argument(
            "--here",
            action="store_true",
            help="start a worker for it on this machine, with the settings of this command, and end it afterwards",
        )
        parser.add_argument(
            "--only",
            action="append",
            metavar="PROBE",
            help="run this one, as in memory_bomb.py; may be repeated",
        )
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        probes = _chosen(options["only"])
        if options["here"] and (options["worker"] or options["group"] or options["tag"]):
            raise CommandError("--here starts a worker of its own: leave --worker, --group and --tag out")
        try:
            with ExitStack() as open_now:
                open_now.enter_context(_without_news_of_jobs())
                tag = open_now.enter_context(worker_of_our_own()) if options["here"] else options["tag"]
                workers = live_workers(name=options["worker"], group=options["group"], tag=tag)
                name = open_now.enter_context(abstract_listener())
                lines = []
                if not options["json"]:
                    for worker in workers:
                        note = f" ({worker.isolation_note})" if worker.isolation_note else ""
                        self.stdout.write(f"{worker.worker}: isolation {worker.job_isolation}{note}")
                for line in check(
                    probes,
                    tags=tags_of(workers, tag),
                    surroundings=surroundings_here([name]),
                    reaches=[worker.job_isolation for worker in workers],
                ):
                    lines.append(line)
                    if not options["json"]:
                        self.stdout.write(_row(line))
        except CannotCheck as exc:
            raise CommandError(str(exc)) from exc
        failed = [line for line in lines if line.judged.is_failure]
        if options["json"]:
            self.stdout.write(json.dumps([_as_json(line) for line in lines], indent=2))
        else:
            self.stdout.write(_summary(lines))
        if failed:
            raise SystemExit(1)


@contextmanager
def _without_news_of_jobs() -> Iterator[None]:
    """The table is what one wants to read."""
    logger = logging.getLogger("jobs")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _chosen(names: Sequence[str] | None) -> list[Probe]:
    if not names:
        return list(PROBES)
    known = {probe.name: probe for probe in PROBES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise CommandError(f"There is no probe {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names]


def _row(line: Checked) -> str:
    mark = {"contained": "ok", "exposed": "FAILED", "untried": "untried", "not promised": "not promised"}
    return (
        f"{mark[line.judged.verdict]:<13}{line.probe.name:<22}{line.probe.tries:<58}{line.judged.happened[:110]}"
    ).rstrip()


def _summary(lines: Sequence[Checked]) -> str:
    counts = {
        verdict: sum(line.judged.verdict == verdict for line in lines)
        for verdict in ("contained", "exposed", "untried", "not promised")
    }
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


def _as_json(line: Checked) -> dict[str, Any]:
    return {
        "probe": line.probe.name,
        "theme": line.probe.theme,
        "tries": line.probe.tries,
        "expected": "contained",
        "happened": line.judged.happened,
        "verdict": line.judged.verdict,
        "worker": line.worker,
        "isolation": line.isolation,
        "job": str(line.job_id) if line.job_id else None,
    }
