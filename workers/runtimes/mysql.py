"""MySQL and MariaDB: statements run one after the other on a connection of the job's own, in autocommit mode.

No code of users runs here but SQL, on their own server, so there is no sandbox. PyMySQL waits in threads: one for each
job that runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pymysql  # type: ignore[import-untyped]
from pymysql.constants import SERVER_STATUS  # type: ignore[import-untyped]
from pymysql.cursors import SSCursor  # type: ignore[import-untyped]

from workers.networks import BlockedNetworks
from workers.runtimes import failures
from workers.runtimes.base import Execution, ExecutionFailed, LogSink, Outcome, Site
from workers.runtimes.sql.collecting import ResultWriter
from workers.runtimes.sql.mysql_values import CONVERSIONS, literal
from workers.runtimes.sql.resources import CONNECT_S, bad_resource, host_of, port_of, text_of
from workers.runtimes.sql.script import SqlJob, database_of, sql_job
from workers.runtimes.sql.statements import Statement

Connection = Any  # pymysql.Connection
logger = logging.getLogger(__name__)

_BATCH_ROWS = 500  # that are in memory at once, besides the result
_STOP_S = 5.0  # how long a server may take to end a statement
_MOST_THREADS = 256  # more than any worker has slots
_SERVERS_LINE = re.compile(r" at line (\d+)$")


@dataclass(frozen=True, slots=True)
class _Target:
    host: str
    port: int
    user: str
    password: str
    database: str
    tls: ssl.SSLContext | None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class Mysql:
    """Executor for language mysql."""

    language = "mysql"
    default_tag = "mysql"

    def __init__(self, site: Site) -> None:
        self._blocked = site.blocked
        self._threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="mysql")

    async def run(self, execution: Execution, log: LogSink) -> Outcome:
        """See Executor.run. A statement that is running when the job is stopped is killed on the server."""
        job = sql_job(execution, "mysql")
        for statement in job.statements:  # what does not fit is told before anything is sent
            _with_literals(statement, job, lambda text: text)
        target = _target(database_of(execution, "mysql"))
        writer = ResultWriter(
            job.collection, statement_count=len(job.statements), limit=execution.limits.result_bytes
        )
        session = _Session(target, self._blocked)
        running = asyncio.get_running_loop().run_in_executor(self._threads, session.run, job, writer)
        try:
            async with asyncio.timeout(execution.timeout_s):
                notes = await asyncio.shield(running)
        except TimeoutError:
            await self._stop(session, running)
            raise failures.timed_out(execution.timeout_s) from None
        except asyncio.CancelledError:
            await self._stop(session, running)
            raise
        for note in notes:
            log.write(note + "\n")
        return Outcome(result_json=writer.text(), mem_peak_kb=0)

    async def _stop(self, session: _Session, running: asyncio.Future[list[str]]) -> None:
        """End the statement on the server; cut the connection when the server does not answer."""
        session.is_stopping = True
        killing = asyncio.get_running_loop().run_in_executor(self._threads, session.kill_on_server)
        both: list[asyncio.Future[Any]] = [running, killing]
        if session.is_connected:
            await asyncio.wait(both, timeout=_STOP_S)
        session.cut()
        await asyncio.wait(both, timeout=_STOP_S)
        for one in both:
            one.add_done_callback(_look_away)


def _look_away(ended: asyncio.Future[Any]) -> None:
    """Nobody wants to know any more how it ended."""
    if not ended.cancelled():
        ended.exception()


class _Session:
    """One connection, used in one thread; `kill_on_server` and `cut` are called from others."""

    def __init__(self, target: _Target, blocked: BlockedNetworks) -> None:
        self.is_stopping = False
        self._target = target
        self._blocked = blocked
        self._thread_id: int | None = None  # of the connection, on the server
        self._socket: socket.socket | None = None  # a second handle of it
        self._lock = threading.Lock()

    @property
    def is_connected(self) -> bool:
        """Whether the server can be asked to stop."""
        return self._thread_id is not None

    def run(self, job: SqlJob, writer: ResultWriter) -> list[str]:
        """Connect and execute; answers what is to be said in the log. Raises ExecutionFailed."""
        connection = self._connect()
        try:
            with connection:
                self._thread_id = connection.thread_id()
                for index, statement in enumerate(job.statements):
                    if self.is_stopping:
                        break
                    self._execute(connection, statement, job, writer if writer.wants(index) else None)
                if connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
                    return [
                        "The script left a transaction open: it is rolled back. End it with COMMIT to keep its changes."
                    ]
                return []
        finally:
            self._forget()

    def kill_on_server(self) -> None:
        """End the statement that the connection executes."""
        if self._thread_id is None:
            return
        try:
            with _open(self._target, self._connected_socket(_STOP_S)) as other:
                other.query(f"KILL QUERY {self._thread_id}")
        except (pymysql.MySQLError, OSError) as error:
            logger.warning("could not kill a statement on %s: %s", self._target.address, error)

    def cut(self) -> None:
        """Make whoever waits for the server give up."""
        with self._lock:
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is closed already

    def _forget(self) -> None:
        with self._lock:
            self._thread_id = None
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _connect(self) -> Connection:
        giving_up = threading.Timer(CONNECT_S, self.cut)
        giving_up.daemon = True
        giving_up.start()
        try:
            ours = self._connected_socket(CONNECT_S)
            with self._lock:
                self._socket = socket.socket(fileno=os.dup(ours.fileno()))
            if self.is_stopping:
                self.cut()
            return _open(self._target, ours)
        except (pymysql.MySQLError, OSError, RuntimeError, ValueError) as error:
            self._forget()
            raise _cannot_connect(self._target, _message(error)) from None
        finally:
            giving_up.cancel()

    def _connected_socket(self, timeout_s: float) -> socket.socket:
        """To one of the addresses that were looked at. Raises OSError."""
        addresses = self._blocked.resolve_here(self._target.host, self._target.port)
        for address in addresses:
            try:
                ours = socket.create_connection((address, self._target.port), timeout_s)
            except OSError:
                if address == addresses[-1]:
                    raise
                continue
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return ours
        raise OSError(f"{self._target.host} has no address")

    def _execute(
        self, connection: Connection, statement: Statement, job: SqlJob, writer: ResultWriter | None
    ) -> None:
        if writer is not None:
            writer.begin()
        text = _with_literals(statement, job, connection.escape)
        cursor = connection.cursor(SSCursor)
        try:
            cursor.execute(text)
            columns = [column[0] for column in cursor.description or ()]
            while columns and (rows := cursor.fetchmany(_BATCH_ROWS)):
                if writer is not None:
                    writer.add(columns, rows)
            while cursor.nextset():  # a procedure may return several; the first one counts
                pass
            cursor.close()
        except ExecutionFailed:
            self.kill_on_server()  # closing reads what is still to come
            with suppress(Exception):
                cursor.close()
            raise
        except UnicodeDecodeError:
            raise ExecutionFailed(
                {
                    "name": "BadEncoding",
                    "message": f"The statement on line {statement.line} returned text that is not valid UTF-8.",
                }
            ) from None
        except (pymysql.MySQLError, OSError, RuntimeError) as error:
            _abandon(cursor)
            raise _failed(error, statement, self._target) from None


def _abandon(cursor: Any) -> None:
    """Else PyMySQL reads the rest of the result when it is collected, from a connection that may be gone."""
    if cursor._result is not None:
        cursor._result.unbuffered_active = False


def _open(target: _Target, over: socket.socket) -> Connection:
    connection = pymysql.Connection(
        host=target.host,
        user=target.user,
        password=target.password,
        database=target.database or None,
        charset="utf8mb4",
        conv=CONVERSIONS,
        autocommit=True,
        local_infile=False,
        ssl=target.tls,
        ssl_disabled=target.tls is None,
        defer_connect=True,
    )
    connection.connect(over)
    return connection


def _target(resource: Mapping[str, Any]) -> _Target:
    return _Target(
        host=host_of(resource, "mysql"),
        port=port_of(resource, 3306),
        user=text_of(resource, "user") or "root",
        password=text_of(resource, "password"),
        database=text_of(resource, "database") or text_of(resource, "dbname"),
        tls=_tls(resource),
    )


def _tls(resource: Mapping[str, Any]) -> ssl.SSLContext | None:
    """None: unencrypted. `ssl: true` encrypts; with a root certificate the server is checked as well."""
    certificate = text_of(resource, "root_certificate_pem")
    if not resource.get("ssl") and not certificate:
        return None
    context = ssl.create_default_context()
    context.check_hostname = False
    if not certificate:
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        context.load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError):
        raise bad_resource("its root_certificate_pem is no certificate") from None
    return context


def _with_literals(statement: Statement, job: SqlJob, quote: Callable[[str], str]) -> str:
    """The statement with its parameters written out."""
    parts: list[str] = []
    at = statement.start
    for token, marker in zip(statement.parameters, _markers(statement, job), strict=True):
        parts += [
            statement.text[at - statement.start : token.start - statement.start],
            literal(job.parameters[marker], job.values[marker], quote),
        ]
        at = token.end
    return "".join(parts) + statement.text[at - statement.start :]


def _markers(statement: Statement, job: SqlJob) -> list[str]:
    """Of each of the statement's parameters: the first `?` of the second statement may be the script's fifth."""
    number = 0
    for earlier in job.statements:
        if earlier is statement:
            break
        number += sum(token.text == "?" for token in earlier.parameters)
    markers = []
    for token in statement.parameters:
        if token.text == "?":
            number += 1
        markers.append(f"?{number}" if token.text == "?" else token.text)
    for marker in markers:
        if marker not in job.parameters:
            raise ExecutionFailed(
                {
                    "name": "TooManyParameters",
                    "message": f"The script has more parameters than are possible: {marker}.",
                }
            )
    return markers


def _message(error: Exception) -> str:
    text = str(error.args[1]) if len(error.args) > 1 and isinstance(error.args[0], int) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _cannot_connect(target: _Target, why: str) -> ExecutionFailed:
    database = f", database {target.database}" if target.database else ""
    return ExecutionFailed(
        {
            "name": "ConnectionFailed",
            "message": f"Cannot connect to MySQL at {target.address}{database}, as {target.user}: {why}",
        }
    )


def _failed(error: Exception, statement: Statement, target: _Target) -> ExecutionFailed:
    """The server's message with the author's own line."""
    message = _message(error)
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    if not isinstance(error, pymysql.MySQLError) or code in (0, 2006, 2013):
        return ExecutionFailed(
            {
                "name": "ConnectionLost",
                "message": f"The connection to {target.address} was lost during the statement on line {statement.line}; "
                f"whether that took effect is not known: {message}",
            }
        )
    line = statement.line
    if match := _SERVERS_LINE.search(message):
        line += int(match[1]) - 1
        message = message[: match.start()]
    return ExecutionFailed(
        {
            "name": type(error).__name__,
            "message": f"{message} (line {line})",
            "extra": {"code": code, "line": line},
        }
    )
