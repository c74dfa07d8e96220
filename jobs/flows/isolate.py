"""The process in which expressions run: V8, no credentials, no database. Started by jobs.flows.javascript.

A process of its own, because V8 ends the whole process when memory runs out at a bad moment, and because some of its
loops cannot be interrupted: then the process is killed, and the worker goes on. Imports nothing of ours.

No expression finds anything of an earlier one. Most run in a *shared* isolate, in which nothing that they can reach can
be changed (hardening.js). Those whose text could change something (an assignment, a class, `eval`) get an isolate that
nobody used before and nobody uses after them: these are exact JavaScript, but cost milliseconds to make. Both are made
ahead, by a thread.

Request:  u32 length, JSON {"header": text for the harness, "is_shared": ..., "sizes": [...], "heap_mb": n}, the texts.
Answer:   one byte (R ready, once; then A answer, M out of memory, E engine failed: then it ends), u64 length, text.
"""

import itertools
import json
import os
import queue
import resource
import select
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any

from py_mini_racer import JSEvalException
from py_mini_racer._context import Context, ContextType
from py_mini_racer._dll import init_mini_racer, mr_callback_func
from py_mini_racer._objects import ObjectFactoryImpl

FRESH_AHEAD = 3  # isolates kept ready; a megabyte each
SHARED_AHEAD = 2
SHARED_CALLS = 2000  # of one shared isolate, then another takes over: its heap does not age
MAX_HEAP_MB = 512
MAX_DATA_MB = 1024  # of the whole process: V8's heap, buffers outside of it, texts on their way

# jitless: nothing is compiled to machine code, where most of V8's security holes are; expressions are short.
FLAGS = ("--single-threaded", "--jitless", f"--max-old-space-size={MAX_HEAP_MB}")
# What could outlive a call, wait, or see other threads has no use in an expression.
REMOVED = ("Atomics", "SharedArrayBuffer", "WebAssembly", "FinalizationRegistry", "console")
REMOVALS = "".join([f"delete globalThis.{name};" for name in REMOVED])
HARNESS = Path(__file__).with_name("harness.js").read_text(encoding="utf-8")
HARDENING = Path(__file__).with_name("hardening.js").read_text(encoding="utf-8")

MAIN = "__evaluate"  # what the harness calls its function, until its only call
INLINE_CHARS = 20_000  # of a request that goes to V8 as source; longer ones as values

_NOTHING = {"pure": False, "awaits": False, "thens": False, "truth": False}
WARM_UP = json.dumps(
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
)


class Isolate:
    """One isolate with the harness in it, and what makes it fit for many calls if it `is_shared`."""

    def __init__(self, dll: Any, *, is_shared: bool) -> None:
        self._dll = dll
        self.is_shared = is_shared
        self.calls = 0

        @mr_callback_func
        def callback(callback_id: int, raw_val_handle: Any) -> None:
            self._context.handle_callback_from_v8(callback_id, raw_val_handle)

        self._callback = callback  # V8 calls it as long as the isolate lives
        handle = ContextType(dll.mr_init_context(callback))
        # No event loop: nothing here is waited for with asyncio.
        self._context = Context(dll, handle, None, ObjectFactoryImpl(), itertools.count(1))  # type: ignore[arg-type]
        self._main: Any = self._context.eval(REMOVALS + HARNESS)
        if is_shared:
            self._context.eval(HARDENING)
        # V8 compiles a function when it is first called: now, not while somebody waits.
        self._context.eval(f"{MAIN}({WARM_UP}, '{{}}')")

    def run(self, header: str, texts: list[str], *, heap_mb: int) -> str:
        self.calls += 1
        self._context.set_hard_memory_limit(heap_mb << 20)
        if len(header) + sum(map(len, texts)) <= INLINE_CHARS:
            # Every word with V8 costs a change of threads; this way it is one.
            arguments = ",".join([json.dumps(text) for text in (header, *texts)])
            answer = self._context.eval(f"{MAIN}({arguments})")
        else:
            answer = self._context.call_function(self._main, header, *texts)
        if answer == "":  # something waits for promises; they are settled by now, or never will be
            answer = self._context.call_function(self._main)
        else:
            # V8 hands out an answer before it runs what promises have left to do. This waits for that: it belongs to
            # the time of this call, not to that of the next one.
            self._context.eval("0")
        if not isinstance(answer, str):
            raise JSEvalException("the answer is no text")
        return answer

    @property
    def is_out_of_memory(self) -> bool:
        return self._context.was_hard_memory_limit_reached()

    def dispose(self) -> None:
        self._main = None
        self._dll.mr_free_context(self._context._ctx)


class Stock:
    """Isolates made ahead, and used ones taken away, by a thread of its own: neither is on the way of a request."""

    def __init__(self, dll: Any) -> None:
        self._dll = dll
        self._ready: dict[bool, queue.SimpleQueue[Isolate]] = {
            True: queue.SimpleQueue(),
            False: queue.SimpleQueue(),
        }
        self._used: queue.SimpleQueue[Isolate] = queue.SimpleQueue()
        for is_shared, count in ((True, SHARED_AHEAD), (False, FRESH_AHEAD)):
            for _ in range(count):
                self._ready[is_shared].put(Isolate(dll, is_shared=is_shared))
        self._current = self._ready[True].get()
        threading.Thread(target=self._replace, daemon=True).start()

    def take(self, *, is_shared: bool) -> Isolate:
        return self._current if is_shared else self._ready[False].get()

    def give_back(self, isolate: Isolate) -> None:
        """After the answer: making an isolate beside an evaluation would slow that down."""
        if isolate is self._current:
            if isolate.calls < SHARED_CALLS:
                return
            self._current = self._ready[True].get()
        self._used.put(isolate)

    def _replace(self) -> None:
        while True:
            used = self._used.get()
            used.dispose()
            self._ready[used.is_shared].put(Isolate(self._dll, is_shared=used.is_shared))


def serve(channel: socket.socket) -> None:
    """Answer requests until the other side closes."""
    stock = Stock(init_mini_racer(flags=FLAGS))
    channel.sendall(_framed(b"R", b""))
    reader = channel.makefile("rb")
    while len(head := reader.read(4)) == 4:
        request = json.loads(reader.read(struct.unpack("!I", head)[0]))
        texts = [reader.read(size).decode() for size in request["sizes"]]
        isolate = stock.take(is_shared=request["is_shared"])
        try:
            answer = isolate.run(request["header"], texts, heap_mb=request["heap_mb"])
        except JSEvalException as exc:
            # What is left of this isolate may hold much memory, and work on: the process ends with it.
            channel.sendall(
                _framed(b"M" if isolate.is_out_of_memory else b"E", str(exc).encode(errors="replace"))
            )
            return
        channel.sendall(_framed(b"A", answer.encode()))
        del texts, request, answer
        stock.give_back(isolate)


def end_with(parent: int, channel: socket.socket) -> None:
    """End this process when the other side is gone, whatever V8 is busy with."""
    poll = select.poll()
    poll.register(channel, select.POLLRDHUP | select.POLLHUP)
    while not poll.poll(5000) and os.getppid() == parent:
        pass
    os._exit(0)


def _framed(kind: bytes, text: bytes) -> bytes:
    return struct.pack("!cQ", kind, len(text)) + text


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_DATA_MB << 20, MAX_DATA_MB << 20))
    channel = socket.socket(fileno=int(sys.argv[1]))
    threading.Thread(target=end_with, args=(os.getppid(), channel), daemon=True).start()
    serve(channel)
    os._exit(0)  # V8's threads need no farewell


if __name__ == "__main__":
    main()
