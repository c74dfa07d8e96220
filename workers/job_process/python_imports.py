"""`from f.folder.script import x`: scripts of the workspace as Python modules, fetched while the job runs.

The job's own token decides what it may read. Files that a script wrote next to itself come first.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import linecache
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from types import ModuleType

_ROOTS = ("f", "u")
_TIMEOUT_S = 30


def install(code: str) -> None:
    """Let this process import the workspace's scripts; `code` is the script that asked first."""
    sys.meta_path.append(ScriptFinder(code))


class ScriptFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds f.* and u.* modules through the raw script route of the API."""

    def __init__(self, code: str) -> None:
        self._sources = [code]
        self._fetched: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parts = fullname.split(".")
        if parts[0] not in _ROOTS:
            return None
        if len(parts) > 2:
            script_path = "/".join(parts)
            source = self._fetch(script_path)
            if source is not None:
                self._fetched[fullname] = source
                self._sources.append(source)
                return importlib.machinery.ModuleSpec(fullname, self, origin=f"{script_path}.py")
            if not self._is_a_folder(fullname):
                raise ModuleNotFoundError(
                    f"no script {script_path} in this workspace, or no right to read it", name=fullname
                )
        spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [os.path.join(os.getcwd(), *parts)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None and spec.origin is not None
        source = self._fetched[spec.name]
        module.__file__ = spec.origin
        linecache.cache[spec.origin] = (len(source), None, source.splitlines(keepends=True), spec.origin)
        exec(compile(source, spec.origin, "exec", dont_inherit=True), module.__dict__)

    def _is_a_folder(self, fullname: str) -> bool:
        # Whether f.a.b is a folder can be told from sources that import something below it.
        inside = re.compile(rf"\b{re.escape(fullname)}\.\w")
        return any(inside.search(source) for source in self._sources)

    def _fetch(self, script_path: str) -> str | None:
        base = os.environ.get("BASE_INTERNAL_URL") or os.environ.get("WM_BASE_URL")
        workspace, token = os.environ.get("WM_WORKSPACE"), os.environ.get("WM_TOKEN")
        if not (base and workspace and token):
            raise ImportError(
                f"cannot import {script_path}: this job has no server to ask (WM_BASE_URL, WM_TOKEN)"
            )
        path = urllib.parse.quote(f"/api/w/{workspace}/scripts/raw/p/{script_path}.py")
        request = urllib.request.Request(
            base.rstrip("/") + path, headers={"Authorization": f"Bearer {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                content: bytes = answer.read()
        except urllib.error.HTTPError as error:
            if error.code in (401, 403, 404):
                return None
            raise ImportError(f"cannot import {script_path}: the server answered {error.code}") from error
        except urllib.error.URLError as error:
            raise ImportError(f"cannot import {script_path}: {error.reason}") from error
        return content.decode()
