"""No-op jobs a second with 1, 2, 4 and 8 slots in one worker process."""

from bench import harness


def run(arguments: list[str]) -> None:
    count = int(arguments[0]) if arguments else 1000
    table = []
    for slots in (1, 2, 4, 8):
        row: list[object] = [slots]
        with harness.worker(slots=slots):
            for language in ("python3", "bash"):
                row.append(_rate(language, count))
        table.append(row)
    harness.report("throughput", ["slots", "python3 jobs/s", "bash jobs/s"], table, jobs=count)


def _rate(language: str, count: int) -> float:
    from jobs import wakeups

    for number in (20, count):  # warm-up, then the run
        harness.forget_jobs()
        harness.queue_many(number, language=language)
        wakeups.job_queued(language)
        harness.wait_until(
            lambda number=number: harness.scalar("SELECT count(*) FROM completed_job") == number,
            "the jobs",
            every_s=0.1,
        )
    seconds = harness.scalar(
        "SELECT extract(epoch FROM max(completed_at) - min(started_at)) FROM completed_job"
    )
    harness.forget_jobs()
    return count / float(seconds)
