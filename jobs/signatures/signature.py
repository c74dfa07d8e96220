"""What a script asks for: its arguments, as read from the source text."""

from dataclasses import dataclass, field
from typing import Any

# A parameter's type in Windmill's notation, plain JSON. Either one of
#   "int" "float" "bool" "bytes" "datetime" "date" "email" "sql" "yaml" "unknown"
# or an object with one key:
#   {"str": None | [choices]}   {"list": Typ}
#   {"resource": name}   {"dynselect": name}   {"dynmultiselect": name}
#   {"object": {"name": str | None, "props": [{"key": str, "typ": Typ}]}}
#   {"oneof": [{"label": str, "properties": [{"key": str, "typ": Typ}]}]}
Typ = str | dict[str, Any]

UNKNOWN: Typ = "unknown"
TEXT: Typ = {"str": None}

# Stands for a default that only running the code can tell. A job whose argument equals this text
# is run without the argument, so that the code computes its own default.
FUNCTION_CALL = "<function call>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why the source has no readable signature, at the author's line and column (both from 1)."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    name: str
    typ: Typ
    default: Any = None  # JSON value; None also when the default cannot be written as JSON
    has_default: bool = False  # may be left out of the form: the code has a default, or the type admits None
    has_code_default: bool = False  # the code itself has a default: a call may leave the argument out
    is_positional_only: bool = False
    description: str = ""  # from the docstring
    otyp: str | None = None  # the type as the code writes it, where the language has types of its own (SQL)
    oidx: int | None = None  # position, from 1, where parameters are numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    args: tuple[Argument, ...] = ()
    star_args: bool = False  # takes any number of further positional arguments
    star_kwargs: bool = False  # takes arguments of any name
    auto_kind: str | None = None  # "lib" when the source has no entrypoint and can only be imported
    has_preprocessor: bool = False
    problem: Problem | None = None  # when set, the other fields say nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference(Signature):
    schema: dict[str, Any] = field(default_factory=dict)
    is_supported: bool = True  # False: no parser for this language, the schema is empty

    def as_json(self) -> dict[str, Any]:
        """The signature as API clients expect it (`MainArgSignature`)."""
        return {
            "type": "Invalid" if self.problem else "Valid",
            "error": self.problem.message if self.problem else "",
            "star_args": self.star_args,
            "star_kwargs": self.star_kwargs,
            "args": [
                {
                    "name": arg.name,
                    "typ": arg.typ,
                    "otyp": arg.otyp or arg.description or None,
                    "default": arg.default,
                    "has_default": arg.has_default,
                    "oidx": arg.oidx,
                }
                for arg in self.args
            ],
            "auto_kind": self.auto_kind,
            "has_preprocessor": self.has_preprocessor,
        }


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold `text` in a JSON value: no NUL character, no lone surrogate."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False
