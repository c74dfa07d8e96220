"""Whether code depends on anything at all, told from its text alone, so that most deployments need no dependency job."""

import re
from functools import lru_cache

from jobs.dependencies.wanted import LANGUAGES_WITH_LOCKS

_MOST_REMEMBERED = 50_000  # characters of code whose answer is kept
# What is left after these may still be a builtin or another script: then a dependency job finds nothing, which is fine.
_TYPESCRIPT = re.compile(
    r"\b(?:import|export|from|require)\b[^\n]*[\"']|^\s*//\s*package_json:", re.MULTILINE
)
_GO = re.compile(r"[\"`][\w-]+(?:\.[\w-]+)+/|^\s*//\s*go_mod:", re.MULTILINE)
_PHP = re.compile(r"^\s*//\s*(?:require|composer_json):", re.MULTILINE)
_SIGNS = {
    **dict.fromkeys(("bun", "bunnative", "nativets", "deno"), _TYPESCRIPT),
    "go": _GO,
    "php": _PHP,
}


def needs_nothing(language: str, code: str) -> bool:
    """Certain that `code` has no dependencies, unless a dependency file of its workspace applies to it."""
    if language not in LANGUAGES_WITH_LOCKS:
        return True
    return (_look_remembered if len(code) <= _MOST_REMEMBERED else _look)(language, code)


def _look(language: str, code: str) -> bool:
    if language == "python3":
        return _python_needs_nothing(code)
    return not _SIGNS[language].search(code)


_look_remembered = lru_cache(maxsize=512)(_look)


def _python_needs_nothing(code: str) -> bool:
    import ast
    import sys

    if re.search(r"^#\s*(?:requirements|extra_requirements|pin|repin|py|///)", code, re.MULTILINE):
        return False
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            if node.level:
                return False
            names = [node.module or ""]
        if any(name.partition(".")[0] not in sys.stdlib_module_names for name in names):
            return False
    return True
