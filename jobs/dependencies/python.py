"""What a Python script has to have installed, told from its imports and from its comments. No I/O."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from jobs.dependencies.imports import imported_paths
from jobs.dependencies.python_comments import (
    HINT,
    Comments,
    Pin,
    WrongRequirement,
    joined,
    read_comments,
    read_file,
)
from jobs.dependencies.python_packages import package_of
from jobs.dependencies.wanted import WantedFiles

__all__ = ["PythonRequirements", "WrongRequirement", "modules_of", "needs_nothing", "requirements_of"]

_WORKSPACE = ("f", "u")  # roots of modules that are scripts of the workspace


@dataclass(frozen=True, kw_only=True)
class PythonRequirements:
    """What to install, and for which Python."""

    requirements: list[str]  # as in requirements.txt, sorted, each once
    python: str | None = None  # specifier (">=3.12,<3.14"); None: any
    latest: bool = False  # the newest Python that there is, instead of the usual one


@dataclass(kw_only=True)
class _Found:
    """What the scripts say together."""

    stated: list[str] = field(default_factory=list)
    inferred: dict[str, set[str]] = field(default_factory=dict)  # imported root or module -> packages
    pins: dict[str, list[Pin]] = field(default_factory=dict)  # by the same
    python: list[str] = field(default_factory=list)
    latest: bool = False
    wants_default_file: bool = False


def requirements_of(
    code: str, path: str | None, *, imports: Mapping[str, str], wanted_files: WantedFiles
) -> PythonRequirements:
    """What the script `code` at `path` needs, together with the scripts in `imports` (code by path) that it reaches.

    A script that says #requirements: speaks for all that it imports too. Raises WrongRequirement.
    """
    found = _Found()
    _collect(found, code, path or "tmp/main", imports, wanted_files, seen=set())
    if found.wants_default_file:
        found.stated += read_file(wanted_files.by_name[""], "")
    stated_names = {name for one in found.stated if (name := _name(one))}
    inferred = {one for one in _inferred(found) if _name(one) not in stated_names}
    python = joined(found.python)
    return PythonRequirements(
        requirements=sorted({*found.stated, *inferred}), python=python, latest=found.latest
    )


def needs_nothing(code: str) -> bool:
    """Certain, and quickly, that `code` needs no package and no particular Python, unless a default dependency file
    applies to it. Code that cannot be parsed needs nothing."""
    if HINT.search(code):
        return False
    tree = _parsed(code)
    if tree is None or "import" not in code:
        return True
    if any(package_of(module) for module, _ in _imports(tree)):
        return False
    return not any(_imports_a_script(node) for node in ast.walk(tree))


def _imports_a_script(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return bool(node.level) or (node.module or "").partition(".")[0] in _WORKSPACE
    return isinstance(node, ast.Import) and any(name.name.startswith(("f.", "u.")) for name in node.names)


@lru_cache(maxsize=512)
def modules_of(code: str) -> tuple[str, ...]:
    """Dotted names of the modules of packages that `code` imports when it is loaded; in its order, each once."""
    tree = _parsed(code) if "import" in code else None
    if tree is None:
        return ()
    found = []
    for statement in _statements(tree):
        names = [alias.name for alias in statement.names]
        if isinstance(statement, ast.ImportFrom):
            module = "" if statement.level else statement.module or ""
            # In a namespace of many packages it is the modules that are imported: from google.cloud import storage.
            names = [module] if package_of(module) or not module else [f"{module}.{name}" for name in names]
        found += [name for name in names if name.partition(".")[0] not in _WORKSPACE and package_of(name)]
    return tuple(dict.fromkeys(found))


def _collect(
    found: _Found, code: str, path: str, imports: Mapping[str, str], files: WantedFiles, seen: set[str]
) -> None:
    seen.add(path)
    said = read_comments(code, path)
    found.python += said.python
    found.latest |= said.latest
    for name in (*said.files, *said.extra_files):
        found.stated += read_file(_file(files, name, path), name)
    found.stated += said.extra
    if said.requirements is not None:
        found.stated += said.requirements
        return
    if "" in files.by_name and not (said.extra or said.extra_files):
        found.wants_default_file = True
    else:
        _infer(found, code, said)
    for imported in imported_paths("python3", code, path):
        if imported in imports and imported not in seen:
            _collect(found, imports[imported], imported, imports, files, seen)


def _infer(found: _Found, code: str, said: Comments) -> None:
    tree = _parsed(code)
    if tree is None:
        return
    for module, lines in _imports(tree):
        root = module.partition(".")[0]
        if root in _WORKSPACE or not root:
            continue
        package = package_of(module)
        pins = [said.pins[line] for line in lines if line in said.pins]
        if package is None and not pins:
            continue
        # Modules of a namespace that many packages fill are pinned one by one, others by their root.
        key = root if package == package_of(root) else package or module
        found.inferred.setdefault(key, set()).update([package] if package else [])
        found.pins.setdefault(key, []).extend(pins)


def _inferred(found: _Found) -> Iterator[str]:
    for key, packages in found.inferred.items():
        pins = found.pins[key]
        if not pins:
            yield from packages
            continue
        overriding = [pin for pin in pins if pin.overrides]
        yield from (pin.requirement for pin in overriding[-1:] or pins)


def _imports(tree: ast.Module) -> Iterator[tuple[str, range]]:
    """Dotted names of what is imported when `tree` is loaded, with the lines of the statement.

    For `from a import b` it is a.b, which may be a module or not; relative ones begin with a dot.
    """
    for node in _statements(tree):
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if isinstance(node, ast.Import):
            yield from ((alias.name, lines) for alias in node.names)
        elif node.level:
            yield "." * node.level + (node.module or ""), lines
        else:
            yield from ((f"{node.module}.{alias.name}".removesuffix(".*"), lines) for alias in node.names)


def _statements(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that are carried out when `tree` is loaded, in order.

    Those in functions, for type checkers only, and those that stand in for one that failed are optional: left out.
    """
    pending: list[ast.stmt] = list(reversed(tree.body))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If):
            pending += reversed([*([] if _is_type_checking(node.test) else node.body), *node.orelse])
        elif isinstance(node, (ast.Try, ast.TryStar)):
            pending += reversed([*node.body, *node.orelse, *node.finalbody])
        elif isinstance(node, (ast.With, ast.For, ast.While)):
            pending += reversed(node.body)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _file(files: WantedFiles, name: str, path: str) -> str:
    if name in files.by_name:
        return files.by_name[name]
    if not name:
        raise WrongRequirement(f"{path} asks for the default dependency file, and this workspace has none")
    known = ", ".join(sorted(one for one in files.by_name if one)) or "none"
    raise WrongRequirement(
        f"{path}: this workspace has no dependency file {name} for Python; it has: {known}"
    )


def _name(requirement: str) -> str | None:
    try:
        return canonicalize_name(Requirement(requirement).name)
    except InvalidRequirement:  # an address without a name
        return None
