"""The parameters of a TypeScript function as arguments of a form."""

from collections.abc import Iterator

from tree_sitter import Node

from jobs.signatures.signature import UNKNOWN, Argument
from jobs.signatures.syntax_trees import text_of, unreadable_at
from jobs.signatures.typescript.jsdoc import parameter_descriptions
from jobs.signatures.typescript.literals import default_value, typ_of_default
from jobs.signatures.typescript.module import Function, Module
from jobs.signatures.typescript.types import TypeReader

_TAKEN_APART = frozenset({"object_pattern", "array_pattern"})


def arguments(module: Module, function: Function) -> Iterator[Argument]:
    """In the order of the parameters. Raises Unreadable when two share a name."""
    descriptions = parameter_descriptions(_comment_before(function.statement))
    reader = TypeReader(module, function.node)
    taken: set[str] = set()
    unnamed = 0
    patterns = list(_patterns(function.node))
    named = {text_of(pattern) for pattern in patterns}
    for pattern in patterns:
        if pattern.type in _TAKEN_APART:
            unnamed += 1
            while (name := f"anon{unnamed}") in named:
                unnamed += 1
        else:
            name = text_of(pattern)
        if name in taken:
            raise unreadable_at(module.root, pattern.start_byte, f"The parameter '{name}' is declared twice.")
        taken.add(name)
        yield _argument(reader, name, pattern, descriptions.get(name, ""))


def takes_the_rest(function: Function) -> bool:
    """Whether the function ends in `...rest`."""
    parameters = function.node.child_by_field_name("parameters")
    return parameters is not None and any(
        _pattern(parameter).type == "rest_pattern" for parameter in parameters.named_children
    )


def _patterns(function: Node) -> Iterator[Node]:
    """What each parameter binds, but `...rest`, and `this`, which exists for the type checker only."""
    alone = function.child_by_field_name("parameter")  # x => x
    if alone is not None:
        yield alone
    parameters = function.child_by_field_name("parameters")
    for parameter in parameters.named_children if parameters is not None else ():
        pattern = _pattern(parameter)
        if parameter.type != "comment" and pattern.type not in ("rest_pattern", "this"):
            yield pattern


def _pattern(parameter: Node) -> Node:
    return parameter.child_by_field_name("pattern") or parameter


def _argument(reader: TypeReader, name: str, pattern: Node, description: str) -> Argument:
    parameter = pattern.parent
    if parameter is None or parameter.type not in ("required_parameter", "optional_parameter"):
        return Argument(name=name, typ=UNKNOWN, description=description)
    annotation, default = parameter.child_by_field_name("type"), parameter.child_by_field_name("value")
    is_optional = parameter.type == "optional_parameter"
    typ, admits_none = (UNKNOWN, False) if annotation is None else reader.typ(annotation.named_child(0))
    value = None
    if default is not None:
        value = default_value(default, reader.enum_value)
        typ = typ_of_default(default, reader.enum_value) if typ == UNKNOWN else typ
    return Argument(
        name=name,
        typ=typ,
        default=value,
        has_default=default is not None or is_optional or admits_none,
        has_code_default=default is not None or is_optional,
        description=description,
    )


def _comment_before(statement: Node) -> str:
    previous = statement.prev_named_sibling
    return text_of(previous) if previous is not None and previous.type == "comment" else ""
