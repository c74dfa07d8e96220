"""Doors that steps of flows pass: a test knows who stands before one, and decides when it opens."""

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.browser.site import wait_until

LONGEST_WAIT_S = 150


class Gate:
    """An HTTP server. Doors are open until they are closed; whoever passes door "b" as the n-th gets the text "b n"."""

    def __init__(self) -> None:
        self.visits: Counter[str] = Counter()
        self._closed: set[str] = set()
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def step(self, id: str, *, n: str | None = None, **options: Any) -> dict[str, Any]:
        """A module that passes door `id`, or `id`-`n`, where n is an expression; its result is what the gate says."""
        inputs: dict[str, Any] = {"door": {"type": "static", "value": id}}
        if n is not None:
            inputs["n"] = {"type": "javascript", "expr": n}
        code = f'door="$1"\nn="$2"\ncurl -fsS --max-time {LONGEST_WAIT_S} "{self.url}/$door${{n:+-$n}}"\n'
        value = {"type": "rawscript", "language": "bash", "content": code, "input_transforms": inputs}
        return {"id": id, "value": value, **options}

    def close(self, *doors: str) -> None:
        """Let nobody through."""
        with self._changed:
            self._closed.update(doors)

    def open(self, *doors: str) -> None:
        """Let everybody through these doors; without names, through all."""
        with self._changed:
            self._closed.difference_update(doors or set(self._closed))
            self._changed.notify_all()

    def wait_for(self, *doors: str, visits: int = 1) -> None:
        """Until so many have come to each of these doors."""
        wait_until(
            lambda: all(self.visits[door] >= visits for door in doors),
            f"visit {visits} at {', '.join(doors)}",
            60,
        )

    def shut_down(self) -> None:
        """Open everything and stop."""
        self.open()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = gate._pass(self.path.removeprefix("/")).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    self.close_connection = True  # whoever waited here is dead

            def log_message(self, *args: Any) -> None: ...

        return Handler

    def _pass(self, door: str) -> str:
        with self._changed:
            self.visits[door] += 1
            number = self.visits[door]
            self._changed.wait_for(lambda: door not in self._closed, LONGEST_WAIT_S)
        return f"{door} {number}"
