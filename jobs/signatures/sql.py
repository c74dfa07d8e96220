"""The signature of SQL: parameters from comments that declare them and from the places where they are used.

-- $1 name (type) = default     PostgreSQL; type and default may be missing
-- ? name (type) = default      MySQL, Snowflake
-- :name (type) = default       MySQL, Oracle
-- $name (type) = default       DuckDB
-- @name (type) = default       BigQuery
-- @P1 name (type) = default    Microsoft SQL Server
-- %%name%% one/two             a name put into the text itself, one of these
-- database f/ops/db            the resource to run on; without it, an argument `database` asks for one
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from jobs.signatures.signature import TEXT, UNKNOWN, Argument, Problem, Signature, Typ, is_storable
from jobs.signatures.sql_tokens import Dialect, Token, tokens

DATABASE = "database"  # the argument that says where to run
_MOST_PARAMETERS = 1000  # "$999999" is a slip of the keyboard, not a call for a million arguments
_LARGEST_INTEGER = 2**63 - 1

# Type of the resource that the argument `database` takes. DuckDB runs in memory and has none.
_RESOURCES: dict[Dialect, str] = {
    "postgresql": "postgresql",
    "mysql": "mysql",
    "bigquery": "bigquery",
    "snowflake": "snowflake",
    "mssql": "ms_sql_server",
    "oracledb": "oracledb",
}

PINNING_LANGUAGES = frozenset(_RESOURCES)
DIALECTS: tuple[Dialect, ...] = (*_RESOURCES, "duckdb")

_INT = (
    "int integer int1 int2 int3 int4 int8 int16 int32 int64 int128 smallint bigint tinyint mediumint hugeint byteint "
    "uinteger ubigint usmallint utinyint uhugeint serial bigserial smallserial oid long year signed unsigned"
)
_FLOAT = (
    "float float4 float8 float32 float64 real double numeric decimal dec number money bignumeric bigdecimal fixed "
    "binary_float binary_double smallmoney"
)
_BYTES = "bytea blob bytes binary varbinary tinyblob mediumblob longblob raw"
_TYPS: dict[str, Typ] = {
    **dict.fromkeys(_INT.split(), "int"),
    **dict.fromkeys([*_FLOAT.split(), "double precision"], "float"),
    **dict.fromkeys(("bool", "boolean"), "bool"),
    **{name: {"object": {"name": None, "props": []}} for name in ["json", "jsonb", "object", "struct", "variant", "map"]},
    **dict.fromkeys(("timestamp", "timestamptz", "datetime", "datetime2", "datetimeoffset", "smalldatetime"), "datetime"),
    **dict.fromkeys(("timestamp with time zone", "timestamp without time zone"), "datetime"),
    **dict.fromkeys(("timestamp_ntz", "timestamp_ltz", "timestamp_tz"), "datetime"),
    "date": "date",
    **dict.fromkeys(_BYTES.split(), "bytes"),
    "s3object": {"resource": "s3_object"},
    "array": {"list": UNKNOWN},
}  # fmt: skip

# Possessive throughout: a comment may be a megabyte of spaces.
_TYPE = r"\s*+\((?P<type>[^()]*+(?:\([^()]*+\)[^()]*+)?)\)"
_DEFAULT = r"(?:\s*+=(?P<default>.*))?\s*+"
_NAME = r"(?P<name>[^\W\d]\w*+)"
_DECLARATIONS: dict[Dialect, re.Pattern[str]] = {
    "postgresql": re.compile(rf"--\s*+(?P<marker>\$\d+)\s++{_NAME}(?:{_TYPE})?{_DEFAULT}", re.S),
    "mysql": re.compile(
        rf"--\s*+(?:(?P<marker>\?)\s++{_NAME}|(?P<named>:[^\W\d]\w*+)){_TYPE}{_DEFAULT}", re.S
    ),
    "snowflake": re.compile(rf"--\s*+(?P<marker>\?)\s++{_NAME}{_TYPE}{_DEFAULT}", re.S),
    "mssql": re.compile(rf"--\s*+(?P<marker>@[pP]\d+)\s++{_NAME}{_TYPE}{_DEFAULT}", re.S),
    "duckdb": re.compile(rf"--\s*+(?P<named>\$\w++){_TYPE}{_DEFAULT}", re.S),
    "bigquery": re.compile(rf"--\s*+(?P<named>@[^\W\d]\w*+){_TYPE}{_DEFAULT}", re.S),
    "oracledb": re.compile(rf"--\s*+(?P<named>:[^\W\d]\w*+){_TYPE}{_DEFAULT}", re.S),
}
_PIN = re.compile(r"--\s*+database\s++(?:\$res:|res://)?(?P<path>[^\s/]++/\S++)\s*+")
_RESOURCE = re.compile(r"'\$res:([^'\s]++)'")
_INTERPOLATED = re.compile(r"--\s*+%%(?P<name>[^\W\d]\w*+)%%(?P<choices>\s.*)?", re.S)
_DIRECTIVE = re.compile(r"--\s*+(?P<key>result_collection|return_last_result|s3)\b\s*+=?(?P<value>.*)", re.S)
_WITH_TIME_ZONE = r"time(?:stamp)?(?:\s*\(\s*\d+\s*\))?\s+with(?:out)?\s+time\s+zone"
_TYPE_NAME = rf"double\s+precision|character\s+varying|bit\s+varying|{_WITH_TIME_ZONE}|\"?[^\W\d][\w.]*\"?"
_CAST = re.compile(
    rf"\s*(?:::|(?P<as>\bas\b))\s*(?P<type>(?:{_TYPE_NAME})(?:\s*\([\d\s,]*\))?(?:\s*\[\d*\])*)", re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the statements."""

    marker: str  # as the code writes it: "$1", ":name", "$name", "@P1"; "?1" for the first "?"
    name: str  # of the argument that it takes its value from
    type: str = (
        ""  # as written, in lower case, without precision: "varchar", "int[]"; "" when the code does not say
    )
    default: Any = None  # JSON value
    has_default: bool = False
    at: int = 0  # where it was met first: an offset into the text


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpolated:
    """A name that is put into the text itself, where a parameter cannot stand: %%table_name%%."""

    name: str
    choices: tuple[str, ...] = ()  # empty: any name


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlScript:
    """What a script says about itself."""

    parameters: tuple[Parameter, ...] = ()
    interpolated: tuple[Interpolated, ...] = ()
    database: str | None = None  # path of the resource that the code pins
    result_collection: str | None = None  # as written
    return_last_result: bool = False
    s3: bool = False  # the result is to go to object storage


