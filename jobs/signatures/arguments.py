"""Whether the arguments of a run fit the schema of its form."""

import base64
import binascii
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import regex
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError
from referencing import Registry

from jobs.signatures.signature import FUNCTION_CALL

_TIME_LIMIT_S = 0.5  # for one form; schemas are written by users and may be built to take forever
_PATTERN_TIME_LIMIT_S = 0.05
_LONGEST_PATTERN = 2000  # characters
_MOST_PROBLEMS = 100
_LONGEST_QUOTE = 200  # characters of a schema repeated in a message

# Text that is replaced by a resource or a variable when the job starts.
_REFERENCE_PREFIXES = ("$res:", "$var:", "$encrypted:")

_DATE_FORMATS = ("%d-%m-%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d")

_TYPE_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "empty",
    "resource": "a resource",
}

_Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentProblem:
    """One thing to correct in a form."""

    field: str  # name of the argument; "" when the problem is not about one argument
    path: tuple[str | int, ...]  # where inside the arguments, starting with the field's name
    message: str


class _TooCostly(Exception):
    """Checking the form takes longer than a page may wait."""


def validate_args(schema: object, args: object) -> list[ArgumentProblem]:
    """What is wrong with `args` for the form described by `schema`; empty when nothing is.

    Lenient as the platform is at run time: references (`$res:path`, `$var:path`) stand for any text,
    object or list; optional arguments may be None; arguments the schema does not name are fine; an object
    without declared properties takes any JSON value. Never raises: a schema that cannot be checked is
    itself a problem.
    """
    if not isinstance(args, dict):
        return [_whole(f"The arguments should be an object, not {_kind_of(args)}.")]
    if schema is None or schema is True or schema == {}:
        return []
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return [_whole("The schema of this form is damaged: it should be an object with properties.")]
    required = schema.get("required")
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    problems: list[ArgumentProblem] = []
    checker = _Checker(schema)
    for name, subschema in properties.items():
        if len(problems) >= _MOST_PROBLEMS:
            break
        value = args.get(name)
        if value is None:
            if name in names and not _may_be_none(subschema):
                problems.append(ArgumentProblem(field=name, path=(name,), message="This field is required."))
            continue
        if value == FUNCTION_CALL:  # the job runs without this argument
            continue
        problems += checker.check(name, value, subschema)
    return problems[:_MOST_PROBLEMS]


def _whole(message: str) -> ArgumentProblem:
    return ArgumentProblem(field="", path=(), message=message)


def _may_be_none(schema: object) -> bool:
    if not isinstance(schema, dict):
        return schema is True
    kind = schema.get("type")
    return schema.get("nullable") is True or kind == "null" or (isinstance(kind, list) and "null" in kind)


