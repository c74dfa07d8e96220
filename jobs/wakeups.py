"""Wake-ups: hints that something in the database changed. Losing one costs latency only (DESIGN.md decision 7).

Channels: `wm_queue` carries a tag (a job waits), `wm_job` a comma list of job ids (log or state changed), `wm_cancel` a
job id (its worker should look at once), `wm_group` a worker group (its configuration changed). Sent as statements of
their own once the caller's transaction has committed, because NOTIFY takes a lock of the whole database while its
transaction commits; at most one a tag every few milliseconds from a process. A hint that cannot be sent is logged, not
raised: what it tells of has happened.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from uuid import UUID

from django.db import OperationalError, connection, transaction

from jobs.pg import NOTIFY

QUEUE_CHANNEL = "wm_queue"
JOB_CHANNEL = "wm_job"
CANCEL_CHANNEL = "wm_cancel"
GROUP_CHANNEL = "wm_group"

# A worker that was woken looks for all its tags and keeps looking while it finds work, so a second hint within this
# time adds nothing but load. Short against any poll, long against a burst of pushes.
THROTTLE_S = 0.002
_IDS_A_PAYLOAD = 200  # 37 bytes each; PostgreSQL allows 8,000 bytes

_last_sent: dict[str, float] = {}
_postponed: set[str] = set()
_lock = threading.Lock()


def job_queued(tag: str) -> None:
    """Tell idle workers of `tag` to look.

    Within THROTTLE_S of the last hint this one is postponed, not dropped: the worker may have looked already.
    """
    transaction.on_commit(lambda: _send_throttled(tag), robust=True)


def may_send(tag: str) -> bool:
    """Whether a hint for `tag` may go out at this moment. It counts as sent: whoever asks sends it."""
    with _lock:
        if time.monotonic() < _last_sent.get(tag, 0.0) + THROTTLE_S:
            return False
        _last_sent[tag] = time.monotonic()
        return True


def _send_throttled(tag: str) -> None:
    with _lock:
        wait = _last_sent.get(tag, 0.0) + THROTTLE_S - time.monotonic()
        if wait <= 0:
            _last_sent[tag] = time.monotonic()
        elif tag in _postponed:
            return
        else:
            _postponed.add(tag)
            threading.Timer(wait, _send_postponed, (tag,)).start()
            return
    _notify(QUEUE_CHANNEL, tag)


def _send_postponed(tag: str) -> None:
    with _lock:
        _postponed.discard(tag)
        _last_sent[tag] = time.monotonic()
    try:
        _notify(QUEUE_CHANNEL, tag)
    except OperationalError:
        pass  # the database went away: workers poll when it is back
    finally:
        connection.close()


def jobs_changed(job_ids: Iterable[UUID]) -> None:
    """Tell whoever watches these jobs to look."""
    for payload in id_payloads(job_ids):
        transaction.on_commit(partial(_notify, JOB_CHANNEL, payload), robust=True)


def cancel_requested(job_id: UUID) -> None:
    """Tell the worker that runs this job to look at its lease now."""
    transaction.on_commit(lambda: _notify(CANCEL_CHANNEL, str(job_id)), robust=True)


def group_changed(group: str) -> None:
    """Tell the workers of this group to look at its configuration."""
    transaction.on_commit(lambda: _notify(GROUP_CHANNEL, group), robust=True)


def id_payloads(job_ids: Iterable[UUID]) -> Iterator[str]:
    """Comma lists of ids, each short enough for one notification."""
    ids = [str(job_id) for job_id in job_ids]
    for start in range(0, len(ids), _IDS_A_PAYLOAD):
        yield ",".join(ids[start : start + _IDS_A_PAYLOAD])


def _notify(channel: str, payload: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(NOTIFY, {"channel": channel, "payload": payload})
