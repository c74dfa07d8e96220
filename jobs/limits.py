"""What a script says about how it is run: limits and network, in comments above its code. Pure.

    # limits: memory=512MB cpus=0.5 processes=64 open_files=256 disk=100MB file=50MB output=1MB
    # network: none

Comments, so that they go wherever the code goes: previews, steps of flows, git, the command line. Only those above the
first line of code count, in the comment sign of the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from jobs.models import Language
from workspaces.job_limits import NOTHING, AskedLimits, limit_from_text, limits_from_json, sized

__all__ = ["NOTHING", "AskedLimits", "Header", "WrongHeader", "header_of", "limits_from_json", "sized"]

_SLASHES = (Language.BUN, Language.DENO, Language.NATIVETS, Language.BUNNATIVE, Language.GO)
_DASHES = (Language.POSTGRESQL, Language.DUCKDB)
_SIGNS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_SLASHES, ("//",)),
    **dict.fromkeys(_DASHES, ("--",)),
    Language.MYSQL: ("--", "#"),
    Language.PHP: ("//", "#"),
}
_BLOCKS: dict[str, tuple[str, str]] = {
    **dict.fromkeys([*_SLASHES, *_DASHES, Language.MYSQL, Language.PHP], ("/*", "*/")),
    Language.POWERSHELL: ("<#", "#>"),
}
_DIRECTIVE = re.compile(r"(limits|network)[ \t]*:[ \t]*(.*)")
_PAIR = re.compile(r"([A-Za-z_]\w*)=([^\s,;]+)", re.ASCII)
_BETWEEN = re.compile(r"[\s,;]+")


@dataclass(frozen=True, slots=True)
class Header:
    """What the comments above the code ask for."""

    limits: AskedLimits = NOTHING
    network: bool = True  # False: the job shall have none
    lines: tuple[int, ...] = ()  # where it says so, counted from 1


class WrongHeader(ValueError):
    """A line above the code begins like one that is meant for us and cannot be understood."""


def header_of(code: str, language: str) -> Header:
    """What `code` says above its first line of code. Raises WrongHeader with a sentence that names the line."""
    if "limits" not in code and "network" not in code:
        return _SAYS_NOTHING
    return _read(code, language)


_SAYS_NOTHING = Header()


@lru_cache(maxsize=256)
def _read(code: str, language: str) -> Header:
    limits, network, lines = NOTHING, True, []
    for number, comment in _comments(code, language):
        directive = _DIRECTIVE.fullmatch(comment.strip())
        if directive is None:
            continue
        try:
            if directive[1] == "limits":
                limits = limits.and_also(_limits(directive[2]))
            elif directive[2] != "none":
                raise ValueError(f"{directive[2][:60]!r} is not known; the only thing to say is none")
            else:
                network = False
        except ValueError as error:
            raise WrongHeader(
                f"line {number}, {directive[1]}: {error}. (If this is only a remark, do not begin it with "
                f"{directive[1]}:)"
            ) from None
        lines.append(number)
    return Header(limits, network, tuple(lines))


def _limits(text: str) -> AskedLimits:
    limits = NOTHING
    parts = [part for part in _BETWEEN.split(text) if part]
    if not parts:
        raise ValueError("nothing is said; write for instance memory=512MB")
    for part in parts:
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise ValueError(f"{part[:60]!r} is not of the form name=value, without spaces around the =")
        limits = limits.and_also(limit_from_text(pair[1], pair[2]))
    return limits


def _comments(code: str, language: str) -> Iterator[tuple[int, str]]:
    """The comments above the first line of code, without their signs, with their lines' numbers."""
    signs = _SIGNS.get(language, ("#",))
    opening, closing = _BLOCKS.get(language, ("", ""))
    in_block = False
    for number, line in enumerate(re.split(r"\r\n|\r|\n", code.removeprefix("\ufeff")), 1):
        text = line.strip()
        if in_block or (opening and text.startswith(opening)):
            _, closed, rest = text.partition(closing)
            in_block = not closed
            if closed and rest.strip():
                return
            continue
        if not text or (number == 1 and text.startswith("#!")) or _opens_php(text, language):
            continue
        sign = next((sign for sign in signs if text.startswith(sign)), None)
        if sign is None:
            return
        yield number, text[len(sign) :]


def _opens_php(text: str, language: str) -> bool:
    return language == Language.PHP and text == "<?php"
