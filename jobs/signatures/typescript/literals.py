"""Default values: the JSON that a TypeScript expression stands for, without running it."""

import math
import re
from collections.abc import Callable
from itertools import pairwise
from operator import add, mul, sub
from typing import Any

from tree_sitter import Node

from jobs.signatures.signature import FUNCTION_CALL, TEXT, UNKNOWN, Typ, is_storable
from jobs.signatures.syntax_trees import text_of

_LARGEST_INTEGER = 2**53 - 1  # what JavaScript's numbers hold exactly
_DEEPEST_VALUE = 50

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_CODE_POINT = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,8})\})")
_LEGACY_OCTAL = re.compile(r"0[0-9_]+$")
_CALLS = frozenset({"call_expression", "new_expression", "await_expression"})
_CASTS = frozenset(
    {"parenthesized_expression", "as_expression", "satisfies_expression", "non_null_expression"}
)

_ARITHMETIC: dict[str, Callable[[Any, Any], float]] = {"+": add, "-": sub, "*": mul}

# (enum, member) -> its value; None when the module declares no such thing
EnumValue = Callable[[str, str], str | int | float | None]


class NotJson(Exception):
    """The expression is not a literal that JSON can hold."""


def default_value(node: Node, enum_value: EnumValue) -> Any:
    """The JSON value of a default; None when it has none, FUNCTION_CALL when only a call can tell."""
    if node.type in _CALLS:
        return FUNCTION_CALL
    try:
        return _value(node, enum_value)
    except NotJson:
        return None


def typ_of_default(node: Node, enum_value: EnumValue) -> Typ:
    """The type of a parameter that has this default and no annotation."""
    try:
        return _typ_of_value(_value(node, enum_value))
    except NotJson:
        return UNKNOWN


def string_value(node: Node) -> str:
    """The text of a string literal, escapes resolved. Raises NotJson for one that JSON cannot hold."""
    text = "".join(
        _escaped(text_of(part)) if part.type == "escape_sequence" else text_of(part)
        for part in node.named_children
    )
    try:  # two escapes can be the halves of one character
        text = text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as exc:
        raise NotJson from exc
    if not is_storable(text):
        raise NotJson
    return text


def number_value(node: Node) -> int | float:
    """The value of a number literal; a BigInt's too. Raises NotJson for one that JSON cannot hold."""
    text = text_of(node)
    if _LEGACY_OCTAL.match(text):
        raise NotJson
    digits = text.removesuffix("n").replace("_", "")
    try:
        value: float = int(digits, 0) if digits[:1] == "0" and digits[1:2].isalpha() else float(digits)
        if digits.isdigit():
            value = int(digits)
    except ValueError as exc:
        raise NotJson from exc
    return _number(value)


def _value(node: Node, enum_value: EnumValue, depth: int = 0) -> Any:
    """The JSON value of a literal expression. Raises NotJson for any other, and what JSON would change."""
    if depth > _DEEPEST_VALUE:
        raise NotJson
    kind = node.type
    if kind == "string":
        return string_value(node)
    if kind == "template_string" and all(
        part.type != "template_substitution" for part in node.named_children
    ):
        return string_value(node)
    if kind == "number":
        return number_value(node)
    if kind in ("true", "false"):
        return kind == "true"
    if kind in ("null", "undefined"):
        return None
    if kind in _CASTS:
        return _value(_first(node), enum_value, depth + 1)
    if kind == "type_assertion":  # <string>"a"
        return _value(node.named_children[-1], enum_value, depth + 1)
    if kind == "member_expression":
        return _enum_member(node, enum_value)
    if kind == "array":
        return [_value(item, enum_value, depth + 1) for item in _items(node)]
    if kind == "object":
        return dict(_pair(item, enum_value, depth + 1) for item in _without_comments(node))
    if kind == "unary_expression":
        return _unary(node, enum_value, depth)
    if kind == "binary_expression":
        return _binary(node, enum_value, depth)
    raise NotJson


def _without_comments(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _items(array: Node) -> list[Node]:
    tokens = [child.type for child in array.children if child.type != "comment"]
    if any(pair in (("[", ","), (",", ",")) for pair in pairwise(tokens)):
        raise NotJson  # [1, , 2] has a hole, which is neither null nor absent
    return _without_comments(array)


def _first(node: Node) -> Node:
    children = _without_comments(node)
    if not children:
        raise NotJson
    return children[0]


def _pair(node: Node, enum_value: EnumValue, depth: int) -> tuple[str, Any]:
    key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
    if node.type != "pair" or key is None or value is None:
        raise NotJson  # a spread, a method, or a variable
    return property_name(key), _value(value, enum_value, depth)


def property_name(node: Node) -> str:
    """The name of a property in an object or an object type. Raises NotJson for a computed one."""
    if node.type == "string":
        return string_value(node)
    if node.type == "number":
        value = number_value(node)
        return str(int(value)) if value == int(value) else str(value)
    if node.type == "property_identifier":
        return text_of(node)
    raise NotJson


def _enum_member(node: Node, enum_value: EnumValue) -> str | int | float:
    enum, member = node.child_by_field_name("object"), node.child_by_field_name("property")
    value = enum_value(text_of(enum), text_of(member)) if enum is not None and member is not None else None
    if value is None:
        raise NotJson
    return value


def _unary(node: Node, enum_value: EnumValue, depth: int) -> Any:
    operator, operand = node.child_by_field_name("operator"), node.child_by_field_name("argument")
    if operator is None or operand is None:
        raise NotJson
    value = _value(operand, enum_value, depth + 1)
    if operator.type == "!" and isinstance(value, bool):
        return not value
    if operator.type in "-+" and _is_number(value):
        return -value if operator.type == "-" else value
    raise NotJson


def _binary(node: Node, enum_value: EnumValue, depth: int) -> Any:
    """`60 * 60`, `"a long " + "text"`."""
    operator = node.child_by_field_name("operator")
    sides = node.child_by_field_name("left"), node.child_by_field_name("right")
    left, right = (_value(side, enum_value, depth + 1) if side is not None else None for side in sides)
    kind = operator.type if operator is not None else ""
    if kind == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if kind not in _ARITHMETIC or not (_is_number(left) and _is_number(right)):
        raise NotJson
    return _number(_ARITHMETIC[kind](left, right))


def _number(value: float) -> int | float:
    if not math.isfinite(value):
        raise NotJson
    if value == int(value):  # 1e3 and 1.0 are whole numbers in JavaScript
        value = int(value)
        if abs(value) > _LARGEST_INTEGER:
            raise NotJson
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _escaped(sequence: str) -> str:
    code_point = _CODE_POINT.fullmatch(sequence)
    if code_point is None:
        return _ESCAPES.get(sequence[1:], sequence[1:])
    value = int(next(filter(None, code_point.groups())), 16)
    if value > 0x10FFFF:
        raise NotJson
    return chr(value)


def _typ_of_value(value: Any) -> Typ:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str):
        return TEXT
    if isinstance(value, list):
        return {"list": _typ_of_value(value[0]) if value else UNKNOWN}
    if isinstance(value, dict):
        props = [{"key": key, "typ": _typ_of_value(item)} for key, item in value.items()]
        return {"object": {"name": None, "props": props}}
    return UNKNOWN
