"""The signature of a Go script: the parameters of its function, with the structs that the file declares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import tree_sitter_go
from tree_sitter import Language, Node

from jobs.signatures.signature import TEXT, UNKNOWN, Argument, Signature, Typ
from jobs.signatures.syntax_trees import (
    DEEPEST,
    Unreadable,
    children_of,
    first_error,
    recovered_tree,
    text_of,
    unreadable_at,
)

_GO = Language(tree_sitter_go.language())
_MOST_FIELDS = 10_000  # of all structs in one signature; structs that use each other twice grow as 2^n

_PLAIN_TYPES: dict[str, Typ] = {
    "string": TEXT,
    "bool": "bool",
    **dict.fromkeys(("float32", "float64"), "float"),
    **dict.fromkeys(
        (
            "int",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "byte",
            "rune",
        ),
        "int",
    ),
    "any": UNKNOWN,
    "error": UNKNOWN,
    "time.Time": "datetime",
    "json.Number": "float",
    "json.RawMessage": UNKNOWN,
}
_ANY_OBJECT: Typ = {"object": {"name": None, "props": []}}
_JSON_TAG = re.compile(r'(?:^|\s)json:"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a call of a script's entrypoint is made of."""

    package: str
    package_line: int  # from 1
    parameters: tuple[str, ...]  # names; "" and "_": the function does not use it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    name: str
    type_node: Node
    is_variadic: bool


def parse(code: str, entrypoint: str = "main") -> Signature:
    """The signature of the function `entrypoint`; never raises."""
    try:
        root = recovered_tree(_GO, code).root_node
        function = _function(root, entrypoint)
        if function is None:
            return Signature(auto_kind="lib")
        return Signature(args=tuple(_File(root).arguments(function)))
    except Unreadable as unreadable:
        return Signature(problem=unreadable.problem)


def entry(code: str, entrypoint: str = "main") -> Entry | None:
    """How `entrypoint` is called; None when there is no such function. Raises Unreadable."""
    root = recovered_tree(_GO, code).root_node
    function = _function(root, entrypoint)
    if function is None:
        return None
    clause = next(children_of(root, "package_clause"), None)
    return Entry(
        package=text_of(clause.named_children[0]) if clause and clause.named_children else "",
        package_line=clause.start_point.row + 1 if clause else 1,
        parameters=tuple(parameter.name for parameter in _parameters(function)),
    )


def imported_packages(code: str) -> list[str]:
    """Import paths in the order of the code, each once. Never raises."""
    try:
        root = recovered_tree(_GO, code).root_node
    except Unreadable:
        return []
    found = []
    for declaration in children_of(root, "import_declaration"):
        specs = [*children_of(declaration, "import_spec")]
        for group in children_of(declaration, "import_spec_list"):
            specs += children_of(group, "import_spec")
        found += [text_of(spec.child_by_field_name("path"))[1:-1] for spec in specs]
    return [path for path in dict.fromkeys(found) if path]


def _function(root: Node, name: str) -> Node | None:
    """The function's declaration, read without errors up to its body. Raises Unreadable.

    An error elsewhere may be a word of the language that is newer than the grammar: the compiler knows better.
    """
    for function in children_of(root, "function_declaration"):
        if text_of(function.child_by_field_name("name")) != name:
            continue
        body = function.child_by_field_name("body")
        for part in function.children:
            if part.has_error and part != body:
                raise first_error(root, part)
        if body is None or body.children[-1].is_missing:
            if root.has_error:
                raise first_error(root)
            raise unreadable_at(root, function.start_byte, f"The function {name} has no body.")
        return function
    if root.has_error:
        raise first_error(root)
    return None


def _parameters(function: Node) -> Iterator[_Parameter]:
    declared = function.child_by_field_name("parameters")
    for declaration in declared.named_children if declared else ():
        type_node = declaration.child_by_field_name("type")
        if type_node is None:  # a comment
            continue
        names = declaration.children_by_field_name("name")
        for name in [text_of(name) for name in names] or [""]:
            yield _Parameter(
                name=name,
                type_node=type_node,
                is_variadic=declaration.type == "variadic_parameter_declaration",
            )


