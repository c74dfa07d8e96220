"""The signature of a PowerShell script: its param(...) block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tree_sitter_powershell
from tree_sitter import Language, Node

from jobs.signatures.signature import (
    FUNCTION_CALL,
    TEXT,
    UNKNOWN,
    Argument,
    Problem,
    Signature,
    Typ,
    is_storable,
)
from jobs.signatures.syntax_trees import (
    DEEPEST,
    Unreadable,
    children_of,
    first_error,
    plain_lines,
    recovered_tree,
    text_of,
)

_POWERSHELL = Language(tree_sitter_powershell.language())
_FARTHEST = 100_000  # characters into a script that its param block may reach
_LARGEST_INTEGER = 2**53 - 1  # what a browser's numbers hold exactly

_ANY_OBJECT: Typ = {"object": {"name": None, "props": []}}
# In lower case, without the namespace: PowerShell does not tell cases apart.
_PLAIN_TYPES: dict[str, Typ] = {
    **dict.fromkeys(
        ("string", "char", "guid", "uri", "version", "mailaddress", "ipaddress", "regex", "timespan", "xml"),
        TEXT,
    ),
    **dict.fromkeys(
        (
            *("int", "int16", "int32", "int64", "uint", "uint16", "uint32", "uint64"),
            *("long", "ulong", "short", "ushort", "byte", "sbyte", "bigint"),
        ),
        "int",
    ),
    **dict.fromkeys(("double", "float", "single", "decimal"), "float"),
    **dict.fromkeys(("bool", "boolean", "switch", "switchparameter"), "bool"),
    **dict.fromkeys(("datetime", "datetimeoffset"), "datetime"),
    **dict.fromkeys(("hashtable", "pscustomobject", "psobject", "idictionary", "ordered"), _ANY_OBJECT),
    "array": {"list": TEXT},
    "arraylist": {"list": TEXT},
}
_SWITCHES = frozenset({"switch", "switchparameter"})
_LISTS = frozenset({"list", "ilist", "ienumerable", "icollection", "collection", "hashset"})

_USING = re.compile(r"using[ \t]+[^\n;]*", re.IGNORECASE)
_PARAM = re.compile(r"param(?=[\s(#<])", re.IGNORECASE)
_ESCAPES = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
}


class _NotJson(Exception):
    """The expression is not a literal that JSON can hold."""


def parse(code: str, entrypoint: str = "main") -> Signature:
    """The script's own parameters; never raises. PowerShell has no entrypoint function."""
    try:
        return Signature(args=tuple(_arguments(plain_lines(code)[:_FARTHEST])))
    except Unreadable as unreadable:
        return Signature(problem=unreadable.problem)


def _arguments(code: str) -> Iterator[Argument]:
    block = _param_block(code)
    if block is None:
        return
    # Blank lines before it keep the author's line numbers. What follows the block cannot mislead the grammar then.
    blank = "\n" * block.line_index + " " * block.column_index
    root = recovered_tree(_POWERSHELL, blank + block.text).root_node
    found = next(children_of(root, "param_block"), None)
    if found is None or found.has_error:
        raise first_error(root, found)
    seen = set()
    for parameters in children_of(found, "parameter_list"):
        for parameter in children_of(parameters, "script_parameter"):
            argument = _argument(parameter)
            if argument.name and argument.name.lower() not in seen:
                seen.add(argument.name.lower())
                yield argument


# --- finding the param block ---


@dataclass(frozen=True, slots=True)
class _Block:
    text: str
    line_index: int  # from 0
    column_index: int


def _param_block(code: str) -> _Block | None:
    """The text from `param` to its closing parenthesis, which only comments, using and attributes may precede.

    None when there is none. Raises Unreadable when it has no end.
    """
    at = 0
    while True:
        at = _after_blank(code, at)
        if match := _USING.match(code, at):
            at = match.end()
        elif code.startswith("[", at) and (end := _after_brackets(code, at)) is not None:
            at = end
        else:
            break
    match = _PARAM.match(code, at)
    if match is None:
        return None
    opening = _after_blank(code, match.end())
    if not code.startswith("(", opening):
        return None
    line_index = code.count("\n", 0, at)
    column_index = at - (code.rfind("\n", 0, at) + 1)
    end = _after_brackets(code, opening)
    if end is None:
        raise Unreadable(
            Problem(
                line=line_index + 1,
                column=column_index + 1,
                message="The param block that begins here is not closed.",
            )
        )
    return _Block(code[at:end], line_index, column_index)


def _after_blank(code: str, at: int) -> int:
    """The place after white space and comments."""
    while at < len(code):
        if code[at].isspace() or code[at] == ";":
            at += 1
        elif code.startswith("`\n", at):
            at += 2
        elif code[at] == "#" or code.startswith("<#", at):
            at = _after_comment(code, at)
        else:
            break
    return at


