"""The signature of a PHP script: the parameters of its function, with the enumerations that the file declares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tree_sitter_php
from tree_sitter import Language, Node

from jobs.signatures.signature import (
    FUNCTION_CALL,
    TEXT,
    UNKNOWN,
    Argument,
    Signature,
    Typ,
    is_storable,
)
from jobs.signatures.syntax_trees import (
    DEEPEST,
    Unreadable,
    children_of,
    first_error,
    recovered_tree,
    text_of,
    unreadable_at,
)
from jobs.signatures.typescript.types import snake_case

_PHP = Language(tree_sitter_php.language_php())
_LARGEST_INTEGER = 2**53 - 1  # what a browser's numbers hold exactly

_ANY_OBJECT: Typ = {"object": {"name": None, "props": []}}
_LIST_OF_TEXT: Typ = {"list": TEXT}
# In lower case: PHP does not tell cases of type names apart.
_PLAIN_TYPES: dict[str, Typ] = {
    "string": TEXT,
    "int": "int",
    "float": "float",
    **dict.fromkeys(("bool", "false", "true"), "bool"),
    **dict.fromkeys(("array", "iterable", "traversable", "iterator"), _LIST_OF_TEXT),
    **dict.fromkeys(("object", "stdclass"), _ANY_OBJECT),
    **dict.fromkeys(("datetime", "datetimeimmutable", "datetimeinterface"), "datetime"),
    **dict.fromkeys(("mixed", "null", "callable", "closure", "self", "static"), UNKNOWN),
}
_SIMPLE_ESCAPES = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "e": "\x1b",
    "f": "\f",
    "\\": "\\",
    "$": "$",
    '"': '"',
}
_ESCAPE = re.compile(r"\\(u\{([0-9A-Fa-f]{1,6})\}|x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)


class _NotJson(Exception):
    """The expression is not a literal that JSON can hold."""


def parse(code: str, entrypoint: str = "main") -> Signature:
    """The signature of the function `entrypoint`; never raises."""
    try:
        root = recovered_tree(_PHP, code).root_node
        file = _File(root)
        function = file.function(entrypoint)
        if function is None:
            return Signature(auto_kind="lib")
        return Signature(args=tuple(file.arguments(function)))
    except Unreadable as unreadable:
        return Signature(problem=unreadable.problem)


@dataclass(slots=True)
class _File:
    """A parsed script, with the enumerations that it declares."""

    root: Node
    statements: list[Node] = field(init=False)  # at the top, or in a namespace with braces
    enums: dict[str, Node] = field(init=False)  # by name in lower case

    def __post_init__(self) -> None:
        self.statements = []
        for node in self.root.named_children:
            body = node.child_by_field_name("body") if node.type == "namespace_definition" else None
            self.statements += body.named_children if body is not None else [node]
        self.enums = {
            text_of(node.child_by_field_name("name")).lower(): node
            for node in self.statements
            if node.type == "enum_declaration"
        }

    def function(self, name: str) -> Node | None:
        """The function's declaration, read without errors up to its body. Raises Unreadable.

        An error elsewhere may be a word of the language that is newer than the grammar: the interpreter knows better.
        """
        for function in self.statements:
            if function.type != "function_definition":
                continue
            if text_of(function.child_by_field_name("name")).lower() != name.lower():
                continue
            body = function.child_by_field_name("body")
            for part in function.children:
                if part.has_error and part != body:
                    raise first_error(self.root, part)
            if body is None or not body.children or body.children[-1].is_missing:
                if self.root.has_error:
                    raise first_error(self.root)
                raise unreadable_at(self.root, function.start_byte, f"The function {name} has no body.")
            return function
        if next(children_of(self.root, "php_tag"), None) is None and text_of(self.root).strip():
            raise unreadable_at(self.root, self.root.start_byte, "The script does not begin with <?php.")
        if self.root.has_error:
            raise first_error(self.root)
        return None

    def arguments(self, function: Node) -> Iterator[Argument]:
        parameters = function.child_by_field_name("parameters")
        seen = set()
        for parameter in parameters.named_children if parameters else ():
            name = text_of(parameter.child_by_field_name("name")).lstrip("$")
            if not name or name in seen or not is_storable(name):
                continue
            seen.add(name)
            yield self._argument(name, parameter)

    def _argument(self, name: str, parameter: Node) -> Argument:
        type_node = parameter.child_by_field_name("type")
        default_node = parameter.child_by_field_name("default_value")
        typ, admits_null = (UNKNOWN, False) if type_node is None else self._typ(type_node)
        default = None
        if default_node is not None:
            default = self._default(default_node)
            if typ in (UNKNOWN, _LIST_OF_TEXT):  # `array` leaves open of what
                typ = _typ_of_value(default, unless=typ)
        is_variadic = parameter.type == "variadic_parameter"
        return Argument(
            name=name,
            typ={"list": typ} if is_variadic else typ,
            default=default,
            has_default=default_node is not None or admits_null or is_variadic,
            has_code_default=default_node is not None or is_variadic,
        )

    # Types

    def _typ(self, node: Node, depth: int = 0) -> tuple[Typ, bool]:
        """The type a declaration stands for, and whether it admits null."""
        if depth > DEEPEST:
            return UNKNOWN, False
        if node.type == "optional_type":
            typ = self._typ(node.named_children[0], depth + 1)[0] if node.named_children else UNKNOWN
            return typ, True
        if node.type == "union_type":
            members = [self._typ(member, depth + 1) for member in node.named_children]
            names = [text_of(member).lower() for member in node.named_children]
            admits_null = "null" in names or any(admits for _, admits in members)
            typs = [typ for (typ, _), name in zip(members, names, strict=True) if name != "null"]
            return (typs[0] if typs else UNKNOWN), admits_null
        if node.type in ("primitive_type", "named_type"):
            return self._named(text_of(node)), text_of(node).lower() in ("mixed", "null")
        return UNKNOWN, False

    def _named(self, written: str) -> Typ:
        name = written.rpartition("\\")[2]
        enum = self.enums.get(name.lower())
        if enum is not None:
            return self._enum(enum)
        if name.lower() in _PLAIN_TYPES:
            return _PLAIN_TYPES[name.lower()]
        for prefix, kind in (("DynSelect_", "dynselect"), ("DynMultiselect_", "dynmultiselect")):
            if name.startswith(prefix):
                return {kind: name.removeprefix(prefix)}
        return {"resource": snake_case(name)} if name.isidentifier() else UNKNOWN

    def _enum(self, enum: Node) -> Typ:
        """The choices that a job may be given: values, or names where cases have none."""
        choices = []
        body = enum.child_by_field_name("body")
        for case in children_of(body, "enum_case") if body else ():
            value = case.child_by_field_name("value")
            if value is None:
                choices.append(text_of(case.child_by_field_name("name")))
                continue
            try:
                choices.append(_literal(value))
            except _NotJson:
                return UNKNOWN
        if all(isinstance(choice, int) for choice in choices):
            return "int"
        return {"str": [choice for choice in choices if isinstance(choice, str)]}

    # Defaults

    def _default(self, node: Node) -> Any:
        """The default as JSON; FUNCTION_CALL when only PHP can tell."""
        if node.type == "class_constant_access_expression" and len(node.named_children) == 2:
            owner, case_name = (text_of(part) for part in node.named_children)
            return self._enum_case(owner.rpartition("\\")[2].lower(), case_name)
        try:
            return _literal(node)
        except _NotJson:
            return FUNCTION_CALL

    def _enum_case(self, owner: str, case_name: str) -> Any:
        enum = self.enums.get(owner)
        body = enum.child_by_field_name("body") if enum else None
        for case in children_of(body, "enum_case") if body else ():
            if text_of(case.child_by_field_name("name")) == case_name:
                value = case.child_by_field_name("value")
                return case_name if value is None else self._default(value)
        return FUNCTION_CALL


def _typ_of_value(value: Any, *, unless: Typ) -> Typ:
    """The type that fits a default; `unless` when it does not tell."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "int" if isinstance(value, int) else "float"
    if isinstance(value, str) and value != FUNCTION_CALL:
        return TEXT
    if isinstance(value, dict):
        return _ANY_OBJECT
    if isinstance(value, list):
        return {"list": _typ_of_value(value[0], unless=TEXT)} if value else _LIST_OF_TEXT
    return unless


