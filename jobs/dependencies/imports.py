"""Imports between the scripts of a workspace."""

import re
from collections.abc import Sequence
from functools import lru_cache
from posixpath import dirname, join, normpath

_TYPESCRIPT = ("bun", "bunnative", "nativets", "deno")
_HINT = {
    "python3": re.compile(r"^[ \t]*(?:from\s+(?:\.|[uf]\.)|import\s+[uf]\.)", re.MULTILINE),
    **dict.fromkeys(_TYPESCRIPT, re.compile(r"""["'](?:\.\.?/|/?[uf]/)""")),
}
_ROOTS = ("f/", "u/")
_MOST_REMEMBERED = 50_000  # characters of code whose imports are kept


def imported_paths(language: str, code: str, path: str | None) -> Sequence[str]:
    """Paths of the scripts that `code`, at `path`, imports itself; in the order of the code, each once.

    Relative imports are read from `path`; without one, as of code in the folder tmp. What does not name a script of a
    workspace (f/..., u/...) is left out. Never raises: code that cannot be parsed imports nothing.
    """
    hint = _HINT.get(language)
    if hint is None or not hint.search(code):  # almost every script: no parsing
        return ()
    return (_parsed if len(code) <= _MOST_REMEMBERED else _parse)(language, code, path or "tmp/main")


def _parse(language: str, code: str, here: str) -> Sequence[str]:
    found = _python(code, here) if language == "python3" else _typescript(code, here)
    return tuple(dict.fromkeys(one for one in found if one.startswith(_ROOTS) and one.count("/") >= 2))


_parsed = lru_cache(maxsize=512)(_parse)


def _python(code: str, here: str) -> list[str]:
    import ast

    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name.replace(".", "/") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").replace(".", "/")
            if node.level:
                folder = here
                for _ in range(node.level):
                    folder = dirname(folder)
                module = join(folder, module) if module else folder
            # `from f.ops import lib` names a script by what is imported, `from f.ops.lib import x` by where from.
            if module.count("/") >= 2:
                found.append(module)
            elif module.count("/") == 1:
                found += [f"{module}/{alias.name}" for alias in node.names if alias.name != "*"]
    return found


def _typescript(code: str, here: str) -> list[str]:
    from jobs.dependencies.typescript import specifiers

    found = []
    for specifier in specifiers(code):
        name = specifier.text
        path = normpath(join(dirname(here), name)) if name.startswith(".") else name.lstrip("/")
        found.append(re.sub(r"\.(?:ts|tsx|js|mjs)$", "", path))
    return found