def _after_comment(code: str, at: int) -> int:
    end, length = (code.find("#>", at + 2), 2) if code[at] == "<" else (code.find("\n", at), 0)
    return len(code) if end < 0 else end + length


_CLOSING = {"(": ")", "[": "]", "{": "}"}


def _after_brackets(code: str, at: int) -> int | None:
    """The place after the bracket that closes the one at `at`; None when there is none."""
    waiting: list[str] = []  # closing brackets, and '"' inside a text, in which only $( opens anything
    while at < len(code):
        char = code[at]
        if char == "`":
            at += 2
            continue
        if waiting and waiting[-1] == '"':
            if code.startswith('""', at):
                at += 2
            elif char == '"':
                waiting.pop()
                at += 1
            elif code.startswith("$(", at):
                waiting.append(")")
                at += 2
            else:
                at += 1
            continue
        if code.startswith(("@'\n", '@"\n'), at):
            end = code.find(f"\n{code[at + 1]}@", at + 2)
            at = len(code) if end < 0 else end + 3
            continue
        if char == "'":
            end = code.find("'", at + 1)  # two in a row are one text after the other to us
            at = len(code) if end < 0 else end + 1
            continue
        if code.startswith("<#", at) or (
            char == "#" and not (code[at - 1].isalnum() or code[at - 1] in "_$")
        ):
            at = _after_comment(code, at)
            continue
        if char == '"':
            waiting.append(char)
        elif char in _CLOSING:
            waiting.append(_CLOSING[char])
        elif waiting and char == waiting[-1]:
            waiting.pop()
            if not waiting:
                return at + 1
        at += 1
    return None


# --- reading a parameter ---


def _argument(parameter: Node) -> Argument:
    name, default_node, type_name = "", None, None
    admits_null, is_mandatory, description = False, False, ""
    choices: list[str] = []
    for part in _parts(parameter):
        if part.type in ("variable", "braced_variable"):
            name = _variable_name(part)
        elif part.type == "script_parameter_default":
            default_node = part.named_children[0] if part.named_children else None
        elif part.type == "type_literal":
            type_name = _type_name(part)
        elif part.type == "attribute":
            what = _type_name(part).lower().removesuffix("attribute")
            admits_null = admits_null or what in ("allownull", "allowemptystring")
            if what == "validateset":
                choices = _choices(part)
            elif what == "parameter":
                is_mandatory = is_mandatory or _is_mandatory(part)
                description = description or _help_message(part)
    if not is_storable(name):
        name = ""
    if type_name is not None and type_name.lower().startswith("nullable["):
        admits_null, type_name = True, type_name[len("nullable[") : -1]
    default = None if default_node is None else _default(default_node)
    typ = _typ(type_name, default)
    is_switch = type_name is not None and _last(type_name) in _SWITCHES
    if typ == TEXT and choices:
        typ = {"str": choices}
    elif typ == {"list": TEXT} and choices:
        typ = {"list": {"str": choices}}
    # PowerShell asks for a mandatory parameter even when there is a default.
    has_default = (default_node is not None or is_switch) and not is_mandatory
    return Argument(
        name=name,
        typ=typ,
        default=(False if is_switch and default_node is None else default) if has_default else None,
        has_default=has_default or admits_null,
        has_code_default=has_default,
        description=description,
    )


def _parts(parameter: Node) -> Iterator[Node]:
    """Attributes, types, the variable and the default, whatever they are wrapped in."""
    for child in parameter.named_children:
        if child.type == "attribute_list":
            for attribute in children_of(child, "attribute"):
                literal = next(children_of(attribute, "type_literal"), None)
                yield attribute if literal is None else literal
        else:
            yield child


def _variable_name(variable: Node) -> str:
    text = text_of(variable).removeprefix("$")
    if text.startswith("{"):
        text = text[1:-1]
    return text.rpartition(":")[2]  # $script:name


def _type_name(node: Node) -> str:
    """What stands between the brackets of [type] or before the arguments of [attribute(...)]."""
    text = "".join(text_of(node).split())
    if node.type == "attribute":
        return _unqualified(text.lstrip("[").partition("(")[0].rstrip("]"))
    return _unqualified(text[1:-1])


def _unqualified(name: str) -> str:
    head, bracket, rest = name.partition("[")
    return head.rpartition(".")[2] + bracket + rest


def _last(name: str) -> str:
    return _unqualified(name).lower()


def _typ(type_name: str | None, default: Any, depth: int = 0) -> Typ:
    if type_name is None:
        return _typ_of_value(default)
    name = _last(type_name)
    if depth > DEEPEST:
        return UNKNOWN
    if name == "byte[]":
        return "bytes"
    if name.endswith("[]"):
        return {"list": _typ(name[:-2], None, depth + 1)}
    head, bracket, inner = name.partition("[")
    if bracket and inner.endswith("]"):
        if head in _LISTS and "," not in inner:
            return {"list": _typ(inner[:-1], None, depth + 1)}
        return _typ(inner[:-1], None, depth + 1) if head == "nullable" else _PLAIN_TYPES.get(head, UNKNOWN)
    return _PLAIN_TYPES.get(name, UNKNOWN)


