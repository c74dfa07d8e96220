"""The options of flows, modules and inline scripts: JSON -> keyword arguments of their classes.

Most modules carry few of them, so each table is asked only for the fields that are there.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from jobs import scripts
from jobs.flows.value.fields import MAX_INT, MAX_PATH, Reader
from jobs.flows.value.model import Constant, Exponential, Mock, Retry, Static, StopAfterIf, Suspend, Transform

MAX_EXPR = 1_000_000  # characters
MAX_ATTEMPTS = 4_294_967_295

# Reads one field, given all of the object's and the object's place.
ReadField = Callable[[Reader, dict[str, Any], str], Any]


# By the name in the JSON: the argument's name, and how to read it.
Table = Mapping[str, tuple[str, ReadField]]


def read_present(read: Reader, table: Table, fields: dict[str, Any], place: str) -> dict[str, Any]:
    """Keyword arguments from the fields that are there and in `table`."""
    return {
        option[0]: option[1](read, fields, place)
        for key, value in fields.items()
        if value is not None and (option := table.get(key)) is not None
    }


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
        groups = read.computed(groups, f"{place}.user_groups_required")
        if isinstance(groups, Static):
            if not groups.value and (groups.value is None or groups.value == []):
                groups = None
            elif not _is_texts(groups.value):
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


def expression(read: Reader, fields: dict[str, Any], place: str, *, key: str) -> str | None:
    """A blank one counts as absent."""
    expr = read.text(fields, key, place, MAX_EXPR)
    return expr if expr and expr.strip() else None


def _envs(read: Reader, fields: dict[str, Any], place: str) -> tuple[str, ...]:
    value, place = fields["envs"], f"{place}.envs"
    if not isinstance(value, list) or len(value) > scripts.MAX_ENVS:
        read.wrong(place, value, f"a list of at most {scripts.MAX_ENVS} texts NAME=value")
        return ()
    for number, entry in enumerate(value):
        name, separator, _ = entry.partition("=") if isinstance(entry, str) else ("", "", "")
        if not separator or not name.isidentifier() or not name.isascii():
            read.wrong(f"{place}[{number}]", entry, "NAME=value")
    return tuple(entry for entry in value if isinstance(entry, str))


def _part(read: Reader, fields: dict[str, Any], key: str, place: str) -> dict[str, Any] | None:
    value = fields.get(key)
    return None if value is None else read.object(value, f"{place}.{key}")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


# --- the tables ---


def _inner(parse: Callable[[Reader, Any, str], Any], key: str) -> tuple[str, ReadField]:
    return key, lambda read, fields, place: parse(read, fields[key], f"{place}.{key}")


def _text(key: str, most: int = MAX_EXPR, *, name: str = "") -> tuple[str, ReadField]:
    return name or key, lambda read, fields, place: read.text(fields, key, place, most)


def _name(key: str, most: int = MAX_PATH, *, name: str = "") -> tuple[str, ReadField]:
    return name or key, lambda read, fields, place: read.text(fields, key, place, most) or None


def _flag(key: str) -> tuple[str, ReadField]:
    return key, lambda read, fields, place: read.flag(fields, key, place)


def _whole(key: str, most: int = MAX_INT) -> tuple[str, ReadField]:
    return key, lambda read, fields, place: read.whole(fields, key, place, 0, most)


def _above_zero(key: str, most: int = MAX_INT) -> tuple[str, ReadField]:
    """An editor writes 0 for an option that is off."""
    return key, lambda read, fields, place: read.whole(fields, key, place, 0, most) or None


def _seconds(key: str) -> tuple[str, ReadField]:
    return key, lambda read, fields, place: read.number_transform(
        fields, key, place, low=0, what="a number of seconds, 0 or more"
    )


def _timeout(read: Reader, fields: dict[str, Any], place: str) -> Transform | None:
    """A timeout of 0 seconds is one that is off: no step could end in time."""
    transform = _seconds("timeout")[1](read, fields, place)
    return None if isinstance(transform, Static) and transform.value == 0 else transform


def _env(read: Reader, value: Any, place: str) -> dict[str, Any]:
    return read.object(value, place) or {}


_DELETE_AFTER = ("delete_after_secs", delete_after_secs)

MODULE_OPTIONS: Table = {
    "summary": _text("summary"),
    "stop_after_if": _inner(stop_after_if, "stop_after_if"),
    "stop_after_all_iters_if": _inner(stop_after_if, "stop_after_all_iters_if"),
    "skip_if": _inner(predicate, "skip_if"),
    "sleep": _seconds("sleep"),
    "suspend": _inner(suspend, "suspend"),
    "timeout": ("timeout", _timeout),
    "retry": _inner(retry, "retry"),
    "cache_ttl": _above_zero("cache_ttl"),
    "continue_on_error": _flag("continue_on_error"),
    "delete_after_secs": _DELETE_AFTER,
    "delete_after_use": _DELETE_AFTER,
    "mock": _inner(mock, "mock"),
    "priority": _above_zero("priority", 100),
}
RAWSCRIPT_OPTIONS: Table = {
    "lock": _text("lock", scripts.MAX_CONTENT),
    "path": _name("path"),
    "tag": _name("tag", scripts.MAX_TAG),
    "concurrent_limit": _above_zero("concurrent_limit"),
    "concurrency_time_window_s": _whole("concurrency_time_window_s"),
    "custom_concurrency_key": _name("custom_concurrency_key", name="concurrency_key"),
    "envs": ("envs", _envs),
}
FLOW_OPTIONS: Table = {
    "same_worker": _flag("same_worker"),
    "preserve_step_tags": _flag("preserve_step_tags"),
    "concurrent_limit": _above_zero("concurrent_limit"),
    "concurrency_key": _name("concurrency_key"),
    "concurrency_time_window_s": _whole("concurrency_time_window_s"),
    "skip_expr": ("skip_expr", partial(expression, key="skip_expr")),
    "cache_ttl": _above_zero("cache_ttl"),
    "flow_env": _inner(_env, "flow_env"),
    "priority": _above_zero("priority", 100),
    "early_return": _name("early_return"),
    "delete_after_secs": _DELETE_AFTER,
    "delete_after_use": _DELETE_AFTER,
    "chat_input_enabled": _flag("chat_input_enabled"),
}
