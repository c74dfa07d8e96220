"""What Go scripts depend on: modules of the packages they import, pinned in a lock of a go.mod and a go.sum.

    //go_mod: web          the workspace's dependencies/web.go.mod says which versions
    //go_mod:              or the lines that follow do, as comments
    //require example.org/greetings v1.2.0

A lock is the go.mod, then a line `//go.sum`, then the go.sum. A go.mod alone is a lock, too.
"""

import re
from dataclasses import dataclass

from jobs.dependencies.files import files_read
from jobs.dependencies.wanted import WantedFiles
from jobs.signatures.go import imported_packages

DEFAULT_MODULE = "mymod"
_SPLIT = "//go.sum\n"
_INLINE = re.compile(r"^//[ \t]*go_mod:[ \t]*$\n(?P<lines>(?:^//.*$\n?)*)", re.MULTILINE)
_MODULE = re.compile(r'^\s*module\s+"?(?P<path>[^\s"]+)', re.MULTILINE)


class WrongGoMod(ValueError):
    """A script asks for a go.mod that cannot be had; a sentence for its author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """The two files that pin the modules of a script."""

    go_mod: str
    go_sum: str = ""

    @property
    def path(self) -> str:
        """The path of the script's own module."""
        match = _MODULE.search(self.go_mod)
        return match["path"] if match else DEFAULT_MODULE

    def as_lock(self) -> str:
        return f"{self.go_mod.rstrip()}\n{_SPLIT}{self.go_sum}"


def read_lock(lock: str) -> Modules:
    """The files of a lock; those of a script without modules for ""."""
    go_mod, _, go_sum = lock.replace("\r\n", "\n").partition(_SPLIT)
    return Modules(go_mod=_with_module(go_mod), go_sum=go_sum)


def external_packages(code: str) -> list[str]:
    """Imported packages that are not of the standard library: a dot in the first part of their path tells."""
    return [path for path in imported_packages(code) if "." in path.partition("/")[0]]


def wanted_go_mod(code: str, files: WantedFiles) -> str:
    """The go.mod to begin with when a lock is made. Raises WrongGoMod."""
    code = code.replace("\r\n", "\n")
    if inline := _INLINE.search(code):
        return _with_module("\n".join(line[2:].strip() for line in inline["lines"].splitlines()) + "\n")
    names = files_read("go", code)
    if len(names) > 1:
        raise WrongGoMod(
            f"//go_mod: names {len(names)} files ({', '.join(names)}); a Go script has one go.mod."
        )
    [name] = names or [""]
    if name and name not in files.by_name:
        known = ", ".join(sorted(one for one in files.by_name if one)) or "none"
        raise WrongGoMod(
            f"The workspace has no dependencies/{name}.go.mod, which //go_mod: names; it has: {known}."
        )
    return _with_module(files.by_name.get(name, ""))


def _with_module(go_mod: str) -> str:
    return go_mod if _MODULE.search(go_mod) else f"module {DEFAULT_MODULE}\n\n{go_mod}"
