"""A worker's connection: repairs itself, and leaves nothing behind where a pooler may hand it to somebody else."""

import asyncio
from typing import Any

import psycopg
import pytest

from tests.pooler import pooler
from workers.job_queue import QueueAway
from workers.pg_lane import Lane

pytestmark = pytest.mark.django_db(transaction=True)
STATEMENT = "SELECT %(n)s::int"


async def session_state(lane: Lane) -> tuple[Any, ...]:
    for n in range(10):
        await lane.fetch(STATEMENT, {"n": n})
    (row,) = await lane.fetch(
        "SELECT (SELECT count(*) FROM pg_prepared_statements), current_setting('enable_seqscan')", {}
    )
    return row


async def test_statements_are_prepared_and_planned_as_index_probes(database_url: str) -> None:
    lane = Lane(name="test", url=database_url, pooled=False)

    prepared, enable_seqscan = await session_state(lane)

    assert prepared >= 1
    assert enable_seqscan == "off"
    await lane.close()


async def test_behind_a_pooler_nothing_outlives_a_transaction(database_url: str) -> None:
    lane = Lane(name="test", url=database_url, pooled=True)

    assert await session_state(lane) == (0, "on")
    await lane.close()


async def test_a_lost_connection_is_an_unknown_outcome_and_the_next_call_connects_again(
    database_url: str,
) -> None:
    lane = Lane(name="test", url=database_url, pooled=False)
    ((pid,),) = await lane.fetch("SELECT pg_backend_pid()", {})
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(%s)", [pid])

    with pytest.raises(QueueAway) as caught:
        await lane.fetch(STATEMENT, {"n": 1})

    assert caught.value.outcome_unknown
    assert await lane.fetch(STATEMENT, {"n": 2}) == [(2,)]
    await lane.close()


async def test_without_a_database_the_outcome_is_known_and_attempts_are_spaced(database_url: str) -> None:
    lane = Lane(name="test", url="postgres://nobody@127.0.0.1:1/none", pooled=False)
    attempts = 0
    try:
        async with asyncio.timeout(1):
            while True:
                with pytest.raises(QueueAway) as caught:
                    await lane.fetch(STATEMENT, {"n": 1})
                assert not caught.value.outcome_unknown
                attempts += 1
    except TimeoutError:
        pass

    assert 2 <= attempts <= 10


async def test_a_statement_that_is_refused_harms_no_other(database_url: str) -> None:
    lane = Lane(name="test", url=database_url, pooled=False)

    with pytest.raises(psycopg.errors.UndefinedTable):
        await lane.fetch("SELECT * FROM nowhere", {})

    assert await lane.fetch(STATEMENT, {"n": 3}) == [(3,)]
    await lane.close()


RAISE = "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{}'; END $$"


@pytest.mark.parametrize(
    "sqlstate",
    [
        pytest.param("25006", id="read-only"),
        pytest.param("26000", id="another session's prepared statements"),
        pytest.param("40P01", id="deadlock"),
        pytest.param("42501", id="a right was taken away"),
        pytest.param("53100", id="disk full"),
        pytest.param("55P03", id="lock timeout"),
        pytest.param("57014", id="statement timeout"),
    ],
)
async def test_what_passes_is_asked_again_and_told_once(
    database_url: str, sqlstate: str, caplog: pytest.LogCaptureFixture
) -> None:
    lane = Lane(name="test", url=database_url, pooled=True)
    for _ in range(3):
        with pytest.raises(QueueAway) as caught:
            await lane.fetch(RAISE.format(sqlstate), {})
        assert caught.value.outcome_unknown

    assert await lane.fetch(STATEMENT, {"n": 4}) == [(4,)]

    told = [record.getMessage().partition(" ")[2] for record in caplog.records]
    assert told == [
        "away lane=test, asked again until it is back; what ran goes on: no\n"
        "CONTEXT:  PL/pgSQL function inline_code_block line 1 at RAISE",
        "back lane=test attempts=3",
    ]
    await lane.close()


@pytest.mark.parametrize("sqlstate", ["22P02", "23505", "54001"])
async def test_what_will_be_refused_again_is_not_asked_again(database_url: str, sqlstate: str) -> None:
    lane = Lane(name="test", url=database_url, pooled=False)

    with pytest.raises(psycopg.Error) as caught:
        await lane.fetch(RAISE.format(sqlstate), {})

    assert caught.value.sqlstate == sqlstate
    await lane.close()


async def test_a_pooler_that_nobody_told_of_is_noticed(database_url: str) -> None:
    with pooler(database_url) as url:
        lane = Lane(name="test", url=url, pooled=False)

        assert await session_state(lane) == (0, "on")
        await lane.close()
