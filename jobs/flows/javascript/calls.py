"""What goes into a call of V8 and comes out of it, and how it is written for the harness."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.flows.javascript.helper import EngineLost

MAX_VALUE_CHARS = 50_000_000  # of one value as JSON

CALLS = ("variable", "resource", "flow_user_state")  # functions of expressions that ask for something


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One expression."""

    source: str
    names: tuple[str, ...]  # its parameters: names of values, "results", and CALLS
    is_pure: bool = False  # cannot change what it reads: may share it with others of the call
    is_tame: bool = False  # cannot change anything but what it reads: may run in a shared isolate
    awaits: bool = False  # uses `await`
    thens: bool = False  # uses .then(): functions return promises
    truth: bool = False  # only whether its value is truthy

    def as_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "names": self.names,
            "pure": self.is_pure,
            "awaits": self.awaits,
            "thens": self.thens,
            "truth": self.truth,
        }


@dataclass(frozen=True, slots=True)
class Done:
    text: bytes  # JSON


@dataclass(frozen=True, slots=True)
class Failed:
    name: str
    message: str
    line: int | None = None  # of the expression, from 1


@dataclass(frozen=True, slots=True)
class Needs:
    """It asked for values that were not sent: evaluate it again with them."""

    asked: tuple[tuple[str, str], ...]  # ("results" or one of CALLS, name)


Answer = Done | Failed | Needs


@dataclass(slots=True)
class Values:
    """What the programs of a call may read, each as JSON text."""

    named: dict[str, bytes] = field(default_factory=dict)
    results: dict[str, bytes] = field(default_factory=dict)
    calls: dict[str, dict[str, bytes]] = field(default_factory=lambda: {kind: {} for kind in CALLS})

    def has(self, kind: str, name: str) -> bool:
        return name in (self.results if kind == "results" else self.calls[kind])

    def add(self, kind: str, name: str, text: bytes) -> None:
        (self.results if kind == "results" else self.calls[kind])[name] = text


def as_request(programs: Sequence[Program], values: Values) -> tuple[str, list[bytes]]:
    """(header, texts): a call as the harness reads it; the header says which text is what."""
    texts: list[bytes] = []

    def numbered(named: Mapping[str, bytes]) -> dict[str, int]:
        start = len(texts)
        texts.extend(named.values())
        return {name: start + index for index, name in enumerate(named)}

    header = {
        "programs": [program.as_json() for program in programs],
        "values": numbered(values.named),
        "results": numbered(values.results),
        "calls": {kind: numbered(known) for kind, known in values.calls.items()},
        "maxLength": MAX_VALUE_CHARS,
        "isOnly": not all(program.is_tame for program in programs),  # the isolate serves this call alone
    }
    return json.dumps(header), texts


def read_answers(text: str, count: int) -> list[Answer]:
    """Read the harness' answer. Users' code ran beside the harness: what does not fit is refused, never trusted."""
    lines = text.split("\n")
    try:
        about = json.loads(lines[0])
        if len(about) != count:
            raise ValueError("another number of answers")
        return [_one_answer(item, lines) for item in about]
    except (ValueError, LookupError, TypeError, RecursionError) as exc:
        raise EngineLost("the expression broke the engine's answer") from exc


def _one_answer(item: Any, lines: list[str]) -> Answer:
    if "line" in item:
        return Done(lines[item["line"]].encode())
    if "needs" in item:
        asked = tuple((kind, name) for kind, name in item["needs"])
        if not asked or any(
            kind not in ("results", *CALLS) or not isinstance(name, str) for kind, name in asked
        ):
            raise ValueError("it asks for something unknown")
        return Needs(asked)
    if "failed" in item:
        failed = item["failed"]
        line = failed.get("line")
        return Failed(str(failed["name"]), str(failed["message"]), line if isinstance(line, int) else None)
    return Failed("Error", "waits for a promise that nothing settles")
