"""What a worker reads before it can be put together."""

from typing import Any, cast

import psycopg
import pytest

from workers.groups.schema import GroupConfig
from workers.job_queue import JobQueue, QueueAway
from workers.setup import read_group_config


class StartsLate:
    """The database of this queue is away at first, then there but not migrated, then as it should be."""

    def __init__(self) -> None:
        self._answers: list[Any] = [
            QueueAway("connection refused", outcome_unknown=False),
            psycopg.errors.UndefinedTable('relation "config" does not exist'),
            GroupConfig(worker_tags=("gpu",)),
        ]

    async def group_config(self, group: str) -> GroupConfig:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return cast(GroupConfig, answer)


async def test_a_worker_that_is_first_waits_for_the_tables_and_says_who_makes_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = await read_group_config(cast(JobQueue, StartsLate()))

    assert config.worker_tags == ("gpu",)
    assert "./windmill manage migrate" in caplog.text
