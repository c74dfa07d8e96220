"""What somebody asks a job to be held to: the fields, their units and what is sensible, without I/O.

Said in the instance setting `job_limits` and in the configuration of a worker group (`limits_from_json`), and in scripts
(jobs.limits). Of all that is said the smallest counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

SETTING = "job_limits"  # of the instance
MB = 1 << 20  # as in Docker's m and in JOB_MEMORY_LIMIT_MB

_UNITS = {"KB": 1 << 10, "MB": MB, "GB": 1 << 30, "TB": 1 << 40}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT])i?B", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLimits:
    """What one source asks for; None: it says nothing."""

    memory_bytes: int | None = None
    cpus: float | None = None  # processors' worth of time: 0.5 is half of one
    processes: int | None = None  # threads count, as for the kernel
    open_files: int | None = None  # of each process
    disk_bytes: int | None = None  # of all that lies in /tmp, which holds the working folder
    file_bytes: int | None = None  # of one file
    output_bytes: int | None = None  # of log

    def and_also(self, other: AskedLimits) -> AskedLimits:
        """Both: the smaller of each."""
        if other == NOTHING:
            return self
        return AskedLimits(
            **{one.name: _smaller(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)}
        )


NOTHING = AskedLimits()


@dataclass(frozen=True, slots=True)
class _Kind:
    """One limit: how it is called in texts, its field, and between what it makes sense."""

    name: str
    field: str
    least: float
    most: float
    is_size: bool = False
    is_whole: bool = True

    @property
    def json_name(self) -> str:
        return f"{self.name}_mb" if self.is_size else self.name

    def checked(self, value: float, as_said: Callable[[float], str]) -> Any:
        if not self.least <= value <= self.most:
            raise ValueError(f"must be between {as_said(self.least)} and {as_said(self.most)}")
        return int(value) if self.is_whole else value


_KINDS = (
    _Kind("memory", "memory_bytes", 32 * MB, 1 << 50, is_size=True),
    _Kind("cpus", "cpus", 0.01, 4096, is_whole=False),
    _Kind("processes", "processes", 1, 1 << 22),
    _Kind("open_files", "open_files", 16, 1 << 20),
    _Kind("disk", "disk_bytes", MB, 1 << 50, is_size=True),
    _Kind("file", "file_bytes", MB, 1 << 50, is_size=True),
    _Kind("output", "output_bytes", 1 << 10, 1 << 50, is_size=True),
)
_BY_NAME = {kind.name: kind for kind in _KINDS}
_BY_JSON_NAME = {kind.json_name: kind for kind in _KINDS}
JSON_NAMES = tuple(_BY_JSON_NAME)  # fields of the setting, in the order they are shown in


def limits_from_json(value: Any) -> AskedLimits:
    """Read {"memory_mb": 512, "cpus": 0.5, ...}; fields that are missing or null say nothing.

    Raises ValueError with a sentence that names the field.
    """
    if value is None:
        return NOTHING
    if not isinstance(value, Mapping):
        raise ValueError(f"job_limits is {_shown(value)}; expected an object with {', '.join(JSON_NAMES)}")
    asked: dict[str, Any] = {}
    for name, said in value.items():
        kind = _BY_JSON_NAME.get(name)
        if kind is None:
            raise ValueError(f"job_limits.{_cut(str(name))} is not known; known are {', '.join(JSON_NAMES)}")
        if said is None:
            continue
        is_number = isinstance(said, int | float) and not isinstance(said, bool)
        if not is_number or (isinstance(said, float) and not math.isfinite(said)):
            raise ValueError(f"job_limits.{name} is {_shown(said)}; expected a number")
        if not kind.is_size and kind.is_whole and said != int(said):
            raise ValueError(f"job_limits.{name} is {said}; expected a whole number")
        try:
            asked[kind.field] = kind.checked(
                said * MB if kind.is_size else said,
                lambda bound, kind=kind: f"{bound / MB if kind.is_size else bound:,.10g}",  # type: ignore[misc]
            )
        except ValueError as error:
            raise ValueError(f"job_limits.{name} is {_shown(said)}; it {error}") from None
    return AskedLimits(**asked)


def limit_from_text(name: str, text: str) -> AskedLimits:
    """Read one `memory=512MB` of a script. Raises ValueError with a sentence that names what is wrong."""
    kind = _BY_NAME.get(name)
    if kind is None:
        raise ValueError(f"there is no limit {_cut(name)!r}; known are {', '.join(_BY_NAME)}")
    if kind.is_size:
        match = _SIZE.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{name}={_cut(text)} is no size; write for instance {name}=512MB, with KB, MB or GB"
            )
        value = float(match[1]) * _UNITS[f"{match[2].upper()}B"]
    else:
        if _NUMBER.fullmatch(text) is None or (kind.is_whole and "." in text):
            whole = "whole number" if kind.is_whole else "number"
            raise ValueError(f"{name}={_cut(text)} is no {whole}")
        value = float(text)
    try:
        return AskedLimits(**{kind.field: kind.checked(value, sized if kind.is_size else "{:g}".format)})
    except ValueError as error:
        raise ValueError(f"{name}={text} cannot be: it {error}") from None


def sized(size: float) -> str:
    """A number of bytes for people, in the units of limits.

    >>> sized(512 << 20), sized(1536 << 20), sized(100)
    ('512 MB', '1536 MB', '100 bytes')
    """
    for unit in ("TB", "GB", "MB", "KB"):
        if size >= _UNITS[unit] and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]:.0f} {unit}"
    if size >= MB:
        return f"{size / MB:.1f} MB"
    return f"{size / 1024:.1f} KB" if size >= 1024 else f"{size:.0f} bytes"


def _smaller(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _shown(value: Any) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
