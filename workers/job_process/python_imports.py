"""`from f.folder.script import x`: scripts of the workspace as Python modules.

Those that can be told from the code came with the job; what is imported by a computed name is fetched while it runs. The
job's own token decides what it may read. Files that a script wrote next to itself come first.
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
from collections.abc import Mapping, Sequence
from types import ModuleType

_ROOTS = ("f", "u")
_TIMEOUT_S = 30


def install(code: str, scripts: Mapping[str, str], folders: Mapping[str, str]) -> None:
    """Let this process import the workspace's scripts; `code` is the script that asked first.

    `scripts` are those that came with the job: code by file ("f/ops/lib.py"). `folders` are paths of folders whose
    names differ as modules, by these: {"f/my_team": "f/my-team"}.
    """
    sys.meta_path.append(ScriptFinder(code, scripts, folders))


class ScriptFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds f.* and u.* modules among what came with the job, then through the raw script route of the API."""

    def __init__(self, code: str, scripts: Mapping[str, str], folders: Mapping[str, str]) -> None:
        self._sources = [code]
        self._scripts = scripts
        self._folders = folders
        self._found: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parts = fullname.split(".")
        if parts[0] not in _ROOTS:
            return None
        if len(parts) > 2:
            file = "/".join(parts) + ".py"
            source = self._scripts.get(file)
            script_path = self._script_path(parts)
            if source is None and not self._came_with_the_job(parts):
                source = self._fetch(script_path)
            if source is not None:
                self._found[fullname] = source
                self._sources.append(source)
                return importlib.machinery.ModuleSpec(fullname, self, origin=file)
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
        source = self._found[spec.name]
        module.__file__ = spec.origin
        linecache.cache[spec.origin] = (len(source), None, source.splitlines(keepends=True), spec.origin)
        exec(compile(source, spec.origin, "exec", dont_inherit=True), module.__dict__)

    def _script_path(self, parts: Sequence[str]) -> str:
        folder = "/".join(parts[:-1])
        return f"{self._folders.get(folder, folder)}/{parts[-1]}"

    def _came_with_the_job(self, folder: Sequence[str]) -> bool:
        """Whether something in `folder` did."""
        return any(path.startswith("/".join(folder) + "/") for path in self._scripts)

    def _is_a_folder(self, fullname: str) -> bool:
        if self._came_with_the_job(fullname.split(".")):
            return True
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
