"""The no-op job with pgqueuer."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator

import asyncpg
import pgqueuer
import told
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries


@contextlib.asynccontextmanager
async def manager() -> AsyncIterator[PgQueuer]:
    """What the worker starts."""
    pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(os.environ["PEER_DATABASE_URL"])))

    @pgq.entrypoint("noop")
    async def noop(job: Job) -> None:
        told.tell_start()

    yield pgq


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        sys.exit(asyncio.run(pgqueuer.run("pgqueuer_noop:manager")))
    with asyncio.Runner() as runner:
        queries = Queries(AsyncpgDriver(runner.run(asyncpg.connect(os.environ["PEER_DATABASE_URL"]))))
        told.main(
            setup=lambda: runner.run(queries.install()),
            push=lambda: runner.run(queries.enqueue("noop", None)) and None,
            fill=lambda count: (
                runner.run(queries.enqueue(["noop"] * count, [None] * count, [0] * count)) and None
            ),
        )
