"""The signature of a TypeScript script, read from its syntax tree; the script is never executed.

One reading serves Bun, Deno and the native runtime: they differ in what code may import, not in how it is written.
"""

import tree_sitter_typescript
from tree_sitter import Language

from jobs.signatures.signature import Signature
from jobs.signatures.syntax_trees import Unreadable, read_tree
from jobs.signatures.typescript.module import Module
from jobs.signatures.typescript.parameters import arguments, takes_the_rest

__all__ = ["parse"]

_LANGUAGE = Language(tree_sitter_typescript.language_typescript())


def parse(code: str, entrypoint: str = "main") -> Signature:
    """The signature of the module-level function named or exported as `entrypoint`; never raises.

    `args` are in the order in which the function takes them: call it with one value for each. A parameter
    that is taken apart (`{a, b}: Options`) has no name of its own; it is called anon1, anon2, …
    """
    try:
        return _signature(Module(read_tree(_LANGUAGE, code).root_node), entrypoint)
    except Unreadable as exc:
        return Signature(problem=exc.problem)


def _signature(module: Module, entrypoint: str) -> Signature:
    has_preprocessor = module.function("preprocessor") is not None
    function = module.function(entrypoint)
    if function is None:
        return Signature(auto_kind="lib", has_preprocessor=has_preprocessor)
    return Signature(
        args=tuple(arguments(module, function)),
        star_args=takes_the_rest(function),
        has_preprocessor=has_preprocessor,
    )
