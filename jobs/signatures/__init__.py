"""From source text to signature to the JSON Schema of the run form. Never runs the source."""

from collections.abc import Callable
from typing import Any

from jobs.signatures import bash, go, graphql, php, powershell, python, sql, typescript
from jobs.signatures.arguments import ArgumentProblem, validate_args
from jobs.signatures.schema import SKELETON_DIALECT, build_schema
from jobs.signatures.signature import FUNCTION_CALL, Argument, Inference, Problem, Signature, Typ

__all__ = [
    "FUNCTION_CALL",
    "PARSERS",
    "SKELETON_DIALECT",
    "Argument",
    "ArgumentProblem",
    "Inference",
    "Problem",
    "Signature",
    "Typ",
    "infer_schema",
    "validate_args",
]

# language -> (source, entrypoint) -> Signature. A new language is one module and one entry.
PARSERS: dict[str, Callable[[str, str], Signature]] = {
    "python3": python.parse,
    "bash": bash.parse,
    **{dialect: sql.parser(dialect) for dialect in sql.DIALECTS},
    "graphql": graphql.parse,
    "go": go.parse,
    "php": php.parse,
    "powershell": powershell.parse,
    "bun": typescript.parse,
    "deno": typescript.parse,
    "nativets": typescript.parse,
    "bunnative": typescript.parse,
}


def infer_schema(
    language: str, code: str, *, previous: dict[str, Any] | None = None, entrypoint: str = "main"
) -> Inference:
    """Read the signature of `code` and the JSON Schema of its arguments.

    `previous` is the schema shown so far: what its author edited by hand (descriptions, limits, choices…)
    is carried over to the arguments that are still there. It is not changed.
    Never raises: unreadable source gives `problem` and an empty schema (keep showing the last good one);
    a language without a parser gives `is_supported=False` and an empty schema.
    """
    parser = PARSERS.get(language)
    signature = Signature() if parser is None else parser(code, entrypoint)
    return Inference(
        args=signature.args,
        star_args=signature.star_args,
        star_kwargs=signature.star_kwargs,
        auto_kind=signature.auto_kind,
        has_preprocessor=signature.has_preprocessor,
        problem=signature.problem,
        schema=build_schema(signature.args, previous),
        is_supported=parser is not None,
    )
