"""Scripts as strangers paste them, on a running site with a real worker."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.browser.conftest import (  # noqa: F401
    _running_site,
    _running_worker,
    ada,
    browser_database,
    member,
    site,
    worker,
)
from tests.flows.conftest import http  # noqa: F401

SALES = "region,amount\nnorth,10\nsouth,20\nnorth,5\n"


class _Internet(BaseHTTPRequestHandler):
    """The few addresses that the scripts ask for."""

    def do_GET(self) -> None:
        kind, body = (
            ("application/json", json.dumps({"path": self.path}))
            if self.path != "/sales.csv"
            else ("text/csv", SALES)
        )
        self._answer(kind, body)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = (asked.get("variables") or {}).get("name")
        self._answer("application/json", json.dumps({"data": {"hello": f"Hello {name}"}}))

    def _answer(self, kind: str, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture(scope="session")
def internet() -> Iterator[str]:
    """A web server on this machine: /sales.csv, JSON at any other address, GraphQL for whoever posts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Internet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
