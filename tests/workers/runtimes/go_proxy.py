"""A Go module proxy on this machine, for tests: what proxies answer is a folder of files."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

Files = Mapping[str, bytes]


def module(path: str, version: str, source: str, *, go_mod: str = "") -> Files:
    """What a proxy has of one version of a module with one source file."""
    go_mod = go_mod or f"module {path}\n\ngo 1.20\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{path}@{version}/go.mod", go_mod)
        archive.writestr(f"{path}@{version}/lib.go", source)
    return {
        f"/{path}/@v/list": f"{version}\n".encode(),
        f"/{path}/@latest": json.dumps({"Version": version}).encode(),
        f"/{path}/@v/{version}.info": json.dumps({"Version": version}).encode(),
        f"/{path}/@v/{version}.mod": go_mod.encode(),
        f"/{path}/@v/{version}.zip": packed.getvalue(),
    }


@contextmanager
def serving(files: Files) -> Iterator[str]:
    """The address of a proxy that has these files."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = files.get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(found or b"not found")

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