def _literal(node: Node, depth: int = 0) -> Any:
    """The value of a literal. Raises _NotJson."""
    if depth > DEEPEST:
        raise _NotJson
    text = text_of(node)
    if node.type == "integer":
        return _integer(text)
    if node.type == "float":
        value = float(text.replace("_", ""))
        if value in (float("inf"), float("-inf")):
            raise _NotJson
        return value
    if node.type == "boolean":
        return text.lower() == "true"
    if node.type == "null":
        return None
    if node.type in ("string", "encapsed_string"):
        return _text(node, text)
    if node.type == "unary_op_expression" and text[:1] in "+-" and len(node.named_children) == 1:
        value = _literal(node.named_children[0], depth + 1)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _NotJson
        return -value if text[0] == "-" else value
    if node.type == "parenthesized_expression" and len(node.named_children) == 1:
        return _literal(node.named_children[0], depth + 1)
    if node.type == "array_creation_expression":
        return _array(node, depth)
    raise _NotJson


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    try:
        is_octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        value = int(digits, 8 if is_octal else 0)
    except ValueError:
        raise _NotJson from None
    if value > _LARGEST_INTEGER:
        raise _NotJson
    return value


def _text(node: Node, text: str) -> str:
    if text[:1] == "'":
        value = re.sub(r"\\([\\'])", r"\1", text[1:-1])
    elif text[:1] == '"' and all(
        part.type in ("string_content", "escape_sequence") for part in node.named_children
    ):
        value = _ESCAPE.sub(_unescaped, text[1:-1])
    else:
        raise _NotJson
    if not is_storable(value):
        raise _NotJson
    return value


def _unescaped(match: re.Match[str]) -> str:
    what = match[1]
    if match[2]:
        number = int(match[2], 16)
        return chr(number) if number < 0x110000 else match[0]
    if what in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[what]
    byte = None
    if what[0] == "x" and len(what) > 1:
        byte = int(what[1:], 16)
    elif what[0] in "01234567":
        byte = int(what, 8) & 0xFF
    if byte is None:
        return match[0]
    if byte > 0x7F:  # part of a character, maybe
        raise _NotJson
    return chr(byte)


def _array(node: Node, depth: int) -> Any:
    """A list, or an object when elements have keys."""
    values: dict[str, Any] = {}
    is_list, next_index = True, 0
    for element in node.named_children:
        if element.type == "comment":
            continue
        parts = element.named_children
        if element.type != "array_element_initializer" or len(parts) not in (1, 2):
            raise _NotJson
        key: Any = next_index
        if len(parts) == 2:
            key = _literal(parts[0], depth + 1)
            is_list = is_list and key == next_index and isinstance(key, int)
        if isinstance(key, bool) or not isinstance(key, int | str):
            raise _NotJson
        if isinstance(key, int):
            next_index = max(next_index, key + 1)
        values[str(key)] = _literal(parts[-1], depth + 1)
    return list(values.values()) if is_list else values
