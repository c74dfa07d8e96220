"""A Python package index on this machine, with packages that tests make up."""

from __future__ import annotations

import base64
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_BACKEND = """
import os, zipfile
{preamble}
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        for file in ("METADATA", "WHEEL", "RECORD"):
            wheel.write(file, "{name}-{version}.dist-info/" + file)
        wheel.write("{name}.py")
    return name
"""


class PackageIndex:
    """Serves the simple API; `user` (name:password), when given, is asked for. Add packages before they are wanted."""

    def __init__(self, *, user: str | None = None) -> None:
        self.files: dict[str, bytes] = {}  # by name
        self.asked: list[str] = []  # paths, in order
        self._user = user
        self.port = 0

    @property
    def url(self) -> str:
        """With the user's name and password."""
        user = f"{self._user}@" if self._user else ""
        return f"http://{user}127.0.0.1:{self.port}/simple"

    def add_wheel(
        self,
        name: str,
        version: str,
        files: Mapping[str, str],
        *,
        needs: Sequence[str] = (),
        python: str = "",
    ) -> None:
        """A wheel with `files` (text by path)."""
        info = f"{name}-{version}.dist-info"
        content = {
            **files,
            **{f"{info}/{file}": text for file, text in _metadata(name, version, needs, python).items()},
        }
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as wheel:
            for path, text in content.items():
                wheel.writestr(path, text)
        self.files[f"{name}-{version}-py3-none-any.whl"] = packed.getvalue()

    def add_source(self, name: str, version: str, module: str, *, preamble: str = "") -> None:
        """A package of one module that has to be built; `preamble` is code that its build runs."""
        files = {
            **_metadata(name, version, (), ""),
            f"{name}.py": module,
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            "backend.py": _BACKEND.format(name=name, version=version, preamble=preamble),
            "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        }
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in files.items():
                entry = tarfile.TarInfo(f"{name}-{version}/{path}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))
        self.files[f"{name}-{version}.tar.gz"] = packed.getvalue()

    def downloads(self, name: str) -> int:
        """How often files of `name` were fetched."""
        return sum(
            path.startswith(f"/files/{name}-") and not path.endswith(".metadata") for path in self.asked
        )

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        """Status and body for a request."""
        self.asked.append(path)
        if self._user and authorization != f"Basic {base64.b64encode(self._user.encode()).decode()}":
            return 401, b"who are you?"
        _, kind, name, *_ = [*path.split("/"), "", ""]
        if kind == "files" and name in self.files:
            return 200, self.files[name]
        links = [f'<a href="/files/{file}">{file}</a>' for file in self.files if file.startswith(f"{name}-")]
        if kind == "simple" and links:
            return 200, f"<!DOCTYPE html><body>{''.join(links)}</body>".encode()
        return 404, b""


@contextmanager
def serving(index: PackageIndex) -> Iterator[PackageIndex]:
    """`index`, at its url."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = index.answer(self.path, self.headers["Authorization"])
            self.send_response(status)
            self.send_header(
                "Content-Type", "text/html" if self.path.startswith("/simple") else "application/octet-stream"
            )
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index.port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield index
        finally:
            server.shutdown()


def _metadata(name: str, version: str, needs: Sequence[str], python: str) -> dict[str, str]:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {one}" for one in needs]
    lines += [f"Requires-Python: {python}"] if python else []
    return {
        "METADATA": "\n".join(lines) + "\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
