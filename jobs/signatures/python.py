"""The signature of a Python script, read from its syntax tree; the script is never executed."""

import ast
import base64
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jobs.signatures.docstrings import parameter_descriptions
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

_LONGEST_SOURCE = 1_000_000  # characters; larger ones would hold a web worker for seconds
_LARGEST_INTEGER = 2**53 - 1  # what a browser's numbers hold exactly
# Fields and choices of all classes in one signature; classes that use each other twice grow as 2^n.
_MOST_CLASS_PARTS = 10_000
_DEEPEST_TYPE = 12

_PLAIN_TYPES: dict[str, Typ] = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": TEXT,
    "bytes": "bytes",
    "datetime": "datetime",
    "date": "date",
    "Sql": "sql",
    "S3Object": {"resource": "s3_object"},
    "list": {"list": TEXT},
    "List": {"list": TEXT},
    "dict": {"object": {"name": None, "props": []}},
    "Dict": {"object": {"name": None, "props": []}},
    # Python's own types that no resource type can be named after
    "object": UNKNOWN,
    "tuple": UNKNOWN,
    "Tuple": UNKNOWN,
    "set": UNKNOWN,
    "Set": UNKNOWN,
    "frozenset": UNKNOWN,
    "FrozenSet": UNKNOWN,
    "complex": UNKNOWN,
    "Optional": UNKNOWN,
    "Union": UNKNOWN,
    "Literal": UNKNOWN,
}  # fmt: skip
_LISTS = frozenset({"list", "List", "Sequence", "MutableSequence", "Iterable", "Collection"})
_DICTS = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict", "OrderedDict"})
_WRAPPERS = frozenset({"Annotated", "Final", "Required", "NotRequired", "ReadOnly"})
_TYPING_MODULES = frozenset(
    {"typing", "typing_extensions", "collections", "collections.abc", "datetime", "builtins"}
)
_RENAMED_FROM = _TYPING_MODULES | {"wmill", "enum", "pydantic", "dataclasses"}

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _NotJson(Exception):
    """The expression is not a literal that JSON can hold."""


def parse(code: str, entrypoint: str = "main") -> Signature:
    """The signature of the first module-level function named `entrypoint`; never raises."""
    if len(code) > _LONGEST_SOURCE:
        return _unreadable(1, 1, f"The script is longer than {_LONGEST_SOURCE:,} characters.")
    source = code.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        return _Module(ast.parse(source)).signature(entrypoint)
    except SyntaxError as exc:
        # A line counts from 1 even when the error has no place, such as at the end of an empty file.
        line, column = max(exc.lineno or 1, 1), max(exc.offset or 1, 1)
        return _unreadable(line, column, _sentence(exc.msg))
    except UnicodeEncodeError as exc:
        before = source[: exc.start]
        column = exc.start - before.rfind("\n")
        return _unreadable(before.count("\n") + 1, column, "A character here is not valid Unicode text.")
    except ValueError as exc:  # a NUL byte, on the Python versions that do not call it a syntax error
        return _unreadable(1, 1, _sentence(str(exc)))
    except (RecursionError, MemoryError):
        return _unreadable(1, 1, "The script is nested too deeply to be read.")


def _unreadable(line: int, column: int, message: str) -> Signature:
    return Signature(problem=Problem(line=line, column=column, message=message))


def _sentence(text: str) -> str:
    text = text.replace("\x00", "").encode("utf-8", "replace").decode() or "invalid syntax"
    return text[0].upper() + text[1:].rstrip(".") + "."