def parser(dialect: Dialect) -> Callable[[str, str], Signature]:
    """The parser of one dialect for `jobs.signatures.PARSERS`."""

    def parse(code: str, entrypoint: str = "main") -> Signature:
        """The arguments in the order of their positions, `database` first; never raises."""
        script = read(code, dialect)
        args = [_argument(parameter, dialect) for parameter in script.parameters]
        for one in script.interpolated:
            args.append(
                Argument(name=one.name, typ={"str": list(one.choices) or None}, otyp="__sanitized_enum__")
            )
        resource = _RESOURCES.get(dialect)
        if resource is not None and script.database is None:
            clash = next((one for one in script.parameters if one.name == DATABASE), None)
            if clash is not None:
                return Signature(
                    problem=Problem(
                        line=code.count("\n", 0, clash.at) + 1,
                        column=1,
                        message=f"The argument {DATABASE} names the {resource} resource to run on: give the parameter "
                        f"{clash.marker} another name, or pin the resource with a line -- database f/folder/name.",
                    )
                )
            args = [arg for arg in args if arg.name != DATABASE]
            args.insert(0, Argument(name=DATABASE, typ={"resource": resource}))
        by_name: dict[str, Argument] = {}
        for arg in args:  # two parameters may take the same argument
            by_name.setdefault(arg.name, arg)
        return Signature(args=tuple(by_name.values()))

    return parse


def pinned_database(code: str, dialect: str) -> str | None:
    """The path after `-- database` in code of one of PINNING_LANGUAGES; None when it pins none."""
    if DATABASE not in code:  # most code: no reading
        return None
    return read(code, cast(Dialect, dialect)).database


