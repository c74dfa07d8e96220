"""Cuts a script into its statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.signatures.sql_tokens import Dialect, Token, tokens

_ROUTINES = {
    "postgresql": frozenset({"function", "procedure"}),
    "mysql": frozenset({"function", "procedure", "trigger", "event"}),
}
_HEAD_WORDS = 8  # CREATE OR REPLACE DEFINER = x PROCEDURE
_BLOCKS_ENDED_BY_NAME = frozenset({"if", "loop", "while", "repeat"})  # END IF
_DELIMITER = re.compile(r"[ \t]+(\S+)[^\n]*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, without what ends it and without comments around it."""

    text: str
    start: int  # offset in the script
    line: int  # in the script, from 1
    parameters: tuple[Token, ...]  # their offsets are those in the script
    words: tuple[str, ...]  # the first ones, in lower case

    def line_of(self, offset: int) -> int:
        """The script's line at an offset into `text`."""
        return self.line + self.text.count("\n", 0, offset)


def split(code: str, dialect: Dialect) -> list[Statement]:
    """The statements of `code`. Semicolons in strings, comments, parentheses and bodies of routines do not count."""
    found: list[Statement] = []
    line, counted = 1, 0
    for piece in _pieces(code, dialect):
        start, end = piece[0].start, piece[-1].end
        line, counted = line + code.count("\n", counted, start), start
        found.append(
            Statement(
                text=code[start:end],
                start=start,
                line=line,
                parameters=tuple(token for token in piece if token.kind == "parameter"),
                words=tuple(_words(piece)),
            )
        )
    return found


def _words(piece: Sequence[Token]) -> list[str]:
    return [token.text.lower() for token in piece if token.kind == "word"][:_HEAD_WORDS]


def _pieces(code: str, dialect: Dialect) -> Iterator[list[Token]]:
    """The tokens of each statement, without comments."""
    delimiter = ";"
    at, piece, nesting = 0, list[Token](), _Nesting(dialect)
    while True:
        for token in tokens(code, dialect, at):
            if token.kind == "comment":
                continue
            if not piece and (changed := _new_delimiter(code, token, dialect)) is not None:
                delimiter, at = changed
                break
            before = _before_delimiter(code, token, delimiter)
            if before is None or (delimiter == ";" and nesting.is_inside):
                nesting.see(token)
                piece.append(token)
                continue
            if before:
                piece.append(Token(token.kind, token.start, token.start + before, token.text[:before]))
            if piece:
                yield piece
            at, piece, nesting = token.start + before + len(delimiter), [], _Nesting(dialect)
            if token.end != at:
                break
        else:
            break
    if piece:
        yield piece


def _before_delimiter(code: str, token: Token, delimiter: str) -> int | None:
    """How much of `token` comes before the delimiter that it holds or begins; None when there is none."""
    if token.kind == "symbol" and code.startswith(delimiter, token.start):
        return 0
    if token.kind == "word" and delimiter != ";" and (at := token.text.find(delimiter)) >= 0:
        return at  # END$$: $ may be part of a name
    return None


def _new_delimiter(code: str, token: Token, dialect: Dialect) -> tuple[str, int] | None:
    """The delimiter that MySQL's own client would use from here on, and where the next line begins."""
    if dialect != "mysql" or token.text.lower() != "delimiter":
        return None
    match = _DELIMITER.match(code, token.end)
    return (match[1], match.end()) if match else None


class _Nesting:
    """Whether a semicolon here is inside something: parentheses, or the body of a routine."""

    def __init__(self, dialect: Dialect) -> None:
        self._routines = _ROUTINES.get(dialect, frozenset())
        self._parentheses = 0
        self._blocks = 0
        self._words = 0
        self._creates = self._is_routine = False
        self._previous = ""

    @property
    def is_inside(self) -> bool:
        return self._parentheses > 0 or self._blocks > 0

    def see(self, token: Token) -> None:
        if token.kind == "symbol" and token.text in "()":
            self._parentheses = max(0, self._parentheses + (1 if token.text == "(" else -1))
        if token.kind != "word":
            self._previous = ""
            return
        word = token.text.lower()
        self._words += 1
        if self._words == 1:
            self._creates = word == "create"
        elif self._creates and self._words <= _HEAD_WORDS and word in self._routines:
            self._is_routine = True
        if self._is_routine and self._parentheses == 0:
            self._see_block(word)
        self._previous = word

    def _see_block(self, word: str) -> None:
        if word == "begin" or (word == "case" and self._blocks and self._previous != "end"):
            self._blocks += 1
        elif word == "end":
            self._blocks = max(0, self._blocks - 1)
        elif word in _BLOCKS_ENDED_BY_NAME and self._previous == "end":
            self._blocks += 1  # END IF closed no block that was counted
