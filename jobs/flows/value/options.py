"""The options of a module: JSON -> Retry, StopAfterIf, Suspend, Mock."""

from typing import Any

from jobs.flows.value.fields import MAX_INT, Reader
from jobs.flows.value.model import Constant, Exponential, Mock, Retry, Static, StopAfterIf, Suspend

MAX_EXPR = 1_000_000  # characters
MAX_ATTEMPTS = 4_294_967_295


def retry(read: Reader, value: Any, place: str) -> Retry | None:
    """None when it would never retry: an editor writes zero attempts for an option that is off."""
    fields = read.object(value, place)
    if fields is None:
        return None
    constant = exponential = None
    if (part := _part(read, fields, "constant", place)) is not None:
        inner = f"{place}.constant"
        constant = Constant(
            attempts=read.whole(part, "attempts", inner, 0, MAX_ATTEMPTS) or 0,
            seconds=read.whole(part, "seconds", inner, 0, MAX_INT) or 0,
        )
    if (part := _part(read, fields, "exponential", place)) is not None:
        inner = f"{place}.exponential"
        multiplier = read.whole(part, "multiplier", inner, 0, MAX_INT)
        exponential = Exponential(
            attempts=read.whole(part, "attempts", inner, 0, MAX_ATTEMPTS) or 0,
            multiplier=1 if multiplier is None else multiplier,
            seconds=read.whole(part, "seconds", inner, 0, MAX_INT) or 0,
            random_factor=read.whole(part, "random_factor", inner, 0, 100) or 0,
        )
    retry_if = predicate(read, fields.get("retry_if"), f"{place}.retry_if")
    constant = constant if constant and constant.attempts else None
    exponential = exponential if exponential and exponential.attempts else None
    return Retry(constant, exponential, retry_if) if constant or exponential else None


def predicate(read: Reader, value: Any, place: str) -> str | None:
    """The expression of {"expr": ...}; None when there is none, or a blank one."""
    if value is None or (fields := read.object(value, place)) is None:
        return None
    expr = read.required_text(fields, "expr", place, MAX_EXPR, "a JavaScript condition")
    return expr if expr.strip() else None


def stop_after_if(read: Reader, value: Any, place: str) -> StopAfterIf | None:
    fields = read.object(value, place)
    if fields is None or (expr := predicate(read, fields, place)) is None:
        return None
    return StopAfterIf(
        expr=expr,
        skip_if_stopped=read.flag(fields, "skip_if_stopped", place),
        error_message=read.text(fields, "error_message", place, MAX_EXPR),
        error_include_result=read.flag(fields, "error_include_result", place),
    )


def suspend(read: Reader, value: Any, place: str) -> Suspend | None:
    """None when no event is required."""
    fields = read.object(value, place)
    if fields is None:
        return None
    required = read.whole(fields, "required_events", place, 0, MAX_INT)
    timeout = read.whole(fields, "timeout", place, 0, MAX_INT)
    form = fields.get("resume_form")
    if form is not None:
        form = read.object(form, f"{place}.resume_form")
        if form is not None and form.get("schema") is not None:
            read.object(form["schema"], f"{place}.resume_form.schema")
    groups = fields.get("user_groups_required")
    if groups is not None:
        groups = read.transform(groups, f"{place}.user_groups_required")
        if isinstance(groups, Static):
            if not groups.value and (groups.value is None or groups.value == []):
                groups = None
            elif not isinstance(groups.value, str) and not _is_texts(groups.value):
                read.wrong(f"{place}.user_groups_required.value", groups.value, "a list of group names")
    read_suspend = Suspend(
        required_events=1 if required is None else required,
        timeout_s=1800 if timeout is None else timeout,
        resume_form=form,
        user_auth_required=read.flag(fields, "user_auth_required", place),
        user_groups_required=groups,
        self_approval_disabled=read.flag(fields, "self_approval_disabled", place),
        hide_cancel=read.flag(fields, "hide_cancel", place),
        continue_on_disapprove_timeout=read.flag(fields, "continue_on_disapprove_timeout", place),
    )
    return None if required == 0 else read_suspend


def mock(read: Reader, value: Any, place: str) -> Mock | None:
    """None unless it is enabled."""
    fields = read.object(value, place)
    if fields is None or not read.flag(fields, "enabled", place):
        return None
    return Mock(fields.get("return_value"))


def delete_after_secs(read: Reader, fields: dict[str, Any], place: str) -> int | None:
    """`delete_after_use` is the older way to say 0."""
    seconds = read.whole(fields, "delete_after_secs", place, 0, MAX_INT)
    if read.flag(fields, "delete_after_use", place) and seconds is None:
        return 0
    return seconds


def _part(read: Reader, fields: dict[str, Any], key: str, place: str) -> dict[str, Any] | None:
    value = fields.get(key)
    return None if value is None else read.object(value, f"{place}.{key}")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
