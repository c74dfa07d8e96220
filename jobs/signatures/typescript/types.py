"""Type annotations of TypeScript to the types of a form."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tree_sitter import Node

from jobs.signatures.signature import TEXT, UNKNOWN, Typ
from jobs.signatures.syntax_trees import text_of
from jobs.signatures.typescript.literals import NotJson, number_value, property_name, string_value
from jobs.signatures.typescript.module import Module

# Fields and choices of all types in one signature; types that use each other twice grow as 2^n.
_MOST_TYPE_PARTS = 10_000
_DEEPEST_TYPE = 12

_ANY_OBJECT: Typ = {"object": {"name": None, "props": []}}
_PREDEFINED: dict[str, Typ] = {
    "number": "float",
    "string": TEXT,
    "boolean": "bool",
    "bigint": "int",
    "object": _ANY_OBJECT,
}
_NAMED: dict[str, Typ] = {
    "bigint": "int",
    "Date": "datetime",
    "Base64": "bytes",
    "Email": "email",
    "Sql": "sql",
    "Number": "float",
    "String": TEXT,
    "Boolean": "bool",
    "Object": _ANY_OBJECT,
}
_DYNAMIC = {"DynSelect_": "dynselect", "DynMultiselect_": "dynmultiselect"}
_LISTS = frozenset({"Array", "ReadonlyArray"})
_SAME_FIELDS = frozenset({"Partial", "Required", "Readonly", "NonNullable"})  # of their argument
_NOTHING = frozenset({"null", "undefined", "void"})
_DISCRIMINATORS = frozenset({"label", "kind"})

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_Props = list[dict[str, Any]]  # [{"key": str, "typ": Typ}]


@dataclass(slots=True)
class TypeReader:
    """Reads the annotations of one function."""

    module: Module
    function: Node
    _parts_left: int = _MOST_TYPE_PARTS
    _open: list[str] = field(default_factory=list)  # declared types whose inside is being read
    _generics: dict[str, Node | None] = field(default_factory=dict)  # type parameter -> what it extends

    def __post_init__(self) -> None:
        self._generics = dict(_type_parameters(self.function))

    def typ(self, node: Node | None, depth: int = 0) -> tuple[Typ, bool]:
        """The type an annotation stands for, and whether it admits null or undefined."""
        self._parts_left -= 1
        if node is None or depth > _DEEPEST_TYPE or self._parts_left < 0:
            return UNKNOWN, False
        match node.type:
            case "predefined_type":
                name = text_of(node)
                return _PREDEFINED.get(name, UNKNOWN), name in _NOTHING
            case "literal_type":
                return _literal(node)
            case "undefined":
                return UNKNOWN, True
            case "parenthesized_type" | "readonly_type":
                return self.typ(_inner(node), depth + 1)
            case "array_type":
                return {"list": self.typ(_inner(node), depth + 1)[0]}, False
            case "union_type":
                return self._union(node, depth)
            case "object_type":
                return {"object": {"name": None, "props": self._props(node, depth)}}, False
            case "intersection_type":
                return self._intersection(node, depth), False
            case "template_literal_type":
                return TEXT, False
            case "type_identifier":
                return self._named(text_of(node), depth)
            case "nested_type_identifier":
                return self._of_a_namespace(node), False
            case "generic_type":
                return self._generic(node, depth)
        return UNKNOWN, False

    def enum_value(self, enum: str, member: str) -> str | int | float | None:
        """The value of `enum.member`; None when the module has no such enum or member."""
        declaration = self.module.types.get(enum)
        if declaration is None or declaration.type != "enum_declaration":
            return None
        return _enum_members(declaration).get(member)

    # Names

    def _named(self, name: str, depth: int) -> tuple[Typ, bool]:
        if name in self._generics:
            return self.typ(self._generics[name], depth + 1)
        if name in self.module.types:
            return self._declared(name, depth)
        return (UNKNOWN, True) if name in _NOTHING else (_known_or_resource(name), False)

    def _of_a_namespace(self, node: Node) -> Typ:
        """`RT.Postgresql`, `wmill.S3Object`, or the member of an enum."""
        module, name = node.child_by_field_name("module"), node.child_by_field_name("name")
        if module is None or name is None:
            return UNKNOWN
        value = self.enum_value(text_of(module), text_of(name))
        if isinstance(value, str):
            return {"str": [value]}
        return _known_or_resource(text_of(name)) if value is None else "float"

    def _generic(self, node: Node, depth: int) -> tuple[Typ, bool]:
        named = node.child_by_field_name("name")
        arguments = node.child_by_field_name("type_arguments")
        first = arguments.named_child(0) if arguments is not None else None
        name = text_of(named) if named is not None else ""
        if name in self.module.types:
            return self._declared(name, depth)
        if name in _LISTS:
            return {"list": self.typ(first, depth + 1)[0]}, False
        if name in _SAME_FIELDS:
            return self.typ(first, depth + 1)
        return self.typ(named, depth + 1)

    def _declared(self, name: str, depth: int) -> tuple[Typ, bool]:
        if name in self._open:  # a type with fields of its own type
            return UNKNOWN, False
        declaration = self.module.types[name]
        if declaration.type == "enum_declaration":
            return self._enum(name, declaration), False
        outer, self._generics = self._generics, self._generics | dict(_type_parameters(declaration))
        self._open.append(name)
        if declaration.type == "interface_declaration":
            found: tuple[Typ, bool] = (
                {"object": {"name": None, "props": self._interface(declaration, depth)}},
                False,
            )
        else:
            found = self.typ(declaration.child_by_field_name("value"), depth + 1)
        self._open.pop()
        self._generics = outer
        typ, admits_none = found
        if isinstance(typ, dict) and "object" in typ and typ["object"]["name"] is None:
            typ = {"object": {"name": snake_case(name), "props": typ["object"]["props"]}}
        return typ, admits_none

    def _enum(self, name: str, declaration: Node) -> Typ:
        values = list(_enum_members(declaration).values())
        choices = list(dict.fromkeys(value for value in values if isinstance(value, str)))
        self._parts_left -= len(choices)
        if choices:
            return {"str": choices} if self._parts_left >= 0 else TEXT
        return (
            "int"
            if values and all(isinstance(value, int) for value in values)
            else {"resource": snake_case(name)}
        )

    # Objects

    def _interface(self, declaration: Node, depth: int) -> _Props:
        props: dict[str, Typ] = {}
        for clause in declaration.named_children:
            for base in clause.named_children if clause.type == "extends_type_clause" else ():
                props |= {prop["key"]: prop["typ"] for prop in self._props_of(self.typ(base, depth + 1)[0])}
        props |= {
            prop["key"]: prop["typ"] for prop in self._props(declaration.child_by_field_name("body"), depth)
        }
        return [{"key": key, "typ": typ} for key, typ in props.items()]

    def _props(self, body: Node | None, depth: int) -> _Props:
        """The fields between the braces; methods and index signatures are none."""
        props: dict[str, Typ] = {}
        for member in body.named_children if body is not None else ():
            name = member.child_by_field_name("name")
            if member.type != "property_signature" or name is None or self._parts_left < 0:
                continue
            annotation = member.child_by_field_name("type")
            try:
                key = property_name(name)
            except NotJson:
                continue
            props[key] = self.typ(_inner(annotation), depth + 1)[0] if annotation is not None else UNKNOWN
        return [{"key": key, "typ": typ} for key, typ in props.items()]

    def _intersection(self, node: Node, depth: int) -> Typ:
        """All fields of all members; unknown when one of them is not an object."""
        props: dict[str, Typ] = {}
        for member in _members(node, "intersection_type"):
            typ = self.typ(member, depth + 1)[0]
            if not (isinstance(typ, dict) and "object" in typ):
                return UNKNOWN
            props |= {prop["key"]: prop["typ"] for prop in self._props_of(typ)}
        return {"object": {"name": None, "props": [{"key": key, "typ": typ} for key, typ in props.items()]}}

    def _props_of(self, typ: Typ) -> _Props:
        found: _Props = typ["object"]["props"] if isinstance(typ, dict) and "object" in typ else []
        return found

    # Unions

    def _union(self, node: Node, depth: int) -> tuple[Typ, bool]:
        admits_none = False
        found: list[Typ] = []
        for member in _members(node, "union_type"):
            typ, is_none = self.typ(member, depth + 1)
            admits_none = admits_none or is_none
            if not (is_none and typ == UNKNOWN):
                found.append(typ)
        return self._one_typ(found), admits_none

    def _one_typ(self, members: list[Typ]) -> Typ:
        """What a form can show for a choice of types: one kind of field, a choice of texts or of objects."""
        if not members:
            return UNKNOWN
        if all(member == members[0] for member in members):
            return members[0]
        texts = [member["str"] for member in members if isinstance(member, dict) and "str" in member]
        if len(texts) == len(members):  # any text will do when one of them is `string`
            return (
                TEXT
                if None in texts
                else {"str": list(dict.fromkeys(choice for text in texts for choice in text))}
            )
        for discriminator in (
            prop["key"] for prop in self._props_of(members[0]) if prop["key"] in _DISCRIMINATORS
        ):
            labels = [_label(member, discriminator) for member in members]
            if None not in labels and len(set(labels)) == len(labels):
                variants = zip(labels, members, strict=True)
                return {
                    "oneof": [{"label": label, "properties": self._props_of(typ)} for label, typ in variants]
                }
        return UNKNOWN


def snake_case(name: str) -> str:
    """How resource types are named: "S3Object" -> "s3_object", "HTTPServer" -> "http_server"."""
    words = "_".join(_WORDS.split(name)).lower().split("_")
    return "_".join(filter(None, words)) or name


def _known_or_resource(name: str) -> Typ:
    if name in _NAMED:
        return _NAMED[name]
    for prefix, kind in _DYNAMIC.items():
        if name.startswith(prefix):
            return {kind: name.removeprefix(prefix)}
    return {"resource": snake_case(name)}


def _literal(node: Node) -> tuple[Typ, bool]:
    value = _inner(node)
    if value is None:
        return UNKNOWN, False
    if value.type == "string":
        try:
            return {"str": [string_value(value)]}, False
        except NotJson:
            return TEXT, False
    if value.type in ("number", "unary_expression"):
        return "float", False
    return ("bool" if value.type in ("true", "false") else UNKNOWN), value.type in _NOTHING


def _label(typ: Typ, discriminator: str) -> str | None:
    """The one text that this variant has in its discriminating field."""
    if not (isinstance(typ, dict) and "object" in typ):
        return None
    for prop in typ["object"]["props"]:
        if prop["key"] == discriminator and isinstance(prop["typ"], dict):
            choices = prop["typ"].get("str") or []
            return choices[0] if len(choices) == 1 else None
    return None


def _inner(node: Node) -> Node | None:
    return next((child for child in node.named_children if child.type != "comment"), None)


def _members(node: Node, kind: str) -> Iterator[Node]:
    """The members of `A | B | C`, which the tree holds as `(A | B) | C`; no recursion, unions can be long."""
    waiting = [node]
    while waiting:
        member = waiting.pop()
        while member.type == "parenthesized_type" and (inner := _inner(member)) is not None:
            member = inner
        if member.type == kind:
            waiting += reversed([child for child in member.named_children if child.type != "comment"])
        else:
            yield member


def _type_parameters(declaration: Node) -> Iterator[tuple[str, Node | None]]:
    parameters = declaration.child_by_field_name("type_parameters")
    for parameter in parameters.named_children if parameters is not None else ():
        name, constraint = parameter.child_by_field_name("name"), parameter.child_by_field_name("constraint")
        if name is not None:
            yield text_of(name), _inner(constraint) if constraint is not None else None


def _enum_members(declaration: Node) -> dict[str, str | int | float]:
    """Member name -> value; members whose value has to be computed are left out."""
    members: dict[str, str | int | float] = {}
    previous: str | int | float | None = -1
    body = declaration.child_by_field_name("body")
    for member in body.named_children if body is not None else ():
        if member.type == "comment":
            continue
        try:
            previous = _enum_member_value(member, previous)
            name = property_name(member.child_by_field_name("name") or member)
        except NotJson:
            previous = None
            continue
        members[name] = previous
    return members


def _enum_member_value(member: Node, previous: str | int | float | None) -> str | int | float:
    """One more than the previous member's value, unless it says another. Raises NotJson for a computed one."""
    value = member.child_by_field_name("value")
    if value is not None:
        return string_value(value) if value.type == "string" else number_value(value)
    if previous is None or isinstance(previous, str):
        raise NotJson
    return previous + 1