def resource_literals(code: str) -> list[tuple[str, str]]:
    """The texts '$res:f/ops/db' in DuckDB's SQL, as they are written, and the paths of the resources in them."""
    if "$res:" not in code:  # most code: no reading
        return []
    found = (token.text for token in tokens(code, "duckdb") if token.kind == "string")
    return [(text, match[1]) for text in found if (match := _RESOURCE.fullmatch(text))]


def read(code: str, dialect: Dialect) -> SqlScript:
    """All that comments and parameters say. Never raises; what cannot be understood is left out."""
    return (_read_remembered if len(code) <= 100_000 else _read)(code, dialect)


def _read(code: str, dialect: Dialect) -> SqlScript:
    found = [
        token for token in tokens(code, dialect) if token.kind in ("comment", "parameter", "word", "symbol")
    ]
    script = SqlScript()
    declared: list[Parameter] = []
    interpolated: list[Interpolated] = []
    for comment in _whole_line_comments(code, found):
        if match := _DECLARATIONS[dialect].fullmatch(comment.text):
            if len(declared) < _MOST_PARAMETERS:
                declared.append(_declared(match, comment, declared, dialect))
        elif match := _PIN.fullmatch(comment.text):
            script = replace(script, database=script.database or match["path"])
        elif match := _INTERPOLATED.fullmatch(comment.text):
            choices = tuple(part for part in (match["choices"] or "").strip().split("/") if part)
            interpolated.append(Interpolated(name=match["name"], choices=choices))
        elif match := _DIRECTIVE.fullmatch(comment.text):
            script = _directed(script, match)
    return replace(
        script,
        parameters=_merged(declared, _used(code, found, dialect), dialect),
        interpolated=tuple(interpolated),
    )


_read_remembered = lru_cache(maxsize=256)(_read)


def _whole_line_comments(code: str, found: Sequence[Token]) -> Iterator[Token]:
    for token in found:
        if token.kind == "comment" and token.text.startswith("--"):
            line_start = max(code.rfind("\n", 0, token.start), code.rfind("\r", 0, token.start)) + 1
            if not code[line_start : token.start].strip(" \t\ufeff"):
                yield token


def _directed(script: SqlScript, match: re.Match[str]) -> SqlScript:
    key, value = match["key"], (match["value"] or "").strip()
    if key == "result_collection" and value:
        return replace(script, result_collection=value)
    if key == "return_last_result" and not value:
        return replace(script, return_last_result=True)
    if key == "s3" and (not value or "=" in value):
        return replace(script, s3=True)
    return script


def _declared(
    match: re.Match[str], comment: Token, before: Sequence[Parameter], dialect: Dialect
) -> Parameter:
    groups = match.groupdict()
    marker = groups.get("named") or groups.get("marker") or ""
    name = groups.get("name") or marker[1:]
    if marker == "?":
        marker += str(1 + sum(one.marker[0] == "?" for one in before))
    sql_type = plain_type(groups["type"] or "")
    default, has_default = None, groups["default"] is not None
    if has_default:
        default = _default(groups["default"].strip(), typ_of(sql_type, dialect))
    return Parameter(
        marker=marker.upper() if dialect == "mssql" else marker,
        name=name,
        type=sql_type,
        default=default,
        has_default=has_default,
        at=comment.start,
    )


def _used(code: str, found: Sequence[Token], dialect: Dialect) -> dict[str, Parameter]:
    """Every parameter in the text, with the type of a cast right behind it; by marker, in their order."""
    used: dict[str, Parameter] = {}
    positional = 0
    for index, token in enumerate(found):
        if token.kind != "parameter" or len(used) >= _MOST_PARAMETERS:
            continue
        marker = token.text.upper() if dialect == "mssql" else token.text
        if marker == "?":
            positional += 1
            marker = f"?{positional}"
        elif dialect == "oracledb" and marker.lower() in (":new", ":old"):
            continue  # the rows of a trigger
        elif marker[1:].isdigit() and not 0 < int(marker[1:8]) <= _MOST_PARAMETERS:
            continue
        known = used.get(marker)
        if known is None or not known.type:
            sql_type = _cast_type(code, found, index) if dialect in ("postgresql", "duckdb") else ""
            at = known.at if known else token.start
            used[marker] = Parameter(marker=marker, name=_unnamed(marker, dialect), type=sql_type, at=at)
    return used


