"""Which rows of which statements are a script's result, and that result's JSON, written while the rows come in."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from jobs.signatures.sql import SqlScript
from workers.job_process.python_results import to_json
from workers.runtimes.base import ExecutionFailed
from workers.runtimes.results import result_too_large

_NAMES = [
    f"{statements}_{rows}{scalar}"
    for statements in ("last_statement", "all_statements")
    for rows in ("all_rows", "first_row")
    for scalar in ("", "_scalar")
] + ["legacy"]

_PIECE_CHARACTERS = 2 << 20


@dataclass(frozen=True, slots=True)
class Collection:
    """What is collected of a script's statements."""

    every_statement: bool = False  # a list with one result for each; else the last one's result
    first_row: bool = False  # the first row, or null; else a list of rows
    scalar: bool = False  # of a row, its first column; else an object by column


def collection_of(script: SqlScript, statement_count: int) -> Collection:
    """What the script asks for; all rows of the last statement when it does not say.

    `legacy` is a list of results where there are several statements. Raises ExecutionFailed for a name that does not
    exist.
    """
    wanted = script.result_collection or ("last_statement_all_rows" if script.return_last_result else None)
    if wanted is None:
        return Collection()
    if wanted not in _NAMES:
        raise ExecutionFailed(
            {
                "name": "InvalidAnnotation",
                "message": f"result_collection={wanted} does not exist; it is one of {', '.join(_NAMES)}.",
            }
        )
    if wanted == "legacy":
        return Collection(every_statement=statement_count > 1)
    return Collection(
        every_statement=wanted.startswith("all"),
        first_row="first_row" in wanted,
        scalar=wanted.endswith("scalar"),
    )


class ResultWriter:
    """The result as JSON text, made of batches of rows. `limit` is the most bytes it may have.

    Call `begin` for each statement whose result `wants` says is part of it, then `add` its rows.
    """

    def __init__(self, collection: Collection, *, statement_count: int, limit: int) -> None:
        self._collection = collection
        self._statement_count = statement_count
        self._limit = limit
        self._size = 2
        self._text = _GrowingText()
        self._names: list[str] = []
        self._results = 0
        self._rows = 0

    def wants(self, index: int) -> bool:
        """Whether the rows of the statement at `index` are part of the result."""
        return self._collection.every_statement or index == self._statement_count - 1

    def begin(self) -> None:
        """The result of one more statement begins."""
        self._end()
        if self._results:
            self._text.append(",")
        elif self._collection.every_statement:
            self._text.append("[")
        self._results += 1
        self._rows = 0
        self._names = []

    @property
    def needs_more(self) -> bool:
        """Whether further rows of this statement make a difference."""
        return not (self._collection.first_row and self._rows)

    def add(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Take a batch of rows. Raises ExecutionFailed when the result becomes too large.

        A column's name that is there twice gets a number: id, id_2.
        """
        if not rows or not self.needs_more:
            return
        if not self._names:
            self._names = unique_names(columns)
        if self._collection.first_row:
            rows = rows[:1]
        names = self._names
        if self._collection.scalar:
            values = [row[0] for row in rows]
        else:
            values = [dict(zip(names, row, strict=True)) for row in rows]
        text = encoded(values)[1:-1]
        self._size += len(text) + 1
        if self._size > self._limit:
            raise result_too_large(self._size, self._limit, mem_peak_kb=0)
        if not self._collection.first_row:
            self._text.append("," if self._rows else "[")
        self._text.append(text)
        self._rows += len(rows)

    def text(self) -> str:
        """The JSON of it all. Nothing can be added any more."""
        self._end()
        if not self._results:
            return "null" if self._collection.first_row and not self._collection.every_statement else "[]"
        if self._collection.every_statement:
            self._text.append("]")
        return self._text.end()

    def _end(self) -> None:
        if not self._results:
            return
        if self._collection.first_row:
            if not self._rows:
                self._text.append("null")
        else:
            self._text.append("]" if self._rows else "[]")


class _GrowingText:
    """A text that grows at its end, without a moment in which all of it is copied.

    "".join of 65 MB holds the interpreter, and with it the worker's event loop, for 50 ms, and needs the memory twice.
    CPython appends to a local variable in place, as long as nothing else refers to the text; the pieces are large so
    that it would cost little if it did not.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._held = 0  # characters in parts
        self._grown = _grow()
        next(self._grown)

    def append(self, piece: str) -> None:
        self._parts.append(piece)
        self._held += len(piece)
        if self._held > _PIECE_CHARACTERS:
            self._flush()

    def end(self) -> str:
        """All of it."""
        self._flush()
        try:
            self._grown.send(None)
        except StopIteration as end:
            return str(end.value)
        raise AssertionError("the text goes on after its end")

    def _flush(self) -> None:
        self._grown.send("".join(self._parts))
        self._parts.clear()
        self._held = 0


def _grow() -> Generator[None, str | None, str]:
    text = ""
    while (piece := (yield)) is not None:
        text += piece
    return text


def unique_names(columns: Sequence[str]) -> list[str]:
    """Names for the columns of a row: the second `id` is id_2.

    >>> unique_names(["id", "id", "id_2"])
    ['id', 'id_3', 'id_2']
    """
    names: list[str] = []
    taken = set(columns)
    seen: set[str] = set()
    for column in columns:
        name, number = column, 2
        while name in seen or (name != column and name in taken):
            name, number = f"{column}_{number}", number + 1
        seen.add(name)
        names.append(name)
    return names


def encoded(value: Any) -> str:
    """JSON that PostgreSQL stores: no NUL characters, no lone surrogates, no NaN; bytes as base64."""
    try:
        text = orjson.dumps(value, default=_default).decode()
        if "\\u0000" not in text:
            return text
        value = orjson.loads(text)
    except TypeError:  # a lone surrogate, or a whole number of more than 64 bits
        value = json.loads(json.dumps(value, default=_plain))
    return to_json(value, postprocess=True)


def _default(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, orjson.Fragment):
        return json.loads(orjson.dumps(value))
    return _default(value)
