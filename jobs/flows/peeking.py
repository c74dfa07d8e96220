"""What the steps of a test returned, one level at a time: a result of many megabytes never reaches the editor whole."""

import json
from typing import Any
from uuid import UUID

from jobs.flows.public import result_ref
from jobs.flows.state import Ref
from jobs.listings import get_job
from jobs.models import CompletedJob, FlowIteration, Job
from workspaces.access import Caller
from workspaces.errors import BadRequest, NotFound

MOST_ITEMS = 200  # of one level
PREVIEW = 80  # characters of a text
SMALL = 2_000  # characters of JSON: values up to here come along whole
MAX_DEPTH = 64  # of a way
MAX_WHOLE = 20_000_000  # characters of a result that is read at once

Way = list[str | int]  # keys and indices, outermost first


def peek(caller: Caller, flow_id: UUID, root: str, way: Way, *, offset: int = 0) -> dict[str, Any]:
    """One level of what `root` stands for in a flow job: `args`, or `step:<id>` for the result of a step.

    Answers {type, size, value?, items: [{key, type, size, preview, value?}], more}: `size` counts items or characters,
    `value` is there when it is small, `more` says that items follow (ask again with `offset`).
    Raises NotFound (no such job, the step has no result yet, nothing at this place), BadRequest.
    """
    job = get_job(caller, workspace_id=caller.workspace_id, job_id=flow_id, with_args=root == "args")
    if len(way) > MAX_DEPTH or not all(
        isinstance(key, str | int) and not isinstance(key, bool) for key in way
    ):
        raise BadRequest("at should be a list of keys and indices")
    if offset < 0:
        raise BadRequest("offset should be 0 or more")
    if root == "args":
        return level(_inside(_decoded(job.args), way), offset=offset)
    if not root.startswith("step:"):
        raise BadRequest("root should be args or step:<id>")
    return _of_ref(_reference(flow_id, root.removeprefix("step:")), way, offset)


def whole(flow_id: UUID, step_id: str) -> Any:
    """The result of a step of this flow job; None when it has none. Raises BadRequest when it is huge."""
    try:
        return _whole(_reference(flow_id, step_id))
    except NotFound:
        return None


def _whole(ref: Ref) -> Any:
    if "list" not in ref:
        return _value_of(ref)
    flow_id, step_id, count = ref["list"]
    rows = FlowIteration.objects.filter(flow_id=flow_id, step_id=step_id, n__lt=count).order_by("n")
    jobs = list(rows.values_list("job_id", flat=True))
    ended = CompletedJob.objects.filter(pk__in=jobs)
    size = ended.extra(select={"size": "coalesce(sum(octet_length(result::text)), 0)"}).values_list("size")[
        0
    ][0]
    if size > MAX_WHOLE:
        raise BadRequest(f"the result of step {step_id} is larger than {MAX_WHOLE} characters")
    texts = dict(ended.extra(select={"text": "result::text"}).values_list("id", "text"))
    return [_decoded(texts.get(job)) for job in jobs]


def _reference(flow_id: UUID, step_id: str) -> Ref:
    """Where the result of a step is: as `results.<id>` finds it, else that of its newest run in this flow."""
    recorded = result_ref(flow_id, step_id)
    if recorded is not None:
        return recorded
    # Steps that make up the whole body of a loop are not recorded by name.
    ran = CompletedJob.objects.filter(
        pk__in=Job.objects.filter(flow_innermost_root_job=flow_id, flow_step_id=step_id).values("id")
    )
    newest = ran.order_by("-completed_at").values_list("id", flat=True).first()
    if newest is None:
        raise NotFound(f"step {step_id[:100]} has no result in this test")
    return {"job": str(newest)}


def _of_ref(ref: Ref, way: Way, offset: int) -> dict[str, Any]:
    if "list" in ref:
        flow_id, step_id, count = ref["list"]
        if way:
            return _of_ref(_iteration(flow_id, step_id, way[0], count), way[1:], offset)
        return _list_level(flow_id, step_id, count, offset)
    return level(_inside(_value_of(ref), way), offset=offset)


