"""PostgreSQL: statements run one after the other on one connection, in autocommit mode, as psql would run them.

No code of users runs here but SQL, on their own server, so there is no sandbox: it is done in the worker's process.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus

from workers.runtimes import failures
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site
from workers.runtimes.sql.collecting import ResultWriter
from workers.runtimes.sql.postgres_connect import Target, connected, target_of
from workers.runtimes.sql.postgres_pool import Connection, PostgresPool
from workers.runtimes.sql.postgres_values import TypedText, adapters, typed
from workers.runtimes.sql.script import SqlJob, database_of, sql_job
from workers.runtimes.sql.statements import Statement

_BATCH_ROWS = 500  # that are in memory at once, besides the result
_THREAD_CELLS = 1000  # more values than this are encoded off the event loop
_THREAD_CHARACTERS = 200_000
_PORTAL_PARAMETER = re.compile(r"parameter \$(\d+)")


class Postgresql:
    """Executor for language postgresql."""

    language = "postgresql"
    default_tag = "postgresql"

    def __init__(self, site: Site) -> None:
        self._blocked = site.blocked
        self._pool = PostgresPool()
        self._adapters = adapters()

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run. A statement that is running when the job is stopped is cancelled on the server."""
        job = sql_job(execution, "postgresql")
        for statement in job.statements:
            _refuse_copy(statement)
        calls = [(statement, *_with_values(statement, job)) for statement in job.statements]
        target = target_of(database_of(execution, "postgresql"))
        writer = ResultWriter(job.collection, statement_count=len(calls), limit=execution.limits.result_bytes)
        try:
            async with (
                asyncio.timeout(execution.timeout_s),
                self._pool.connection(
                    (execution.workspace_id, target.key),
                    lambda: connected(target, self._adapters, self._blocked),
                ) as connection,
            ):
                await _execute(connection, calls, writer, log, target, job)
        except TimeoutError:
            raise failures.timed_out(execution.timeout_s) from None
        return Outcome(result_json=writer.text(), mem_peak_kb=0)

    async def close(self) -> None:
        """Close the connections that no job uses."""
        await self._pool.close()


async def _execute(
    connection: Connection,
    calls: Sequence[tuple[Statement, str, Sequence[TypedText | None]]],
    writer: ResultWriter,
    log: LogSink,
    target: Target,
    job: SqlJob,
) -> None:
    def notice(diagnostic: psycopg.errors.Diagnostic) -> None:
        log.write(f"{diagnostic.severity}:  {diagnostic.message_primary}\n")

    connection.add_notice_handler(notice)
    try:
        for index, (statement, text, values) in enumerate(calls):
            collecting = writer if writer.wants(index) else None
            if collecting is not None:
                collecting.begin()
            try:
                await _run(connection, text, values, collecting)
            except psycopg.Error as error:
                raise _failed(error, statement, text, target, job) from None
            except UnicodeDecodeError:
                raise ExecutionFailed(
                    {
                        "name": "BadEncoding",
                        "message": f"The statement on line {statement.line} returned text that is not valid UTF-8.",
                    }
                ) from None
        if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            log.write(
                "The script left a transaction open: it was rolled back. End it with COMMIT to keep its changes.\n"
            )
    finally:
        connection.remove_notice_handler(notice)


async def _run(
    connection: Connection, text: str, values: Sequence[TypedText | None], writer: ResultWriter | None
) -> None:
    """Execute one statement; its rows go to `writer` in batches. All rows are read, wanted or not: to stop reading
    would cancel an INSERT ... RETURNING."""
    rows: list[Any] = []
    async with psycopg.AsyncRawCursor(connection) as cursor:
        try:
            rows_coming = cast(
                AsyncGenerator[Any, None], cursor.stream(text, values or None, size=_BATCH_ROWS)
            )
            async with aclosing(rows_coming) as stream:
                async for row in stream:
                    rows.append(row)
                    if len(rows) >= _BATCH_ROWS:
                        if writer is not None and writer.needs_more:
                            await _write(writer, cursor, rows)
                        rows = []
        except psycopg.ProgrammingError as error:
            # How psycopg says that a statement has no rows to stream: it has been executed all the same.
            if error.sqlstate is not None or connection.info.transaction_status == TransactionStatus.ACTIVE:
                raise
            return
        if rows and writer is not None:
            await _write(writer, cursor, rows)


