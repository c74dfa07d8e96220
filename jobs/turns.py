"""Whose turn it is: how a worker lets all workspaces have a share of it while jobs pile up.

Jobs of equal rank and priority are taken in the order in which they are due, as long as a worker finds fewer than it has
room for: everybody's are taken then. Once it finds as many, jobs may be waiting, those of one workspace in front of all
others, and the workspaces take turns (sql/claim_in_turn.sql): one job of each, round and round. What a turn needs to
know, the workspace that was served last, the worker keeps in memory: nothing is written for it, no two workers meet over
it, and no session of the database holds it (decision 0014).
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

# Taking turns costs about as much as the rest of a claim. While jobs of one workspace alone wait, it is done this often:
# a job of another workspace is then noticed that much later.
LOOK_EVERY_S = 0.05


class Turns:
    """What one worker remembers of its claims. `is_on`: False for first come, first served."""

    def __init__(self, *, is_on: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_on = is_on
        self._clock = clock
        self._served_last = ""
        self._is_crowded = False
        self._rests_until = float("-inf")

    def next_turn(self) -> str | None:
        """After which workspace the next claim begins to serve (claim_in_turn.sql), "" at first; None: ask claim.sql."""
        if self._is_on and self._is_crowded and self._clock() >= self._rests_until:
            return self._served_last
        return None

    def took(self, workspaces: Sequence[str], *, limit: int) -> None:
        """claim.sql, with room for `limit` jobs, answered jobs of these workspaces."""
        self._is_crowded = len(workspaces) >= limit
        if workspaces:
            self._served_last = workspaces[-1]

    def took_in_turn(self, rows: Sequence[Sequence[Any]], *, limit: int) -> None:
        """claim_in_turn.sql, with room for `limit` jobs, answered these rows (two columns more than a Claim)."""
        self._is_crowded = len(rows) >= limit
        has_others = False
        if rows:
            *_, self._served_last, has_others = rows[-1]
        if not has_others:
            self._rests_until = self._clock() + LOOK_EVERY_S
