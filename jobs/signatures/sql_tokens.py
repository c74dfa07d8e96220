"""Cuts SQL into tokens, by dialect: enough to tell code from strings and comments, and to find parameters.

Written here because nothing ready fits: sqlparse takes seconds for a large script and knows neither dollar quotes with
tags nor nested comments for certain; sqlglot parses, so it refuses what its grammar does not know. This never fails,
and its time is linear in the length of the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Dialect = Literal["postgresql", "mysql", "duckdb", "bigquery", "snowflake", "mssql", "oracledb"]
Kind = Literal["comment", "string", "quoted", "word", "parameter", "symbol"]


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text. White space makes none."""

    kind: Kind  # quoted: a name in quotes; symbol: one character, or a number
    start: int
    end: int
    text: str


# What begins here. The order matters: the first that matches wins. An open quote goes on to the end of the text.
_COMMENT = r"(?P<comment>--[^\r\n]*)"
_BLOCK = r"(?P<block>/\*)"
_DOLLAR = r"(?P<dollar>\$(?:[^\W\d]\w*)?\$)"
_DOUBLED = r"'(?:[^']++|'')*+(?:'|\Z)"  # 'it''s'
_ESCAPED = r"'(?:[^'\\]++|''|\\.)*+(?:'|\\?\Z)"  # 'it\'s'
_ESCAPED_DOUBLE = r'"(?:[^"\\]++|""|\\.)*+(?:"|\\?\Z)'
_IN_QUOTES = r'(?P<quoted>"(?:[^"]++|"")*+(?:"|\Z))'
_BACKTICKS = r"(?P<quoted>`(?:[^`]++|``)*+(?:`|\Z))"
_WORD = r"(?P<word>[^\W\d][\w$]*+)"
_REST = r"(?P<symbol>\d[\w.]*+|\S)"

_PARTS: dict[str, list[str]] = {
    "postgresql": [
        _COMMENT, _BLOCK, _DOLLAR, r"(?P<parameter>\$\d+)",
        rf"(?P<string>[eE]{_ESCAPED}|(?:[bBxXnN]|[uU]&)?{_DOUBLED})",
        _IN_QUOTES, _WORD, r"(?P<cast>::)", _REST,
    ],
    "duckdb": [
        _COMMENT, _BLOCK, _DOLLAR, r"(?P<parameter>\$\w+|\?)",
        rf"(?P<string>[eE]{_ESCAPED}|[xX]?{_DOUBLED})",
        _IN_QUOTES, _WORD, r"(?P<cast>::)", _REST,
    ],
    "mysql": [
        r"(?P<comment>--(?=[\s\x00]|\Z)[^\r\n]*|#[^\r\n]*)", _BLOCK,
        r"(?P<parameter>\?|:[^\W\d]\w*)", rf"(?P<string>{_ESCAPED}|{_ESCAPED_DOUBLE})",
        _BACKTICKS, r"(?P<variable>@+[\w$.]*+|:=)", _WORD, _REST,
    ],
    "bigquery": [
        r"(?P<comment>(?:--|#)[^\r\n]*)", _BLOCK,
        r"(?P<string>[rRbB]{0,2}(?:'''(?s:.*?)(?:'''|\Z)|\"\"\"(?s:.*?)(?:\"\"\"|\Z)"
        rf"|{_ESCAPED}|{_ESCAPED_DOUBLE}))",
        _BACKTICKS, r"(?P<variable>@@[\w.]*+)", r"(?P<parameter>@[^\W\d]\w*)", _WORD, _REST,
    ],
    "snowflake": [
        r"(?P<comment>(?:--|//)[^\r\n]*)", _BLOCK, r"(?P<dollar>\$\$)", r"(?P<parameter>\?)",
        rf"(?P<string>{_ESCAPED})", _IN_QUOTES, _WORD, _REST,
    ],
    "mssql": [
        _COMMENT, _BLOCK, rf"(?P<string>[nN]?{_DOUBLED})",
        r'(?P<quoted>"(?:[^"]++|"")*+(?:"|\Z)|\[(?:[^\]]++|\]\])*+(?:\]|\Z))',
        r"(?P<parameter>@[pP]\d+\b)", r"(?P<variable>@+[\w$#]*+)", _WORD, _REST,
    ],
    "oracledb": [
        _COMMENT, _BLOCK, r"(?P<oracle>[nN]?[qQ]'\S)", rf"(?P<string>[nN]?{_DOUBLED})",
        _IN_QUOTES, r"(?P<parameter>:[^\W\d][\w$#]*)", _WORD, _REST,
    ],
}  # fmt: skip
_PATTERNS = {
    dialect: re.compile(r"\s*+(?:" + "|".join(parts) + ")", re.S) for dialect, parts in _PARTS.items()
}
_NESTED = frozenset({"postgresql", "duckdb", "mssql"})  # dialects with comments inside comments
_KINDS: dict[str, Kind] = {
    "block": "comment",
    "dollar": "string",
    "oracle": "string",
    "cast": "symbol",
    "variable": "word",
    "comment": "comment",
    "string": "string",
    "quoted": "quoted",
    "word": "word",
    "parameter": "parameter",
    "symbol": "symbol",
}
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_BRACKETS = {"[": "]", "{": "}", "(": ")", "<": ">"}


def tokens(code: str, dialect: Dialect, at: int = 0) -> Iterator[Token]:
    """The tokens of `code` from offset `at` on, in their order."""
    pattern = _PATTERNS[dialect]
    while (match := pattern.match(code, at)) is not None:
        group = match.lastgroup or "symbol"
        start, at = match.start(group), match.end()
        if group == "block":
            at = _end_of_comment(code, start, is_nested=dialect in _NESTED)
        elif group == "dollar":
            at = _end_after(code, match[group], at)
        elif group == "oracle":  # q'[it's]'
            at = _end_after(code, _BRACKETS.get(code[at - 1], code[at - 1]) + "'", at)
        yield Token(_KINDS[group], start, at, code[start:at])


def _end_after(code: str, closing: str, at: int) -> int:
    found = code.find(closing, at)
    return len(code) if found < 0 else found + len(closing)


def _end_of_comment(code: str, start: int, *, is_nested: bool) -> int:
    if not is_nested:
        return _end_after(code, "*/", start + 2)
    depth = 0
    for edge in _COMMENT_EDGE.finditer(code, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(code)