class _Checker:
    """jsonschema with the form's own keywords, and with limits on time."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._deadline = time.monotonic() + _TIME_LIMIT_S
        standard = Draft202012Validator.VALIDATORS
        own: dict[str, _Keyword] = {
            "type": _check_type,
            "pattern": _check_pattern,
            # The library would run their patterns without a limit; forms do not use them.
            "patternProperties": _ignored,
            "unevaluatedProperties": _ignored,
            "additionalProperties": _check_additional,
            "uniqueItems": _check_unique,
            "format": _check_format,
            "contentEncoding": _check_encoding,
            "min": _check_min,
            "max": _check_max,
            "oneOf": _check_one_of(standard["oneOf"]),
        }
        keywords = {keyword: self._timed(check) for keyword, check in (standard | own).items()}
        validator: Any = validators.extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
        # An empty registry: a `$ref` elsewhere is an error, never a request to another server.
        self._validator = validator(schema, registry=Registry())

    def check(self, name: str, value: object, schema: object) -> list[ArgumentProblem]:
        """The problems of one argument, at most `_MOST_PROBLEMS`."""
        problems: list[ArgumentProblem] = []
        try:
            for error in self._validator.descend(value, schema, path=name):
                path = tuple(error.absolute_path)
                problems.append(ArgumentProblem(field=name, path=path, message=_message(error)))
                if len(problems) >= _MOST_PROBLEMS:
                    break
        except _TooCostly:
            problems.append(_unchecked(name, "checking it takes too long"))
        except (RecursionError, MemoryError):
            problems.append(_unchecked(name, "it refers to itself or is nested too deeply"))
        except regex.error as exc:
            problems.append(_unchecked(name, f"its pattern is not a regular expression ({_shortened(exc)})"))
        except Exception as exc:
            # The schema is anyone's JSON: a keyword of the wrong type or a `$ref` to nowhere can raise
            # almost anything from the library, and the form has to be shown all the same.
            problems.append(_unchecked(name, _shortened(exc) or type(exc).__name__))
        return problems

    def _timed(self, check: Any) -> _Keyword:
        def timed(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            if time.monotonic() > self._deadline:
                raise _TooCostly
            # A reference stands for a value that is not known yet.
            if not _is_reference(instance) or not _takes_reference(schema):
                yield from check(validator, expected, instance, schema) or ()

        return timed


def _unchecked(name: str, reason: str) -> ArgumentProblem:
    return ArgumentProblem(
        field=name, path=(name,), message=f"This field's schema cannot be checked: {reason.rstrip('.')}."
    )


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith(_REFERENCE_PREFIXES) and not value.endswith(":")


def _takes_reference(schema: object) -> bool:
    return not isinstance(schema, dict) or schema.get("type") not in ("integer", "number", "boolean", "null")


def _ignored(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    yield from ()


def _check_type(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    kinds = expected if isinstance(expected, list) else [expected]
    known = [kind for kind in kinds if isinstance(kind, str) and kind in _TYPE_WORDS]
    if len(known) < len(kinds):  # "any", or a word of another program: nothing is promised
        return
    if known == ["object"] and not schema.keys() & {"properties", "format", "oneOf", "required", "$ref"}:
        return  # what a parameter of unknown type looks like
    if instance is None and schema.get("nullable") is True:
        return
    if not any(validator.is_type(instance, "object" if kind == "resource" else kind) for kind in known):
        words = " or ".join(_TYPE_WORDS[kind] for kind in known)
        yield ValidationError(f"Should be {words}, not {_kind_of(instance)}.")


def _check_pattern(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str) or expected == "":
        return
    if not isinstance(expected, str) or len(expected) > _LONGEST_PATTERN:
        raise ValueError(f"its pattern should be text of at most {_LONGEST_PATTERN} characters")
    try:
        # `regex` reads JavaScript's (?<name>…) and \p{L} too, and unlike `re` can be stopped.
        found = regex.search(expected, instance, timeout=_PATTERN_TIME_LIMIT_S)
    except TimeoutError:
        raise _TooCostly from None
    if not found:
        custom = schema.get("customErrorMessage")
        message = custom if isinstance(custom, str) and custom else f"Does not match {_shortened(expected)}"
        yield ValidationError(message)


def _check_format(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str) or not instance:
        return
    if expected == "date-time" and not _is_datetime(instance):
        yield ValidationError("Should be a date and time such as 2024-01-31T08:30:00Z.")
    elif expected == "date" and not _is_date(instance):
        yield ValidationError("Should be a date such as 2024-01-31.")
    elif expected == "email" and not regex.fullmatch(r"[^\s@]++@[^\s@]++", instance):
        yield ValidationError("Should be an e-mail address.")


def _is_datetime(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return any(_has_date_format(text, pattern) for pattern in _DATE_FORMATS)
    return True


def _has_date_format(text: str, pattern: str) -> bool:
    try:
        datetime.strptime(text, pattern)
    except ValueError:
        return False
    return True


def _check_encoding(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if expected != "base64" or not isinstance(instance, str):
        return
    try:
        base64.b64decode(instance)
    except (binascii.Error, ValueError):
        yield ValidationError("Should be a file, or its content in base64.")


def _check_additional(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict) or "patternProperties" in schema:
        return
    for name in instance.keys() - schema.get("properties", {}).keys():
        if expected is False:
            yield ValidationError(f"Should not have {_shortened(name)}.")
        else:
            yield from validator.descend(instance[name], expected, path=name)


def _check_unique(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # The library compares each pair of items; this takes time with their number only.
    if expected is True and isinstance(instance, list):
        distinct = {json.dumps(item, sort_keys=True, default=str) for item in instance}
        if len(distinct) < len(instance):
            yield ValidationError("Should not have the same item twice.")


def _check_min(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if _is_number(instance) and _is_number(expected) and instance < expected:
        yield ValidationError(f"Should be at least {expected}.")


def _check_max(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if _is_number(instance) and _is_number(expected) and instance > expected:
        yield ValidationError(f"Should be at most {expected}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_one_of(standard: Any) -> _Keyword:
    def check(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        """The variant is named by the value's `label` (or `kind`); without one, the standard rule applies."""
        if isinstance(instance, dict) and isinstance(expected, list):
            chosen = instance.get("label", instance.get("kind"))
            for variant in expected:
                if isinstance(chosen, str) and isinstance(variant, dict) and variant.get("title") == chosen:
                    yield from validator.descend(instance, variant)
                    return
        yield from standard(validator, expected, instance, schema)

    return check


def _message(error: ValidationError) -> str:
    """One short sentence. The library's own words repeat the whole value, which may be a secret or huge."""
    keyword, expected = error.validator, error.validator_value
    match keyword:
        case "enum" if isinstance(expected, list):
            return f"Should be one of {_shortened(', '.join(map(str, expected)))}."
        case "const":
            return f"Should be {_shortened(expected)}."
        case "minimum":
            return f"Should be at least {expected}."
        case "maximum":
            return f"Should be at most {expected}."
        case "exclusiveMinimum":
            return f"Should be more than {expected}."
        case "exclusiveMaximum":
            return f"Should be less than {expected}."
        case "multipleOf":
            return f"Should be a multiple of {expected}."
        case "minLength":
            return f"Should have at least {expected} characters."
        case "maxLength":
            return f"Should have at most {expected} characters."
        case "minItems":
            return f"Should have at least {expected} items."
        case "maxItems":
            return f"Should have at most {expected} items."
        case "required" if isinstance(expected, list) and isinstance(error.instance, dict):
            missing = ", ".join(str(name) for name in expected if name not in error.instance)
            return f"Lacks {_shortened(missing)}."
        case "oneOf":
            return "Should be exactly one of the choices."
        case "anyOf":
            return "Should be one of the choices."
        case "type" | "pattern" | "format" | "contentEncoding" | "min" | "max" | "uniqueItems":
            return error.message
        case "additionalProperties" if expected is False:
            return error.message
        case _:
            return f"Does not fit the rule {_shortened(keyword)} of its schema."


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def _shortened(text: object) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= _LONGEST_QUOTE else words[: _LONGEST_QUOTE - 1] + "…"
