"""The signature of a GraphQL document: the variables of its operations, after `api`, the resource to call."""

import json
from typing import Any

from graphql import GraphQLError, GraphQLSyntaxError, value_from_ast_untyped
from graphql import parse as parse_document
from graphql.language import (
    ListTypeNode,
    NamedTypeNode,
    NonNullTypeNode,
    OperationDefinitionNode,
    TypeNode,
    print_ast,
)

from jobs.signatures.signature import TEXT, UNKNOWN, Argument, Problem, Signature, Typ, is_storable

API = "api"  # the argument that says whom to call
_MOST_TOKENS = 50_000  # of a document; nobody writes more by hand

_SCALARS: dict[str, Typ] = {"String": TEXT, "ID": TEXT, "Int": "int", "Float": "float", "Boolean": "bool"}


def parse(code: str, entrypoint: str = "main") -> Signature:
    """`api` and the variables of all operations, each name once; never raises."""
    api = Argument(name=API, typ={"resource": "graphql"})
    if not code.strip():
        return Signature(args=(api,))
    try:
        document = parse_document(code, no_location=True, max_tokens=_MOST_TOKENS)
    except GraphQLSyntaxError as error:
        place = error.locations[0] if error.locations else None
        line, column = (place.line, place.column) if place else (1, 1)
        message = error.message.removeprefix("Syntax Error: ")
        return Signature(problem=Problem(line=line, column=column, message=message))
    except (GraphQLError, RecursionError) as error:
        return Signature(problem=Problem(line=1, column=1, message=f"This is no GraphQL: {error}"))
    found: dict[str, Argument] = {API: api}
    for definition in document.definitions:
        if not isinstance(definition, OperationDefinitionNode):
            continue
        for variable in definition.variable_definitions or ():
            name = variable.variable.name.value
            is_required = isinstance(variable.type, NonNullTypeNode)
            default = (
                None
                if variable.default_value is None
                else _json(value_from_ast_untyped(variable.default_value))
            )
            found.setdefault(
                name,
                Argument(
                    name=name,
                    typ=_typ(variable.type, default),
                    default=default,
                    has_default=not is_required or variable.default_value is not None,
                    has_code_default=not is_required or variable.default_value is not None,
                    otyp=print_ast(variable.type),
                ),
            )
    return Signature(args=tuple(found.values()))


def _typ(node: TypeNode, default: Any) -> Typ:
    if isinstance(node, NonNullTypeNode):
        return _typ(node.type, default)
    if isinstance(node, ListTypeNode):
        return {"list": _typ(node.type, None)}
    assert isinstance(node, NamedTypeNode)
    if node.name.value in _SCALARS:
        return _SCALARS[node.name.value]
    # Without the server's schema an input object, an enum and a scalar of its own look alike; a default tells.
    if isinstance(default, dict):
        return {"object": {"name": None, "props": []}}
    return TEXT if isinstance(default, str) else UNKNOWN


def _json(value: Any) -> Any:
    """`value` if a JSON column can hold it, else None."""
    try:
        return value if is_storable(json.dumps(value, allow_nan=False, ensure_ascii=False)) else None
    except (ValueError, TypeError, RecursionError):
        return None