async def _write(writer: ResultWriter, cursor: psycopg.AsyncRawCursor[Any], rows: list[Any]) -> None:
    columns = [column.name for column in cursor.description or ()]
    if len(rows) * len(columns) > _THREAD_CELLS or _characters(rows) > _THREAD_CHARACTERS:
        await asyncio.to_thread(writer.add, columns, rows)
    else:
        writer.add(columns, rows)


def _characters(rows: list[Any]) -> int:
    return sum(len(value) for row in rows for value in row if isinstance(value, str))


def _refuse_copy(statement: Statement) -> None:
    if statement.words[:1] == ("copy",) and re.search(
        r"\b(?:from\s+stdin|to\s+stdout)\b", statement.text, re.I
    ):
        raise ExecutionFailed(
            {
                "name": "CopyRefused",
                "message": f"COPY with STDIN or STDOUT (line {statement.line}) needs a client that sends and receives "
                "data. Use INSERT with arguments to write rows and SELECT to read them.",
            }
        )


def _with_values(statement: Statement, job: SqlJob) -> tuple[str, list[TypedText | None]]:
    """The statement with its parameters numbered from 1 without gaps, as PostgreSQL wants them, and their values."""
    numbers: dict[str, int] = {}
    parts: list[str] = []
    at = statement.start
    for token in statement.parameters:
        if token.text not in job.parameters:
            continue  # $0: the server has a message for that
        number = numbers.setdefault(token.text, len(numbers) + 1)
        parts += [statement.text[at - statement.start : token.start - statement.start], f"${number}"]
        at = token.end
    parts.append(statement.text[at - statement.start :])
    values = [typed(job.parameters[marker], job.values[marker]) for marker in numbers]
    return "".join(parts), values


def _failed(
    error: psycopg.Error, statement: Statement, text: str, target: Target, job: SqlJob
) -> ExecutionFailed:
    """The server's message with the author's own line."""
    diagnostic = error.diag
    if error.sqlstate is None:
        return ExecutionFailed(
            {
                "name": "ConnectionLost",
                "message": f"The connection to {target.address} was lost during the statement on line {statement.line}; "
                f"whether that took effect is not known: {' '.join(str(error).split())}",
            }
        )
    line = statement.line
    if diagnostic.statement_position and diagnostic.statement_position.isdigit():
        line += text.count("\n", 0, int(diagnostic.statement_position) - 1)
    message = f"{diagnostic.message_primary} (line {line})"
    match = _PORTAL_PARAMETER.search(diagnostic.context or "")
    if match and (name := _argument_at(int(match[1]), statement, job)):
        message = f"The argument {name}: {message}"
    if diagnostic.message_detail:
        message += f"\nDETAIL: {diagnostic.message_detail}"
    if diagnostic.message_hint:
        message += f"\nHINT: {diagnostic.message_hint}"
    extra = {
        "sqlstate": error.sqlstate,
        "line": line,
        "detail": diagnostic.message_detail,
        "hint": diagnostic.message_hint,
        "context": diagnostic.context,
        "schema": diagnostic.schema_name,
        "table": diagnostic.table_name,
        "column": diagnostic.column_name,
        "constraint": diagnostic.constraint_name,
    }
    return ExecutionFailed(
        {
            "name": type(error).__name__,
            "message": message,
            "extra": {key: value for key, value in extra.items() if value is not None},
        }
    )


def _argument_at(number: int, statement: Statement, job: SqlJob) -> str | None:
    markers = list(
        dict.fromkeys(token.text for token in statement.parameters if token.text in job.parameters)
    )
    return job.parameters[markers[number - 1]].name if 0 < number <= len(markers) else None