@dataclass(slots=True)
class _File:
    """A parsed script, with the types that it declares."""

    root: Node
    declared: dict[str, Node] = field(init=False)  # type by name
    _fields_left: int = _MOST_FIELDS
    _open: list[str] = field(default_factory=list)  # named types that are being read

    def __post_init__(self) -> None:
        self.declared = {}
        for declaration in children_of(self.root, "type_declaration"):
            for spec in children_of(declaration, "type_spec", "type_alias"):
                what = spec.child_by_field_name("type")
                if what is not None and spec.child_by_field_name("type_parameters") is None:
                    self.declared[text_of(spec.child_by_field_name("name"))] = what

    def arguments(self, function: Node) -> Iterator[Argument]:
        seen = set()
        for parameter in _parameters(function):
            if parameter.name in ("", "_") or parameter.name in seen:
                continue
            seen.add(parameter.name)
            typ = self._typ(parameter.type_node)
            if parameter.is_variadic:
                typ = {"list": typ}
            admits_nil = parameter.is_variadic or parameter.type_node.type == "pointer_type"
            yield Argument(name=parameter.name, typ=typ, has_default=admits_nil)

    def _typ(self, node: Node | None, depth: int = 0) -> Typ:
        if node is None or depth > DEEPEST:
            return UNKNOWN
        if node.type in ("type_identifier", "qualified_type"):
            return self._named(text_of(node), depth)
        if node.type in ("pointer_type", "parenthesized_type") and node.named_children:
            return self._typ(node.named_children[0], depth + 1)
        if node.type in ("slice_type", "array_type"):
            element = node.child_by_field_name("element")
            if text_of(element) in ("byte", "uint8") and node.type == "slice_type":
                return "bytes"
            return {"list": self._typ(element, depth + 1)}
        if node.type == "map_type":
            return _ANY_OBJECT
        if node.type == "struct_type":
            return {"object": {"name": None, "props": self._props(node, depth)}}
        return UNKNOWN

    def _named(self, name: str, depth: int) -> Typ:
        what = self.declared.get(name)
        if what is None:
            return _PLAIN_TYPES.get(name, UNKNOWN)
        if name in self._open:  # a struct with fields of its own type
            return UNKNOWN
        self._open.append(name)
        typ = self._typ(what, depth + 1)
        self._open.pop()
        return typ

    def _props(self, struct: Node, depth: int) -> list[dict[str, Typ | str]]:
        """What encoding/json reads into the struct: exported fields, by the names of their tags."""
        props: dict[str, Typ] = {}
        for fields in children_of(struct, "field_declaration_list"):
            for one in children_of(fields, "field_declaration"):
                self._add_field(one, props, depth)
        return [{"key": key, "typ": typ} for key, typ in props.items()]

    def _add_field(self, one: Node, props: dict[str, Typ], depth: int) -> None:
        type_node = one.child_by_field_name("type")
        tag = _JSON_TAG.search(_tag_text(one))
        renamed = tag[1].partition(",")[0] if tag else ""
        if tag and tag[1] == "-":
            return
        names = [text_of(name) for name in one.children_by_field_name("name")]
        self._fields_left -= max(len(names), 1)
        if self._fields_left < 0:
            return
        typ = self._typ(type_node, depth + 1)
        if not names:  # embedded: its fields are as good as this struct's own
            if not renamed and isinstance(typ, dict) and "object" in typ:
                for prop in typ["object"]["props"]:
                    props.setdefault(prop["key"], prop["typ"])
                return
            names = [text_of(type_node).lstrip("*").rpartition(".")[2]]
        for name in names:
            if name[:1].isupper():
                props[renamed or name] = typ


def _tag_text(one: Node) -> str:
    text = text_of(one.child_by_field_name("tag"))
    if text.startswith('"'):
        return text[1:-1].replace('\\"', '"')
    return text[1:-1]
