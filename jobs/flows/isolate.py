"""The process in which expressions run: V8, no credentials, no database. Started by jobs.flows.javascript.

A process of its own, because V8 ends the whole process when memory runs out at a bad moment, and because some of its
loops cannot be interrupted: then the process is killed, and the worker goes on. Imports nothing of ours.

Each request gets an isolate that nobody used before and that is thrown away afterwards, so that no expression finds
anything of another one. Isolates are made ahead, while no request waits.

Request:  u32 length, JSON {"header": text for the harness, "sizes": [...], "heap_mb": n}, then the texts of those sizes.
Answer:   one byte (R ready, once; then A answer, M out of memory, E engine failed), u64 length, text.
"""

import itertools
import json
import os
import resource
import select
import socket
import struct
import sys
from collections import deque
from pathlib import Path
from typing import Any

from py_mini_racer import JSEvalException, JSOOMException
from py_mini_racer._context import Context, ContextType
from py_mini_racer._dll import init_mini_racer, mr_callback_func
from py_mini_racer._objects import ObjectFactoryImpl

AHEAD = 6  # isolates kept ready; 0.7 MB each
MAX_HEAP_MB = 512
MAX_DATA_MB = 1024  # of the whole process: V8's heap, buffers outside of it, texts on their way

# jitless: nothing is compiled to machine code, where most of V8's security holes are; expressions are short.
FLAGS = ("--single-threaded", "--jitless", "--no-expose-wasm", f"--max-old-space-size={MAX_HEAP_MB}")
# What could outlive a call, wait, or see other threads has no use in an expression.
REMOVED = ("Atomics", "SharedArrayBuffer", "WebAssembly", "FinalizationRegistry", "console")

_NOTHING = {"pure": False, "awaits": False, "thens": False, "truth": False}
WARM_UP = [
    json.dumps(
        {
            "programs": [
                {**_NOTHING, "source": "results.a", "names": ["x", "results"]},
                {**_NOTHING, "source": "return variable('a')", "names": ["variable"]},
            ],
            "values": {"x": 0},
            "results": {"a": 0},
            "calls": {"variable": {}},
            "maxLength": 1000,
        }
    )
]


class Isolate:
    """One isolate with the harness in it."""

    def __init__(self, dll: Any, harness: str) -> None:
        self._dll = dll

        @mr_callback_func
        def callback(callback_id: int, raw: Any) -> None:
            self._context.handle_callback_from_v8(callback_id, raw)

        self._callback = callback  # V8 calls it as long as the isolate lives
        handle = ContextType(dll.mr_init_context(callback))
        # No event loop: nothing here is waited for with asyncio.
        self._context = Context(dll, handle, None, ObjectFactoryImpl(), itertools.count(1))  # type: ignore[arg-type]
        self._main: Any = self._context.eval(harness)
        for (
            header
        ) in WARM_UP:  # V8 compiles a function when it is first called: now, not while somebody waits
            self._context.call_function(self._main, header, "{}")
        self._context.call_function(self._main)

    def run(self, header: str, texts: list[str], *, heap_mb: int) -> str:
        self._context.set_hard_memory_limit(heap_mb << 20)
        answer = self._context.call_function(self._main, header, *texts)
        if answer == "":  # something waits for promises; they are settled by now, or never will be
            answer = self._context.call_function(self._main)
        if not isinstance(answer, str):
            raise JSEvalException("the answer is no text")
        return answer

    def dispose(self) -> None:
        self._main = None
        self._dll.mr_free_context(self._context._ctx)


def serve(channel: socket.socket) -> None:
    """Answer requests until the other side closes."""
    dll = init_mini_racer(flags=FLAGS)
    harness = "\n".join(
        [
            *(f"delete globalThis.{name};" for name in REMOVED),
            Path(__file__).with_name("harness.js").read_text(encoding="utf-8"),
        ]
    )
    ready: deque[Isolate] = deque()
    ready.append(Isolate(dll, harness))
    channel.sendall(_framed(b"R", b""))
    reader = channel.makefile("rb")
    while True:
        while len(ready) < AHEAD and not _is_readable(channel):
            ready.append(Isolate(dll, harness))
        head = reader.read(4)
        if len(head) < 4:
            return
        request = json.loads(reader.read(struct.unpack("!I", head)[0]))
        texts = [reader.read(size).decode() for size in request["sizes"]]
        isolate = ready.popleft() if ready else Isolate(dll, harness)
        try:
            answer = isolate.run(request["header"], texts, heap_mb=request["heap_mb"])
            framed = _framed(b"A", answer.encode())
        except JSOOMException:
            framed = _framed(b"M", b"")
        except Exception as exc:
            framed = _framed(b"E", str(exc).encode(errors="replace"))
        del texts, request
        channel.sendall(framed)
        isolate.dispose()


def _framed(kind: bytes, text: bytes) -> bytes:
    return struct.pack("!cQ", kind, len(text)) + text


def _is_readable(channel: socket.socket) -> bool:
    return bool(select.select([channel], [], [], 0)[0])


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_DATA_MB << 20, MAX_DATA_MB << 20))
    serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # V8's threads need no farewell


if __name__ == "__main__":
    main()
