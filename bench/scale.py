"""Jobs that wait 100 ms each, with 1 to 100 slots in one worker process: how near they come to the most there can be.

In dedicated processes, and on a native worker: GraphQL against a server (a process of its own) that thinks for 100 ms.
"""

import asyncio
import contextlib
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
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
    with _thinking_server() as url:
        for count in slots:
            rates = [_dedicated_rate(script, entry, count) for script, entry in scripts.values()]
            rates.append(_native_rate(url, count))
            row: list[Any] = [count, count / SLEEP_S]
            for rate in rates:
                row += [rate, 100 * rate * SLEEP_S / count]
            table.append(row)
    columns = ["slots", "at best jobs/s"]
    for name in (*scripts, "native"):
        columns += [f"{name} jobs/s", "% of it"]
    harness.report("scale", columns, table, sleep_s=SLEEP_S)


def _dedicated_rate(script: Any, entry: str, slots: int) -> float:
    return _rate(
        slots, entry, lambda count: dedicated.queue_many(script, entry, count), DEDICATED_WORKER=entry
    )


def _native_rate(url: str, slots: int) -> float:
    def fill(count: int) -> None:
        args = {"api": {"base_url": url}}
        harness.queue_many(count, language="graphql", code="query { slow }", args=args)

    return _rate(slots, "graphql", fill, NATIVE_MODE="true")


def _rate(slots: int, tag: str, fill: Callable[[int], None], **env: str) -> float:
    """Jobs a second of the best round. `fill` queues so many jobs under the tag."""
    from jobs import wakeups

    count = int(slots * SECONDS / SLEEP_S)
    rates = []
    with harness.worker(slots=slots, **env):
        for _ in range(ROUNDS):
            harness.forget_jobs()
            fill(count)
            wakeups.job_queued(tag)
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


# --- what native jobs ask ---


@contextlib.contextmanager
def _thinking_server() -> Iterator[str]:
    """A process that answers every GraphQL request after SLEEP_S. Gives its address."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/graphql"
    finally:
        process.terminate()
        process.join()


def _serve(told: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As much HTTP as the worker's client speaks: requests with a length, one after the other on a connection."""
    body = json.dumps({"data": {"slow": 1}}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
        while True:
            asked = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            await reader.readexactly(int(asked.partition("content-length:")[2].partition("\r\n")[0]))
            await asyncio.sleep(SLEEP_S)
            writer.write(head.encode() + body)
