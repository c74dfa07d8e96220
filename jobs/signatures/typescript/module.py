"""The names that a TypeScript module declares at its top level."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from jobs.signatures.syntax_trees import text_of

_FUNCTIONS = frozenset({"function_declaration", "generator_function_declaration"})
_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression", "generator_function"})
_VARIABLES = frozenset({"lexical_declaration", "variable_declaration"})
_TYPES = frozenset({"type_alias_declaration", "interface_declaration", "enum_declaration"})


@dataclass(slots=True)
class Function:
    node: Node  # with the parameters
    statement: Node  # the top-level statement it stands in, which its comment precedes


@dataclass(slots=True)
class Module:
    root: Node
    functions: dict[str, Function] = field(default_factory=dict)
    types: dict[str, Node] = field(default_factory=dict)  # name -> alias, interface or enum
    exported_as: dict[str, str] = field(default_factory=dict)  # `export { run as main }`: "main" -> "run"

    def __post_init__(self) -> None:
        for statement in self.root.named_children:
            if statement.type == "export_statement":
                self.exported_as |= _renamed_exports(statement)
                if any(child.type == "default" for child in statement.children):
                    continue  # nobody can import it by its name
                declaration = statement.child_by_field_name("declaration")
            else:
                declaration = statement
            if declaration is not None:
                self._declare(declaration, statement)

    def function(self, name: str) -> Function | None:
        """The function that importers find under `name`."""
        return self.functions.get(name) or self.functions.get(self.exported_as.get(name, ""))

    def _declare(self, declaration: Node, statement: Node) -> None:
        if declaration.type in _VARIABLES:
            for variable in declaration.named_children:
                name, value = variable.child_by_field_name("name"), variable.child_by_field_name("value")
                function = _function_value(value)
                if name is not None and function is not None:
                    self.functions.setdefault(text_of(name), Function(function, statement))
            return
        name = declaration.child_by_field_name("name")
        if name is None:
            return
        if declaration.type in _FUNCTIONS:
            self.functions.setdefault(text_of(name), Function(declaration, statement))
        elif declaration.type in _TYPES:
            self.types.setdefault(text_of(name), declaration)


def _function_value(value: Node | None) -> Node | None:
    """The function a variable holds, also when another one wraps it: `withRetries(async (x: string) => …)`."""
    while value is not None and value.type in (
        "parenthesized_expression",
        "as_expression",
        "satisfies_expression",
    ):
        value = value.named_child(0)
    if value is not None and value.type == "call_expression":
        call = value.child_by_field_name("arguments")
        functions = [a for a in call.named_children if a.type in _FUNCTION_VALUES] if call is not None else []
        value = functions[0] if len(functions) == 1 else None
    return value if value is not None and value.type in _FUNCTION_VALUES else None


def _renamed_exports(statement: Node) -> Iterator[tuple[str, str]]:
    if statement.child_by_field_name("source") is not None:
        return  # exported from another module
    for clause in statement.named_children:
        for specifier in clause.named_children if clause.type == "export_clause" else ():
            name, alias = specifier.child_by_field_name("name"), specifier.child_by_field_name("alias")
            if name is not None and alias is not None:
                yield text_of(alias), text_of(name)