def _iteration(flow_id: str, step_id: str, n: str | int, count: int) -> Ref:
    rows = FlowIteration.objects.filter(flow_id=flow_id, step_id=step_id)
    job = (
        rows.filter(n=n).values_list("job_id", flat=True).first()
        if isinstance(n, int) and 0 <= n < count
        else None
    )
    if job is None:
        raise NotFound(f"step {step_id} has no iteration {n}")
    return {"job": str(job)}


def _list_level(flow_id: str, step_id: str, count: int, offset: int) -> dict[str, Any]:
    """The results of a loop's iterations, without those that are large."""
    rows = FlowIteration.objects.filter(flow_id=flow_id, step_id=step_id, n__gte=offset, n__lt=count)
    jobs = list(rows.order_by("n").values_list("n", "job_id")[:MOST_ITEMS])
    # The database says how large each is, and hands out the small ones only.
    small = CompletedJob.objects.filter(pk__in=[job for _, job in jobs]).extra(
        select={"text": "CASE WHEN octet_length(result::text) <= %s THEN result::text END"},
        select_params=[SMALL],
    )
    texts = {row[0]: row[1] for row in small.values_list("id", "text")}
    items = []
    for n, job in jobs:
        if texts.get(job) is None:
            known = job in texts
            items.append({"key": n, "type": "large" if known else "missing", "size": None, "preview": ""})
        else:
            items.append({"key": n, **_outline(_decoded(texts[job]))})
    return {"type": "array", "size": count, "items": items, "more": offset + len(items) < count}


def _value_of(ref: Ref) -> Any:
    if "value" in ref:
        return ref["value"]
    if "args" in ref:
        text = (
            Job.objects.filter(pk=ref["args"])
            .extra(select={"text": "args::text"})
            .values_list("text")
            .first()
        )
    else:
        text = (
            CompletedJob.objects.filter(pk=ref["job"])
            .extra(select={"text": "result::text"})
            .values_list("text")
            .first()
        )
    return _decoded(text[0]) if text is not None else None


def _decoded(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError) as exc:
        raise BadRequest("this value is nested too deeply to be shown") from exc


def _inside(value: Any, way: Way) -> Any:
    for key in way:
        in_object = isinstance(value, dict) and isinstance(key, str) and key in value
        in_array = isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)
        if not (in_object or in_array):
            raise NotFound(f"there is nothing at {str(key)[:100]}")
        value = value[key]
    return value


def level(value: Any, *, offset: int = 0) -> dict[str, Any]:
    """A value and what is directly inside it, as `peek` answers it."""
    shown = _outline(value)
    if isinstance(value, dict):
        items = [{"key": key, **_outline(value[key])} for key in list(value)[offset : offset + MOST_ITEMS]]
    elif isinstance(value, list):
        some = value[offset : offset + MOST_ITEMS]
        items = [{"key": n, **_outline(item)} for n, item in enumerate(some, offset)]
    else:
        return {**shown, "items": [], "more": False}
    return {**shown, "items": items, "more": offset + len(items) < len(value)}


def _outline(value: Any) -> dict[str, Any]:
    """{type, size, preview, value?} of one value."""
    match value:
        case None:
            return {"type": "null", "size": None, "preview": "null", "value": None}
        case bool():
            return {"type": "boolean", "size": None, "preview": json.dumps(value), "value": value}
        case int() | float():
            return {"type": "number", "size": None, "preview": json.dumps(value), "value": value}
        case str():
            short = {
                "type": "string",
                "size": len(value),
                "preview": json.dumps(value[:PREVIEW], ensure_ascii=False),
            }
            return short | ({"value": value} if len(value) <= PREVIEW else {})
        case list():
            return {"type": "array", "size": len(value), "preview": f"[{len(value)}]"}
        case dict():
            return {"type": "object", "size": len(value), "preview": _keys(value)}
        case _:
            raise TypeError(f"{type(value).__name__} is no JSON value")


def _keys(value: dict[str, Any]) -> str:
    some = ", ".join(list(value)[:4])
    return f"{{{some[:PREVIEW]}{', …' if len(value) > 4 else ''}}}"
