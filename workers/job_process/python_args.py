"""From JSON arguments to the call of a Python function."""

from __future__ import annotations

import base64
import binascii
import functools
import inspect
import types
import typing
from collections.abc import Callable, Hashable
from datetime import date, datetime
from typing import Any

_ABSENT = object()
_FUNCTION_CALL = (
    "<function call>"  # how forms show a default that is computed: the function's own one applies
)
_DATE_FORMATS = ("%d-%m-%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d")


def bind(function: Callable[..., Any], args: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments to call `function` with.

    Only what it declares is passed, or everything when it takes **kwargs. A missing or null argument takes the
    default; one without default is None. Raises ValueError, with a sentence, for text that is not what the
    annotation says (bytes, date, datetime).
    """
    parameters, hints = (_declared if isinstance(function, Hashable) else _declared.__wrapped__)(function)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    taken: set[str] = set()
    takes_all = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        taken.add(parameter.name)
        value = args.get(parameter.name, _ABSENT)
        if value == _FUNCTION_CALL:
            value = _ABSENT
        if value is _ABSENT or value is None:
            if parameter.default is not parameter.empty:
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    positional.append(parameter.default)
                continue
            value = None
        else:
            value = _coerce(value, hints.get(parameter.name, parameter.annotation), parameter.name)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    if takes_all:
        named |= {key: value for key, value in args.items() if key not in taken and value != _FUNCTION_CALL}
    return positional, named


@functools.lru_cache(maxsize=16)  # a warm process calls the same function again and again
def _declared(function: Callable[..., Any]) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """The parameters of `function`, and its annotations where some are texts."""
    parameters = list(inspect.signature(function).parameters.values())
    hints = _hints(function) if any(type(one.annotation) is str for one in parameters) else {}
    return parameters, hints


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # an annotation that only a type checker can resolve: its argument is passed as it came
        return {}


def _coerce(value: Any, wanted: Any, name: str) -> Any:
    if wanted is bytes and isinstance(value, str):
        try:
            return base64.b64decode(value)
        except binascii.Error as error:
            raise ValueError(f"argument {name} is not base64 text: {error}") from None
    if wanted is datetime and isinstance(value, str):
        try:
            return _from_iso(value)
        except ValueError:
            raise ValueError(
                f"argument {name} is {value!r}; expected a date and time as in 2024-12-31T23:59:00"
            ) from None
    if wanted is date and isinstance(value, str):
        return _date(value, name)
    origin = typing.get_origin(wanted)
    if origin is typing.Union or origin is types.UnionType:
        choices = [choice for choice in typing.get_args(wanted) if choice is not type(None)]
        if len(choices) == 1:
            return _coerce(value, choices[0], name)
    if origin is list and isinstance(value, list) and typing.get_args(wanted):
        return [_coerce(item, typing.get_args(wanted)[0], f"{name}[{at}]") for at, item in enumerate(value)]
    return value


def _from_iso(value: str) -> datetime:
    # Python 3.10, on which a script may ask to run, does not know Z.
    return datetime.fromisoformat(f"{value[:-1]}+00:00" if value.endswith("Z") else value)


def _date(value: str, name: str) -> date:
    try:
        return _from_iso(value).date()
    except ValueError:
        pass
    for layout in _DATE_FORMATS:
        try:
            return datetime.strptime(value, layout).date()
        except ValueError:
            continue
    raise ValueError(f"argument {name} is {value!r}; expected a date as in 2024-12-31")
