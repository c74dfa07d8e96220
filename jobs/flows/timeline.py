"""When the steps of a flow run ran: the bars of its timeline. Reads only, like the picture."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from jobs.flows.picture import FAILED, MAX_DEPTH, FlowRun, RawModule, bodies, read_rows
from jobs.models import JobKind
from jobs.shapes import iso

MOST_BARS = 200  # of a step


def read_timeline(run: FlowRun) -> dict[str, Any]:
    """When the steps ran, iterations included: {rows: [{id, bars: [{job, status, from, to, n?}]}], start, now, left_out}.

    `from` and `to` are seconds since the flow's start (`start`, ISO); `to` is null while it runs, `now` the seconds of
    this moment or of the end. `left_out`: of a step more than MOST_BARS jobs ran; only the first are drawn.
    """
    top = read_rows("picture_jobs", {"ids": [run.job_id]})[0]
    bars: dict[str, list[dict[str, Any]]] = {}
    parents, left_out = [run.job_id], False
    for _ in range(MAX_DEPTH):
        if not parents:
            break
        rows = read_rows("timeline_jobs", {"parents": parents, "each": MOST_BARS})
        left_out = left_out or any(row["left_out"] for row in rows)
        rows = [row for row in rows if not row["left_out"]]
        for row in rows:
            bars.setdefault(str(row["flow_step_id"]), []).append(row)
        parents = [row["id"] for row in rows if row["kind"] == JobKind.FLOW_BODY]
    _span_loops(run.modules, bars)
    known = [row for rows in bars.values() for row in rows if row["started_at"] is not None]
    start = top["started_at"] or min((row["started_at"] for row in known), default=None)
    if start is None:
        return {"rows": [], "start": None, "now": 0, "left_out": False, "is_over": False}

    def seconds(moment: datetime) -> float:
        return max(0.0, round((moment - start).total_seconds(), 3))

    return {
        "rows": [
            {
                "id": str(module.get("id")),
                "bars": [
                    {
                        "job": str(row["id"]),
                        "n": row["flow_n"],
                        "status": row["status"],
                        "from": seconds(row["started_at"]),
                        "to": seconds(row["completed_at"]) if row["completed_at"] else None,
                    }
                    for row in bars.get(str(module.get("id")), [])
                    if row["started_at"] is not None
                ],
            }
            for module in run.every_module()
            if str(module.get("id")) in bars
        ],
        "start": iso(start),
        "now": seconds(top["completed_at"] or datetime.now(UTC)),
        "is_over": top["completed_at"] is not None,
        "left_out": left_out,
    }


def _goes_on_after_failures(module: RawModule) -> bool:
    """Does a loop or branchall succeed although something in it has failed?"""
    value = module.get("value") or {}
    return bool(value.get("skip_failures")) or any(
        isinstance(branch, dict) and branch.get("skip_failure") for branch in value.get("branches") or []
    )


def _span_loops(modules: Sequence[RawModule], bars: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Loops and branches without a job of their own get a bar from the first to the last of what is inside."""
    found: list[dict[str, Any]] = []
    for module in modules:
        id = str(module.get("id"))
        inside = [row for _, within in bodies(module) for row in _span_loops(within, bars)]
        began = [row for row in inside if row["started_at"] is not None]
        if id not in bars and began:
            is_over = all(row["completed_at"] is not None for row in began)
            failed = any(row["status"] in FAILED for row in began) and not _goes_on_after_failures(module)
            bars[id] = [
                {
                    "id": began[0]["id"],
                    "flow_n": None,
                    "status": ("failure" if failed else "success") if is_over else "running",
                    "started_at": min(row["started_at"] for row in began),
                    "completed_at": max(row["completed_at"] for row in began) if is_over else None,
                }
            ]
        found += bars.get(id, [])
    return found
