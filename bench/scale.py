"""Jobs that wait 100 ms each, with 1 to 100 slots in one worker process: how near they come to the most there can be."""

import sys
from typing import Any

from bench import dedicated, harness

SLOTS = (1, 2, 5, 10, 20, 50, 100)
SLEEP_S = 0.1
SECONDS = 4  # that a round takes at best
ROUNDS = 4  # the first ones start the processes
CODE = {
    "python3": f"import time\n\ndef main(x: int = 1):\n    time.sleep({SLEEP_S})\n    return x\n",
    "bun": f"export async function main(x: number) {{\n  await Bun.sleep({SLEEP_S * 1000});\n  return x;\n}}\n",
}


def run(arguments: list[str]) -> None:
    slots = tuple(int(argument) for argument in arguments) or SLOTS
    scripts = {language: dedicated.deploy_script(language, code, "sleep") for language, code in CODE.items()}
    table: list[list[Any]] = []
    for count in slots:
        row: list[Any] = [count, count / SLEEP_S]
        for script, entry in scripts.values():
            rate = _rate(script, entry, count)
            row += [rate, 100 * rate * SLEEP_S / count]
        table.append(row)
    columns = ["slots", "at best jobs/s"]
    for language in scripts:
        columns += [f"{language} jobs/s", "% of it"]
    harness.report("scale", columns, table, sleep_s=SLEEP_S)


def _rate(script: Any, entry: str, slots: int) -> float:
    """Jobs a second with a process a slot: the best round."""
    from jobs import wakeups

    count = int(slots * SECONDS / SLEEP_S)
    rates = []
    with harness.worker(slots=slots, DEDICATED_WORKER=entry):
        for _ in range(ROUNDS):
            harness.forget_jobs()
            dedicated.queue_many(script, entry, count)
            wakeups.job_queued(entry)
            harness.wait_until(
                lambda: harness.scalar("SELECT count(*) FROM queue") == 0, "the jobs", every_s=0.25
            )
            failed, seconds = harness.rows(
                "SELECT count(*) FILTER (WHERE status <> 'success'),"
                " extract(epoch FROM max(completed_at) - min(started_at)) FROM completed_job"
            )[0]
            if failed:
                sys.exit(f"{failed} of {count} jobs failed")
            rates.append(count / float(seconds))
    harness.forget_jobs()
    return max(rates)
