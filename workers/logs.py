"""Job output on its way to the database: at once when it trickles, in batches when it pours, in order, and
never more of one job in memory than its log may hold."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from workers.job_queue import Appended, Lease, LogPiece, SecretReads
from workers.masking import Masker

logger = logging.getLogger(__name__)

# Output waits this long for company after the previous statement began; the first line after a pause waits for nothing.
COALESCE_S = 0.03
_PIECE_CHARS = 512 * 1024  # of one job in one statement
_STATEMENT_CHARS = 4 * 1024 * 1024

Append = Callable[[Sequence[LogPiece]], Awaitable[Appended]]


class LogWriter:
    """Sends the output of all slots of a worker, several jobs in one statement."""

    def __init__(self, append: Append, *, max_job_chars: int) -> None:
        self.max_job_chars = max_job_chars
        self._append = append
        self._waiting: dict[Lease, JobLog] = {}  # logs with something to send, oldest first
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()
        self._next_round: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._this_round: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Send until cancelled."""
        loop = asyncio.get_running_loop()
        begun_at = float("-inf")
        while True:
            await self._wake.wait()
            wait = begun_at + COALESCE_S - loop.time()
            if wait > 0 and not self._urgent.is_set():
                try:
                    await asyncio.wait_for(self._urgent.wait(), wait)
                except TimeoutError:
                    pass
            self._wake.clear()
            self._urgent.clear()
            begun_at = loop.time()
            this_round, self._next_round = self._next_round, loop.create_future()
            self._this_round = this_round
            try:
                await self._send()
            except Exception:
                logger.exception("a round of log output failed; what it held is lost")
            finally:
                this_round.set_result(None)
                self._this_round = None
            if self._waiting:
                self._wake.set()

    async def _send(self) -> None:
        sent: list[JobLog] = []
        pieces: list[LogPiece] = []
        room = _STATEMENT_CHARS
        for lease, log in list(self._waiting.items()):
            text = log.take(min(_PIECE_CHARS, room))
            room -= len(text)
            del self._waiting[lease]
            if log.has_text:
                self._waiting[lease] = log  # behind the others
            pieces.append(LogPiece(lease, text, log.secret_reads_of_taken))
            sent.append(log)
            if room <= 0:
                break
        answer = Appended(frozenset(), {})
        try:
            answer = await self._append(pieces)
        finally:
            for log in sent:
                if log.lease in answer.unmasked:
                    log.was_unmasked(answer.unmasked[log.lease])
                else:
                    log.sent(accepted=log.lease in answer.accepted)

    def has_output(self, log: "JobLog") -> None:
        """`log` has text to send."""
        self._waiting[log.lease] = log
        self._wake.set()

    async def finish(self, logs: "Sequence[JobLog]") -> None:
        """Return when all output of these is in the database: no more will come."""
        for log in logs:
            log.end()
        while any(log.is_pending for log in logs):
            await self.round_over()

    async def round_over(self) -> None:
        """Hurry, and return when the statement that is under way (or comes next) has been answered."""
        self._wake.set()
        self._urgent.set()
        await asyncio.shield(self._this_round or self._next_round)


class JobLog:
    """Where the output of one claim goes. Not for several threads."""

    def __init__(self, writer: LogWriter, lease: Lease) -> None:
        self.lease = lease
        self._writer = writer
        self._secret_reads = 0  # by the job while it runs; what was read in them is masked
        self._secrets: set[str] = set()
        self._masker = Masker(())
        self._taken = ""  # on the way to the database
        self._checked = ""  # before `_parts`: masked with all that the job had read when it was written
        self.secret_reads_of_taken: int | None = 0  # None: it is checked
        self._parts: list[str] = []
        self._total = 0  # characters accepted so far
        self._truncated = False
        self._ended = False
        self._in_flight = False
        self._lost = False

    @property
    def has_text(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._parts or self._checked)

    def mask(self, secrets: Iterable[str]) -> None:
        """Hide these values, too, in everything that is not sent yet."""
        self._mask_again("", secrets)

    def _mask_again(self, before: str, secrets: Iterable[str]) -> str:
        """Mask what is not sent, and the text `before` it, which is answered."""
        self._secrets.update(secrets)
        unsent = "".join(self._parts) + self._masker.end()
        self._masker = Masker(self._secrets)
        before = self._masker.feed(before)
        unsent = self._masker.feed(unsent)
        if self._ended or self._truncated:  # nothing more comes
            unsent += self._masker.end()
        self._parts = [unsent] if unsent else []
        return before

    def write(self, text: str) -> None:
        """Append output of the job; never blocks. Masks secrets, cuts off what exceeds the limit and says so."""
        self._accept(self._masker.feed(text))

    def _accept(self, text: str) -> None:
        if not text or self._lost or self._truncated:
            return
        text = storable(text)
        room = self._writer.max_job_chars - self._total
        if len(text) > room:
            self._truncated = True
            limit_mb = self._writer.max_job_chars // (1024 * 1024)
            text = f"{text[:room]}\n[the log is cut here: it exceeds MAX_LOG_SIZE_MB ({limit_mb})]\n"
        self._total += len(text)
        self._parts.append(text)
        if not self._in_flight:
            self._writer.has_output(self)

    @property
    def is_pending(self) -> bool:
        """Whether something is on the way to the database, or about to be."""
        return (self.has_text or self._in_flight) and not self._lost

    def end(self) -> None:
        """No more will come: what was kept back is sent, too."""
        self._ended = True
        self._accept(self._masker.end())

    async def finish(self) -> None:
        """Return when all output is in the database: no more will come."""
        await self._writer.finish([self])

    def abandon(self) -> None:
        """Drop what has not been sent: the claim is over."""
        self._lost = True
        self._parts.clear()
        self._checked = ""

    def take(self, limit: int) -> str:
        """For the writer: the next piece to send, at most about `limit` characters."""
        self._in_flight = True
        if self._checked:
            self.secret_reads_of_taken = None
            self._taken, self._checked = self._checked[:limit], self._checked[limit:]
            return self._taken
        self.secret_reads_of_taken = self._secret_reads
        text = "".join(self._parts)
        self._parts = [text[limit:]] if len(text) > limit else []
        self._taken = text[:limit]
        return self._taken

    def sent(self, *, accepted: bool) -> None:
        """For the writer: the piece it took has been answered."""
        self._in_flight = False
        self._taken = ""
        if not accepted:
            self.abandon()
        elif self.has_text:
            self._writer.has_output(self)

    def was_unmasked(self, reads: SecretReads) -> None:
        """For the writer: the piece it took was not stored, because secrets may be in it that we did not know of."""
        self._secret_reads = reads.count
        # It was written before we learned what had been read: it may go, whatever the job reads meanwhile. A job that
        # reads all the time would otherwise never have a log.
        self._checked = self._mask_again(self._taken, reads.secrets)
        self.sent(accepted=True)


class SilentLog(JobLog):
    """NO_LOGS: output goes nowhere."""

    def write(self, text: str) -> None:
        """Drop it."""


def storable(text: str) -> str:
    """`text` as PostgreSQL can store it: without NUL characters and halves of surrogate pairs."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text
