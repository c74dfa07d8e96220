"""Reading typed fields out of JSON objects, collecting every problem with its place."""

import math
from typing import Any

from jobs.flows.value.model import AiFilled, Javascript, Static, Transform
from workspaces.errors import BadRequest

MAX_PROBLEMS = 50
MAX_INT = 2_147_483_647
MAX_PATH = 255
MAX_NAME = 255

Problem = tuple[str, str]  # place, sentence


class BadFlow(BadRequest):
    """The flow cannot run as it is written. `problems`: (place, sentence) of each, at most 50."""

    code = "bad_flow"

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__(
            "\n".join(f"{place}: {sentence}" if place else sentence for place, sentence in problems)
        )


class Reader:
    """Typed access to objects. A wrong value is noted as a problem and read as if it were absent."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def problem(self, place: str, sentence: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append((place.removeprefix("."), sentence))  # the flow itself has no name

    def wrong(self, place: str, value: Any, expected: str) -> None:
        self.problem(place, f"is {shown(value)}; expected {expected}")

    def object(self, value: Any, place: str) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return value
        self.wrong(place, value, "an object")
        return None

    def text(self, fields: dict[str, Any], key: str, place: str, most: int = MAX_NAME) -> str | None:
        """None when absent, null or wrong."""
        value = fields.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.wrong(f"{place}.{key}", value, "a text")
            return None
        if len(value) > most:
            self.problem(f"{place}.{key}", f"has {len(value)} characters; at most {most} fit")
            return None
        return value

    def required_text(self, fields: dict[str, Any], key: str, place: str, most: int, what: str) -> str:
        value = fields.get(key)
        if value is None:
            self.problem(f"{place}.{key}", f"is missing; expected {what}")
            return ""
        return self.text(fields, key, place, most) or ""

    def flag(self, fields: dict[str, Any], key: str, place: str, default: bool = False) -> bool:
        value = fields.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(f"{place}.{key}", value, "true or false")
            return default
        return value

    def whole(self, fields: dict[str, Any], key: str, place: str, low: int, high: int) -> int | None:
        """A whole number within bounds; 3.0 counts as one. None when absent, null or wrong."""
        value = fields.get(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.wrong(f"{place}.{key}", value, f"a whole number from {low} to {high}")
            return None
        return value

    def transform(self, value: Any, place: str) -> Transform | None:
        """An input transform; None when it is wrong."""
        if not isinstance(value, dict):
            self.wrong(place, value, 'an object like {"type": "static", "value": ...}')
            return None
        type = value.get("type")
        if type == "static":
            return Static(value.get("value"))
        if type == "javascript":
            expr = value.get("expr")
            if isinstance(expr, str):
                return Javascript(expr)
            if expr is None:
                self.problem(f"{place}.expr", "is missing; expected a JavaScript expression")
            else:
                self.wrong(f"{place}.expr", expr, "a JavaScript expression")
        elif type == "ai":
            return AiFilled()
        elif type is None:
            self.problem(f"{place}.type", "is missing; expected static, javascript or ai")
        else:
            self.wrong(f"{place}.type", type, "static, javascript or ai")
        return None

    def computed(self, value: Any, place: str) -> Transform | None:
        """A transform outside of an AI agent's tools, where no model fills anything in."""
        transform = self.transform(value, place)
        if isinstance(transform, AiFilled):
            self.wrong(f"{place}.type", "ai", "static or javascript")
            return None
        return transform

    def number_transform(
        self, fields: dict[str, Any], key: str, place: str, *, low: float, what: str
    ) -> Transform | None:
        """A transform that gives a number, or the number itself. A static null counts as absent."""
        value = fields.get(key)
        if value is None:
            return None
        place = f"{place}.{key}"
        if isinstance(value, int | float):
            transform: Transform | None = Static(value)
        else:
            transform = self.computed(value, place)
            place = f"{place}.value"
        if not isinstance(transform, Static):
            return transform
        number = transform.value
        if number is None:
            return None
        if not isinstance(number, int | float) or isinstance(number, bool) or not low <= number <= MAX_INT:
            self.wrong(place, number, what)
            return None
        return transform

    def transforms(self, fields: dict[str, Any], place: str) -> dict[str, Transform]:
        value = fields.get("input_transforms")
        if not value and (value is None or value == {}):
            return {}
        place = f"{place}.input_transforms"
        if not isinstance(value, dict):
            self.wrong(place, value, "an object of input transforms")
            return {}
        read: dict[str, Transform] = {}
        for name, inner in value.items():
            transform = self.transform(inner, f"{place}.{shortened(name)}")
            if transform is not None:
                read[name] = transform
        return read


def shortened(name: Any) -> str:
    text = name if isinstance(name, str) else type(name).__name__
    return text if len(text) <= 60 else text[:59] + "…"


def shown(value: Any) -> str:
    """A JSON value in a sentence, never long."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, int):
        return str(value) if abs(value) < 10**30 else "a number of many digits"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "no finite number"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else f"a {type(value).__name__}"