@dataclass(slots=True)
class _Module:
    """A parsed script, with the names that its annotations may use."""

    tree: ast.Module
    classes: dict[str, ast.ClassDef] = field(init=False)
    imported: dict[str, str] = field(init=False)  # local name -> dotted name it stands for
    _parts_left: int = _MOST_CLASS_PARTS
    _open_classes: list[ast.ClassDef] = field(default_factory=list)  # whose fields are being read

    def __post_init__(self) -> None:
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}
        self.imported = dict(_imported_names(self.tree))

    def signature(self, entrypoint: str) -> Signature:
        functions = [node for node in self.tree.body if isinstance(node, _Function)]
        has_preprocessor = any(function.name == "preprocessor" for function in functions)
        function = next((function for function in functions if function.name == entrypoint), None)
        if function is None:
            return Signature(auto_kind="lib", has_preprocessor=has_preprocessor)
        return Signature(
            args=tuple(self._arguments(function)),
            star_args=function.args.vararg is not None,
            star_kwargs=function.args.kwarg is not None,
            has_preprocessor=has_preprocessor,
        )

    def _arguments(self, function: _Function) -> Iterator[Argument]:
        spec = function.args
        descriptions = parameter_descriptions(ast.get_docstring(function, clean=False))
        positional = [*spec.posonlyargs, *spec.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults))
        defaults += [*spec.defaults, *spec.kw_defaults]
        parameters = zip([*positional, *spec.kwonlyargs], defaults, strict=True)
        for number, (parameter, default) in enumerate(parameters):
            yield self._argument(
                parameter,
                default,
                is_positional_only=number < len(spec.posonlyargs),
                description=descriptions.get(parameter.arg, ""),
            )

    def _argument(
        self, parameter: ast.arg, default: ast.expr | None, *, is_positional_only: bool, description: str
    ) -> Argument:
        typ, admits_none = UNKNOWN, False
        if parameter.annotation is not None:
            typ, admits_none = self._typ(parameter.annotation)
        value = None
        if default is not None:
            if typ == UNKNOWN:
                typ = self._typ_of_default(default)
            elif typ == _PLAIN_TYPES["list"] and not isinstance(parameter.annotation, ast.Subscript):
                items = self._typ_of_default(default)  # a bare `list` leaves that open
                typ = items if isinstance(items, dict) and "list" in items else typ
            value = self._default(default)
        return Argument(
            name=parameter.arg,
            typ=typ,
            default=value,
            has_default=default is not None or admits_none,
            has_code_default=default is not None,
            is_positional_only=is_positional_only,
            description=description,
        )

    # Types

    def _typ(self, node: ast.expr, depth: int = 0) -> tuple[Typ, bool]:
        """The type an annotation stands for, and whether it admits None."""
        if depth > _DEEPEST_TYPE:
            return UNKNOWN, False
        if isinstance(node, ast.Constant):
            if node.value is None:
                return UNKNOWN, True
            if isinstance(node.value, str):
                return self._quoted_typ(node.value, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union(_union_members(node), depth)
        if isinstance(node, ast.Subscript):
            return self._subscripted_typ(node, depth)
        name = self._dotted_name(node)
        return (UNKNOWN if name is None else self._named_typ(name, depth)), False

    def _quoted_typ(self, text: str, depth: int) -> tuple[Typ, bool]:
        try:
            return self._typ(ast.parse(text.strip(), mode="eval").body, depth + 1)
        except (SyntaxError, ValueError):
            return UNKNOWN, False

    def _named_typ(self, name: str, depth: int) -> Typ:
        module, _, last = name.rpartition(".")
        if not module and name in self.classes:
            return self._class_typ(self.classes[name], depth)
        if module == "wmill":
            return {"resource": "s3_object" if last == "S3Object" else last}
        if module and module not in _TYPING_MODULES:
            return UNKNOWN
        for prefix, kind in (("DynSelect_", "dynselect"), ("DynMultiselect_", "dynmultiselect")):
            if last.startswith(prefix):
                return {kind: last.removeprefix(prefix)}
        return _PLAIN_TYPES.get(last, {"resource": last})

    def _subscripted_typ(self, node: ast.Subscript, depth: int) -> tuple[Typ, bool]:
        name = self._last_name(node.value)
        members = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Optional":
            return self._union([node.slice, ast.Constant(value=None)], depth)
        if name == "Union":
            return self._union(members, depth)
        if name == "Literal":
            return _literal_typ(members)
        if name in _WRAPPERS and members:
            return self._typ(members[0], depth + 1)
        if name in _LISTS and members:
            return {"list": self._item_typ(members[0], depth + 1)}, False
        return UNKNOWN, False

    def _item_typ(self, node: ast.expr, depth: int) -> Typ:
        if isinstance(node, ast.Subscript):
            name = self._last_name(node.value)
            if name in _DICTS:  # a list of records, which the form can show as one
                return {"object": {"name": None, "props": []}}
        return self._typ(node, depth)[0]

    def _union(self, members: list[ast.expr], depth: int) -> tuple[Typ, bool]:
        """The first member that is not None; the form has one field, and one kind of field."""
        found: Typ | None = None
        admits_none = False
        for member in members:
            if isinstance(member, ast.Constant) and member.value is None:
                admits_none = True
                continue
            if found is None:
                found, nested_none = self._typ(member, depth + 1)
                admits_none = admits_none or nested_none
        return (UNKNOWN if found is None else found), admits_none

    def _class_typ(self, node: ast.ClassDef, depth: int) -> Typ:
        bases = self._bases(node)
        if bases & {"Enum", "StrEnum", "IntEnum"}:
            values = list(self._enum_members(node).values())
            if values and all(isinstance(value, int) for value in values):
                return "int"
            choices = [value for value in values if isinstance(value, str)]
            self._parts_left -= len(choices)
            if self._parts_left < 0:
                return TEXT
            return {"str": list(dict.fromkeys(choices))} if choices else {"resource": node.name}
        if "BaseModel" in bases or self._is_dataclass(node):
            if node in self._open_classes:  # a class with fields of its own type
                return UNKNOWN
            self._open_classes.append(node)
            props = self._fields(node, depth, is_model="BaseModel" in bases)
            self._open_classes.pop()
            return {"object": {"name": node.name, "props": [{"key": k, "typ": t} for k, t in props.items()]}}
        return {"resource": node.name}

    def _bases(self, node: ast.ClassDef) -> set[str]:
        """Last names of all ancestors that can be told from this module."""
        found: set[str] = set()
        waiting = [node]
        while waiting:
            for base in waiting.pop().bases:
                name = self._last_name(base)
                if name and name not in found:
                    found.add(name)
                    if name in self.classes:
                        waiting.append(self.classes[name])
        return found

    def _is_dataclass(self, node: ast.ClassDef) -> bool:
        decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
        return any(self._last_name(d) == "dataclass" for d in decorators)

    def _fields(self, node: ast.ClassDef, depth: int, *, is_model: bool) -> dict[str, Typ]:
        self._parts_left -= 1
        if depth > _DEEPEST_TYPE or self._parts_left < 0:
            return {}
        props: dict[str, Typ] = {}
        for base in node.bases:
            parent = self.classes.get(base.id) if isinstance(base, ast.Name) else None
            if parent is not None:
                props |= self._fields(parent, depth + 1, is_model=is_model)
        for statement in node.body:
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            name, annotation = statement.target.id, statement.annotation
            wrapper = annotation.value if isinstance(annotation, ast.Subscript) else annotation
            is_private = is_model and name.startswith("_")
            if is_private or self._last_name(wrapper) == "ClassVar":
                continue
            self._parts_left -= 1
            if self._parts_left < 0:
                break
            props[name] = self._typ(annotation, depth + 1)[0]
        return props

    def _enum_members(self, node: ast.ClassDef) -> dict[str, str | int]:
        """Member name -> value, for the values that are text or whole numbers."""
        members: dict[str, str | int] = {}
        is_text = "StrEnum" in self._bases(node)
        for statement in node.body:
            names, value = _assigned_names(statement)
            if value is None:
                continue
            if is_text and isinstance(value, ast.Call) and self._last_name(value.func) == "auto":
                members |= {name: name.lower() for name in names}
                continue
            try:
                literal = _json_literal(value)
            except _NotJson:
                continue
            if isinstance(literal, str | int) and not isinstance(literal, bool):
                members |= {name: literal for name in names if not name.startswith("_")}
        return members

    def _dotted_name(self, node: ast.expr) -> str | None:
        """`a.b.C`, with the first part replaced by what it was imported as; None for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        parts.append(self.imported.get(node.id, node.id))
        return ".".join(reversed(parts))

    def _last_name(self, node: ast.expr) -> str:
        return (self._dotted_name(node) or "").rpartition(".")[2]

    # Defaults

    def _default(self, node: ast.expr) -> Any:
        """The JSON value of a default; None when it has none, FUNCTION_CALL when only a call can tell."""
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            return base64.b64encode(node.value).decode()  # how bytes arguments travel
        if isinstance(node, ast.Attribute):
            return self._enum_value(node)
        if isinstance(node, ast.Call):
            return FUNCTION_CALL
        if isinstance(node, ast.List) and node.elts and all(isinstance(e, ast.Attribute) for e in node.elts):
            values = [self._default(element) for element in node.elts]
            return None if None in values else values
        try:
            return _json_literal(node)
        except _NotJson:
            return None

    def _enum_value(self, node: ast.Attribute) -> str | int | None:
        if node.attr == "value" and isinstance(node.value, ast.Attribute):
            node = node.value
        if not isinstance(node.value, ast.Name) or node.value.id not in self.classes:
            return None
        enum = self.classes[node.value.id]
        if not self._bases(enum) & {"Enum", "StrEnum", "IntEnum"}:
            return None
        return self._enum_members(enum).get(node.attr)

    def _typ_of_default(self, node: ast.expr) -> Typ:
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            return "bytes"
        if isinstance(node, ast.Attribute):
            return _typ_of_value(self._enum_value(node))
        try:
            return _typ_of_value(_json_literal(node))
        except _NotJson:
            return UNKNOWN


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.asname:
                    yield alias.asname, alias.name
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            for alias in statement.names:
                if alias.asname and statement.module in _RENAMED_FROM:
                    # As if imported by its own name: `from typing import List as L` makes L mean List.
                    yield alias.asname, alias.name


def _union_members(node: ast.expr) -> list[ast.expr]:
    members: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        members.append(node.right)
        node = node.left
    return [node, *reversed(members)]


def _literal_typ(members: list[ast.expr]) -> tuple[Typ, bool]:
    values = [member.value for member in members if isinstance(member, ast.Constant)]
    choices = [value for value in values if isinstance(value, str) and is_storable(value)]
    return ({"str": list(dict.fromkeys(choices))} if choices else TEXT), None in values


def _assigned_names(statement: ast.stmt) -> tuple[list[str], ast.expr | None]:
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)], statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id], statement.value
    return [], None


def _json_literal(node: ast.expr) -> Any:
    """The JSON value of a literal expression. Raises _NotJson for whatever JSON would change or lose.

    Tuples, sets and dicts with other keys than text are among those: the script would get another
    type than its own default has.
    """
    if isinstance(node, ast.Constant):
        return _json_constant(node.value)
    if isinstance(node, ast.List):
        return [_json_literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        keys = [_json_literal(key) if key is not None else None for key in node.keys]
        if not all(isinstance(key, str) for key in keys):
            raise _NotJson
        return dict(zip(keys, map(_json_literal, node.values), strict=True))
    if isinstance(node, ast.UnaryOp):
        operand = _json_literal(node.operand)
        if isinstance(node.op, ast.Not) and isinstance(operand, bool):
            return not operand
        if isinstance(node.op, ast.USub | ast.UAdd) and _is_number(operand):
            return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp):  # 60 * 60, 10 * 1024
        left, right = _json_literal(node.left), _json_literal(node.right)
        if _is_number(left) and _is_number(right):
            if isinstance(node.op, ast.Mult):
                return _json_constant(left * right)
            if isinstance(node.op, ast.Add):
                return _json_constant(left + right)
            if isinstance(node.op, ast.Sub):
                return _json_constant(left - right)
    raise _NotJson


def _json_constant(value: object) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= _LARGEST_INTEGER:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str) and is_storable(value):
        return value
    raise _NotJson


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
        item = _typ_of_value(value[0]) if value else TEXT
        return {"list": TEXT if item == UNKNOWN else item}
    if isinstance(value, dict):
        props = [{"key": key, "typ": _typ_of_value(item)} for key, item in value.items()]
        return {"object": {"name": None, "props": props}}
    return UNKNOWN
