"""How a lane paces itself: how many jobs it claims and sends ahead, what it records at once, when one more process is
worth its start. Pure: plain numbers in, numbers out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BATCH = 100  # jobs a statement, at most
MOST_RECORDED = 5 * BATCH  # results a statement, at most
BATCH_CHARS = 16 * 1024 * 1024  # of results a statement, about
AHEAD_S = 0.05  # work that is claimed ahead of processes: more would wait while other workers are idle
GATHER_S = 0.002  # under load, results wait this long for company, as long as the processes have enough to do
SENT_S = (
    0.01  # work that is sent ahead to one process, so that it need not wait for us: it cannot be had back
)
MOST_SENT = 32
MOST_AHEAD = 200
WORTH_A_PROCESS_S = 0.0005  # jobs shorter than this keep one process, and this one, busy
STUCK_S = 0.5  # without an answer: what waits here may be done elsewhere
LOOK_S = 0.005  # how often a lane that could have more processes looks whether it needs them
LOOK_AGAIN_S = 0.1  # at the queue, with the next results, although nobody hinted at work
STARTS = 4  # processes that start at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a lane has at a moment."""

    slots: int  # processes that it may have
    processes: int  # that run or start
    held: int  # jobs that are claimed and not recorded
    done: int  # of these, that have ended
    mean_s: float | None  # that a job took lately; None: not known
    exchange_s: float  # that a statement took lately
    is_worth_a_process: bool


def room(load: Load) -> int:
    """How many jobs to claim now."""
    count = max(1, load.processes)
    wanted = count * window(load.mean_s)
    if load.mean_s:
        # What is done before the next jobs are here counts double: then there shall be as much again.
        ahead_s = AHEAD_S + 2 * load.exchange_s
        wanted += int(min(MOST_AHEAD, ahead_s * count / load.mean_s))
    if load.processes < load.slots and load.is_worth_a_process:
        wanted += min(STARTS, load.slots - load.processes)
    return max(0, wanted - load.held + load.done)


def window(mean_s: float | None) -> int:
    """Jobs that one process may have at a time."""
    if not mean_s:
        return 1
    return max(1, int(min(MOST_SENT, SENT_S / mean_s)))


def is_worth_a_process(*, loads: Sequence[int], mean_s: float | None, silent_s: float) -> bool:
    """Whether jobs that find all processes busy should have one more.

    `loads` are the jobs of each process that runs, `silent_s` the time since one of them has answered.
    """
    if not loads or not all(loads):
        return False
    if mean_s is None:
        return silent_s > LOOK_S
    return mean_s >= WORTH_A_PROCESS_S


def fair_share(waiting: int, processes: int) -> int:
    """How many of the jobs that wait the first of so many processes gets: none gets two more than another."""
    return -(-waiting // processes)


def looks_at_queue(*, is_hinted: bool, hears_hints: bool, looked_s: float) -> bool:
    """Whether results that are recorded should claim at the same time, `looked_s` after the last look.

    At low load the queue was empty a moment ago, and the next job comes with a hint. A statement that looks costs a
    quarter more, and who waits for the result waits for it.
    """
    return is_hinted or not hears_hints or looked_s >= LOOK_AGAIN_S


def gathers(*, done: int, waiting: int) -> bool:
    """Whether results should wait for company: they are few, and the processes have enough to do."""
    return done < BATCH // 2 <= waiting


def count_to_record(chars: Iterable[int]) -> int:
    """How many results one statement should carry, given the length of each."""
    total = count = 0
    for each in chars:
        if total > BATCH_CHARS or count >= MOST_RECORDED:
            break
        total += each
        count += 1
    return count


def blended(mean_s: float | None, took_s: float) -> float:
    """What a job takes, by what it took so far and what the last ones took.

    A job never takes longer than it seems to, but often seems to take longer than it does: the answer has to be read, on
    a busy machine. So a shorter time counts more.
    """
    if mean_s is None:
        return took_s
    return mean_s + (took_s - mean_s) * (0.5 if took_s < mean_s else 0.1)
