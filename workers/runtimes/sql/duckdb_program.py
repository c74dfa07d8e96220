"""The program that runs a DuckDB script inside a job's sandbox. It stands alone: its text is sent there.

The packages beside it are DuckDB's module, without the Python package around it, which takes 70 ms more to import, and
orjson. Values become JSON by their type: HUGEINT as a number, DECIMAL as a number when a double holds it exactly (15
digits), else as text; NaN and the infinities null; dates and times ISO 8601; INTERVAL an ISO 8601 duration in days and
seconds (DuckDB counts a month as 30 days there); BLOB base64; JSON as it is; lists, structs and maps as they are.
"""

import base64
import datetime
import decimal
import json
import os
import re
from typing import Any

BATCH_ROWS = 500
RESULT = "duckdb_result.json"


def main(job: dict[str, Any]) -> None:
    """Execute the statements of `job` and write the result to RESULT. Raises what DuckDB raises, as an exception of its
    name whose `line` is the script's own."""
    import _duckdb

    connection = _duckdb.connect(":memory:")
    connection.execute(f"SET memory_limit = '{job['memory_mib']}MiB'")
    connection.execute("SET temp_directory = '/tmp/duckdb'")
    connection.execute("SET enable_progress_bar = false")
    partial = f"{RESULT}.{os.urandom(8).hex()}"  # the script itself may write to a file named RESULT
    with open(partial, "w+b") as file:
        writer = Writer(file, job)
        try:
            for index, statement in enumerate(job["statements"]):
                writer.begin(index)
                run(connection, statement, writer)
            writer.end()
        except _duckdb.Error as error:
            raise described(error, statement["line"]) from None
        except TooLarge:
            # Cut off: the worker sees a file that is larger than it may be, and says so.
            file.truncate(job["result_bytes"] + 1)
    os.replace(partial, RESULT)


class TooLarge(Exception):
    """The result has more bytes than it may have."""


def run(connection: Any, statement: dict[str, Any], writer: "Writer") -> None:
    values = dict(statement["values"])
    for name in statement["binary"]:
        values[name] = base64.b64decode(values[name])
    connection.execute(statement["text"], values)
    columns = connection.description or []
    names = unique([column[0] for column in columns])
    documents = [index for index, column in enumerate(columns) if str(column[1]) == "JSON"]
    is_query = not (len(columns) == 1 and columns[0][0] == "Success")
    while rows := connection.fetchmany(BATCH_ROWS):
        if is_query:
            writer.add(names, rows, documents)


class Writer:
    """The result as JSON, one batch of rows after the other."""

    def __init__(self, file: Any, job: dict[str, Any]) -> None:
        self.file = file
        self.every = job["every_statement"]
        self.first = job["first_row"]
        self.scalar = job["scalar"]
        self.last = len(job["statements"]) - 1
        self.limit = job["result_bytes"]
        self.size = 0
        self.is_wanted = False
        self.rows = 0
        self.write(b"[" if self.every else b"")

    def begin(self, index: int) -> None:
        self.close()
        if self.every and index:
            self.write(b",")
        self.is_wanted = self.every or index == self.last
        self.rows = 0

    def add(self, names: list[str], rows: list[Any], documents: list[int]) -> None:
        import orjson

        if not self.is_wanted or (self.first and self.rows):
            return
        if self.first:
            rows = rows[:1]
        if documents:
            rows = [
                tuple(
                    orjson.Fragment(document(cell)) if index in documents and cell is not None else cell
                    for index, cell in enumerate(row)
                )
                for row in rows
            ]
        values = (
            [row[0] for row in rows] if self.scalar else [dict(zip(names, row, strict=True)) for row in rows]
        )
        options = orjson.OPT_NON_STR_KEYS
        try:
            text = orjson.dumps(values, default=plain, option=options)
        except TypeError:  # whole numbers of more than 64 bits, times with an offset
            text = orjson.dumps(wide(values), default=plain, option=options)
        if not self.first:
            self.write(b"," if self.rows else b"[")
        self.write(text[1:-1])
        self.rows += len(rows)

    def close(self) -> None:
        if not self.is_wanted:
            return
        if self.first:
            self.write(b"" if self.rows else b"null")
        else:
            self.write(b"]" if self.rows else b"[]")

    def end(self) -> None:
        self.close()
        self.write(b"]" if self.every else b"")

    def write(self, text: bytes) -> None:
        self.size += len(text)
        if self.size > self.limit:
            raise TooLarge
        self.file.write(text)


def plain(value: Any) -> Any:
    """A value that JSON does not know."""
    import orjson

    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            return None
        text = format(value, "f")
        return orjson.Fragment(text) if len(text.replace(".", "").lstrip("-0")) <= 15 else text
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.timedelta):
        return duration(value)
    if isinstance(value, datetime.time):
        return value.isoformat()
    return str(value)


def wide(value: Any) -> Any:
    """`value` with what orjson refuses made into text or raw JSON."""
    import orjson

    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return orjson.Fragment(str(value))
    if isinstance(value, datetime.time):
        return value.isoformat()
    if isinstance(value, str):
        return value.encode("utf-8", "ignore").decode()
    if isinstance(value, dict):
        return {wide_key(key): wide(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [wide(item) for item in value]
    return value


def wide_key(key: Any) -> str:
    return key if isinstance(key, str) else str(key)


def document(text: str) -> str:
    """JSON as DuckDB keeps it, without NaN, which is none."""
    return (
        json.dumps(json.loads(text, parse_constant=lambda name: None)) if re.search("NaN|Inf", text) else text
    )


def duration(value: datetime.timedelta) -> str:
    seconds = value.seconds + value.microseconds / 1e6
    time = f"T{seconds:.6f}".rstrip("0").rstrip(".") + "S" if seconds else ""
    day = f"{value.days}D" if value.days else ""
    return f"P{day}{time}" if day or time else "PT0S"


def unique(columns: list[str]) -> list[str]:
    """Names for the columns of a row: the second `id` is id_2. As workers.runtimes.sql.collecting.unique_names."""
    names: list[str] = []
    taken, seen = set(columns), set()
    for column in columns:
        name, number = column, 2
        while name in seen or (name != column and name in taken):
            name, number = f"{column}_{number}", number + 1
        seen.add(name)
        names.append(name)
    return names


def described(error: Exception, line: int) -> Exception:
    """`error` in the words of DuckDB, without the excerpt that would show our rewriting, with the script's line."""
    message = str(error)
    if match := re.search(r"\n*LINE (\d+):.*", message, re.S):
        line += int(match[1]) - 1
        message = message[: match.start()]
    message = re.sub(r"\A[A-Z][\w ]*?Error: ", "", message.strip())
    failure: Any = type(type(error).__name__, (Exception,), {})(f"{message} (line {line})")
    failure.line = line
    return failure