def _typ_of_value(value: Any) -> Typ:
    """The type that fits a default. Without one a parameter takes anything: most often that is text."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "int" if isinstance(value, int) else "float"
    if isinstance(value, dict):
        return _ANY_OBJECT
    if isinstance(value, list):
        return {"list": _typ_of_value(value[0]) if value else TEXT}
    return TEXT


def _attribute_arguments(attribute: Node) -> Iterator[Node]:
    for group in children_of(attribute, "attribute_arguments"):
        for one in group.named_children:
            yield _innermost(one)


def _choices(attribute: Node) -> list[str]:
    """Of a ValidateSet; none when they are not plain texts."""
    try:
        found = [_literal(one) for one in _attribute_arguments(attribute) if one.type != "attribute_argument"]
    except _NotJson:
        return []
    return list(dict.fromkeys(choice if isinstance(choice, str) else str(choice) for choice in found))


def _is_mandatory(attribute: Node) -> bool:
    for one in _attribute_arguments(attribute):
        name, _, value = "".join(text_of(one).split()).lower().partition("=")
        if name == "mandatory":
            return value in ("", "$true", "1")
    return False


def _help_message(attribute: Node) -> str:
    for one in _attribute_arguments(attribute):
        if one.type == "attribute_argument" and len(one.named_children) == 2:
            name, value = one.named_children
            if text_of(name).strip().lower() == "helpmessage":
                try:
                    message = _literal(value)
                except _NotJson:
                    return ""
                return message if isinstance(message, str) else ""
    return ""


# --- defaults ---


def _default(node: Node) -> Any:
    """The default as JSON; FUNCTION_CALL when only PowerShell can tell."""
    try:
        return _literal(node)
    except _NotJson:
        return FUNCTION_CALL


def _innermost(node: Node) -> Node:
    """The grammar wraps each expression into one node for each level of precedence."""
    while node.named_child_count == 1 and node.named_children[0].text == node.text:
        node = node.named_children[0]
    return node


def _literal(node: Node, depth: int = 0) -> Any:
    """The value of a literal. Raises _NotJson."""
    node = _innermost(node)
    if depth > DEEPEST:
        raise _NotJson
    text = text_of(node).strip()
    if node.type in ("decimal_integer_literal", "hexadecimal_integer_literal"):
        return _integer(text)
    if node.type == "real_literal":
        return _real(text)
    if node.type == "variable":
        constants = {"$true": True, "$false": False, "$null": None}
        if text.lower() in constants:
            return constants[text.lower()]
        raise _NotJson
    if node.type in ("verbatim_string_characters", "expandable_string_literal"):
        return _text(node, text)
    if node.type == "expression_with_unary_operator" and text[:1] == "-" and len(node.named_children) == 1:
        value = _literal(node.named_children[0], depth + 1)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _NotJson
        return -value
    if node.type == "array_expression":
        return _array(node, depth)
    if node.type == "hash_literal_expression":
        return _hashtable(node, depth)
    raise _NotJson


def _integer(text: str) -> int:
    try:
        value = int(text, 16 if text[:2].lower() == "0x" else 10)
    except ValueError:  # 10kb, 3L
        raise _NotJson from None
    if value > _LARGEST_INTEGER:
        raise _NotJson
    return value


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:  # 1.5d
        raise _NotJson from None
    if value == float("inf"):
        raise _NotJson
    return value


def _text(node: Node, text: str) -> str:
    if node.type == "verbatim_string_characters":
        value = text[1:-1].replace("''", "'")
    elif "$" in text:
        raise _NotJson
    else:
        value = re.sub(r"`(.)|\"\"", _unescaped, text[1:-1], flags=re.DOTALL)
    if not is_storable(value):
        raise _NotJson
    return value


def _unescaped(match: re.Match[str]) -> str:
    return '"' if match[1] is None else _ESCAPES.get(match[1], match[1])


def _array(node: Node, depth: int) -> list[Any]:
    if not node.named_children:
        return []
    content = _innermost(node.named_children[0])
    items = content.named_children if content.type == "array_literal_expression" else [content]
    return [_literal(item, depth + 1) for item in items]


def _hashtable(node: Node, depth: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for body in children_of(node, "hash_literal_body"):
        for entry in children_of(body, "hash_entry"):
            if len(entry.named_children) != 2:
                raise _NotJson
            key_node, value = (_innermost(part) for part in entry.named_children)
            key = text_of(key_node) if key_node.type == "simple_name" else _literal(key_node, depth + 1)
            if not isinstance(key, str) or not is_storable(key):
                raise _NotJson
            values[key] = _literal(value, depth + 1)
    return values
