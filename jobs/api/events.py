"""A job as server-sent events: `data: {"type": "update", ...}`, with pings in between, closed by the final update."""

import json
import time
from collections.abc import AsyncIterator
from uuid import UUID

from django.conf import settings

from jobs.flows import public
from jobs.following import Snapshot, follow_job, patiently, read_outcome
from jobs.shapes import with_raw

PING_S = 10.0


async def job_events(
    job_id: UUID, *, offset: int = 0, with_logs: bool = True, with_result: bool = False
) -> AsyncIterator[bytes]:
    """Events until the job is over, or until TIMEOUT_WAIT_RESULT, when the client is told to come back (`timeout`).

    The final update has `completed: true`, and with `with_result` the result as `only_result`. Those of a flow have its
    `flow_status`.
    """
    deadline = time.monotonic() + settings.TIMEOUT_WAIT_RESULT
    async for snapshot in follow_job(
        job_id, offset=offset, with_logs=with_logs, with_steps=True, idle_s=PING_S
    ):
        if snapshot is None:
            yield _event(b'{"type":"ping"}')
        else:
            raw = {}
            if snapshot.flow_version is not None:
                raw["flow_status"] = json.dumps(await patiently(public.flow_status, job_id))
            if snapshot.is_final and with_result:
                outcome = await patiently(read_outcome, job_id)
                raw["only_result"] = outcome.result if outcome is not None else "null"
            yield _event(with_raw({"type": "update", **update_json(snapshot)}, raw))
            if snapshot.is_final:
                return
        if time.monotonic() > deadline:
            yield _event(b'{"type":"timeout"}')
            return
    yield _event(json.dumps({"type": "not_found"}).encode())


def update_json(snapshot: Snapshot) -> dict[str, object]:
    """What is new about a job (`getupdate`). `completed` only once the log has been read to its end."""
    update: dict[str, object] = {
        "running": snapshot.state.status == "running",
        "completed": snapshot.is_final,
        "log_offset": snapshot.next_offset,
    }
    if snapshot.logs:
        update["new_logs"] = snapshot.logs
    if snapshot.state.mem_peak is not None:
        update["mem_peak"] = snapshot.state.mem_peak
    if snapshot.state.progress is not None:
        update["progress"] = snapshot.state.progress
    return update


def _event(data: bytes) -> bytes:
    # A result may be laid out in lines; in JSON a line break outside of strings is only space.
    return b"data: " + data.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n\n"
