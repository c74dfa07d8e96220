"""One helper process: started, called, watched, killed."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

START_LIMIT_S = 30.0
TOO_MUCH_MEMORY = "needs too much memory"
MAX_IDLE_MB = 160
_PROGRAM = Path(__file__).parents[1] / "isolate.py"


class LimitExceeded(Exception):
    """The call took too long, or too much memory; the text says which, for the author."""


class EngineLost(Exception):
    """The helper process died, and not because of a limit; the call may be tried again."""


class Killed(Exception):
    """The helper process was killed: by us, for another call that was canceled; by an operator; or by the kernel."""


class Helper:
    """One helper process. Used by one thread at a time, except for `kill`."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_PROGRAM), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # V8 describes its end at length
                env={"PATH": os.defpath, "LANG": "C.UTF-8", "TZ": os.environ.get("TZ", "UTC")},
                cwd="/",
                start_new_session=True,  # a Ctrl-C is the worker's
            )
        self._channel = ours
        self._is_killed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        """Return when it can take a call. Raises EngineLost."""
        try:
            self._receive(time.monotonic() + START_LIMIT_S)
        except (OSError, EngineLost, LimitExceeded) as exc:
            self.kill()
            raise EngineLost("the helper process for expressions does not start") from exc

    def call(
        self, header: str, texts: Sequence[bytes], *, is_shared: bool, heap_mb: int, limit_s: float
    ) -> str:
        """Evaluate; the harness' answer. Raises LimitExceeded, EngineLost, Killed: then it is gone."""
        deadline = time.monotonic() + limit_s
        about = json.dumps(
            {
                "header": header,
                "is_shared": is_shared,
                "sizes": [len(text) for text in texts],
                "heap_mb": heap_mb,
            }
        ).encode()
        try:
            self._channel.settimeout(max(limit_s, 0.001))
            self._channel.sendall(b"".join([struct.pack("!I", len(about)), about, *texts]))
            kind, text = self._receive(deadline)
        except TimeoutError:
            self.kill()
            raise LimitExceeded(f"took longer than {limit_s:g} seconds") from None
        except (OSError, EngineLost):
            if not self._is_killed:
                try:
                    self._process.wait(timeout=1)  # it closed its side: its end is near, and tells why
                except subprocess.TimeoutExpired:
                    pass
            self.kill()
            if self._process.returncode == -signal.SIGKILL:
                raise Killed from None
            # V8 ended its process. It does nothing but this call: it is this call that needs the memory.
            raise LimitExceeded(TOO_MUCH_MEMORY) from None
        if kind == b"A":
            return text.decode()
        self.kill()
        if kind == b"M":
            raise LimitExceeded(TOO_MUCH_MEMORY)
        raise EngineLost(text.decode(errors="replace"))

    def _receive(self, deadline: float) -> tuple[bytes, bytes]:
        kind, length = struct.unpack("!cQ", self._read(9, deadline))
        return kind, self._read(length, deadline)

    def _read(self, length: int, deadline: float) -> bytes:
        buffer = bytearray(length)
        view = memoryview(buffer)
        while view:
            self._channel.settimeout(max(deadline - time.monotonic(), 0.001))
            count = self._channel.recv_into(view)
            if not count:
                raise EngineLost("the helper process for expressions ended")
            view = view[count:]
        return bytes(buffer)

    @property
    def is_alive(self) -> bool:
        return not self._is_killed and self._process.poll() is None

    @property
    def is_bloated(self) -> bool:
        """Whether big inputs left it with more memory than it should keep."""
        try:
            return psutil.Process(self.pid).memory_info().rss > MAX_IDLE_MB << 20
        except psutil.NoSuchProcess:
            return True

    def kill(self) -> None:
        """End it, whatever it does. Safe from any thread, and more than once."""
        self._is_killed = True
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        try:
            self._channel.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # closed by the other side already

    def close(self) -> None:
        self.kill()
        self._channel.close()