def _unnamed(marker: str, dialect: Dialect) -> str:
    if marker[0] == "?":
        return f"arg{marker[1:]}"
    return marker if dialect == "postgresql" else marker[1:]


def _cast_type(code: str, found: Sequence[Token], index: int) -> str:
    match = _CAST.match(code, found[index].end)
    if match is None:
        return ""
    if match["as"]:  # CAST($1 AS int), not SELECT $1 AS name
        before = [token.text.lower() for token in found[max(0, index - 2) : index]]
        if before[-1:] != ["("] or before[:1] not in (["cast"], ["try_cast"]):
            return ""
    return plain_type(match["type"])


def _merged(
    declared: Sequence[Parameter], used: dict[str, Parameter], dialect: Dialect
) -> tuple[Parameter, ...]:
    """Declared parameters with types from casts; then those that are used only. One for each marker."""
    merged: dict[str, Parameter] = {}
    for parameter in declared:
        use = used.get(parameter.marker)
        if parameter.marker in merged or (dialect == "postgresql" and not parameter.type and use is None):
            continue  # "-- $1 is the price": a remark
        merged[parameter.marker] = replace(parameter, type=parameter.type or (use.type if use else ""))
        if not parameter.type and parameter.has_default and isinstance(parameter.default, str):
            typ = typ_of(merged[parameter.marker].type, dialect)
            merged[parameter.marker] = replace(
                merged[parameter.marker], default=_default(parameter.default, typ)
            )
    for marker, parameter in used.items():
        merged.setdefault(marker, parameter)
    found = list(merged.values())
    if dialect in ("postgresql", "mssql"):
        found.sort(key=lambda parameter: int(re.sub(r"\D", "", parameter.marker)[:9] or 0))
    return tuple(found)


def plain_type(written: str) -> str:
    """A type's name in lower case, without precision and schema: "NUMERIC(10, 2)[]" -> "numeric[]"."""
    depth = written.count("[")
    name = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\"", " ", written.lower())
    name = " ".join(name.split()).removeprefix("pg_catalog.")
    return name + "[]" * depth if name else ""


def typ_of(sql_type: str, dialect: Dialect) -> Typ:
    """The form's type for a parameter of type `sql_type`."""
    if sql_type.endswith("[]"):
        inner = sql_type[:-2]
        return {"list": UNKNOWN if inner.endswith("[]") else typ_of(inner, dialect)}
    if sql_type == "bit" and dialect in ("mysql", "mssql"):
        return "bool"
    first = sql_type.split(" ")[0]
    return (
        _TYPS.get(sql_type) or (_TYPS.get(first) if first in ("unsigned", "bigint", "int") else None) or TEXT
    )


def _argument(parameter: Parameter, dialect: Dialect) -> Argument:
    position = re.fullmatch(r"(?:\$|@P)(\d{1,4})", parameter.marker)
    return Argument(
        name=parameter.name,
        typ=typ_of(parameter.type, dialect),
        default=parameter.default,
        has_default=parameter.has_default,
        has_code_default=parameter.has_default,
        otyp=parameter.type or "text",
        oidx=int(position[1]) if position and dialect == "postgresql" else None,
    )


def _default(written: str, typ: Typ) -> Any:
    """The JSON value of a default; None for null, and for what does not fit the type."""
    if written.lower() == "null" or not is_storable(written):
        return None
    if typ == "bool":
        return {"true": True, "false": False}.get(written.lower())
    if typ in ("int", "float") or (isinstance(typ, dict) and typ.keys() & {"list", "object"}):
        try:
            value = json.loads(written)
            json.dumps(value, allow_nan=False)
        except (ValueError, RecursionError):
            return None
        return value if _fits(value, typ) and is_storable(json.dumps(value, ensure_ascii=False)) else None
    if len(written) >= 2 and written[0] == written[-1] and written[0] in "'\"":
        return written[1:-1]
    return written


def _fits(value: Any, typ: Typ) -> bool:
    if typ == "int":
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST_INTEGER
    if typ == "float":
        return isinstance(value, int | float) and not isinstance(value, bool)
    assert isinstance(typ, dict)
    return isinstance(value, list) if "list" in typ else isinstance(value, dict | list)
