"""Whether code depends on anything at all, told from its text alone, so that most deployments need no dependency job."""

import re
from functools import lru_cache

from jobs.dependencies import python, typescript
from jobs.dependencies.wanted import LANGUAGES_WITH_LOCKS

_MOST_REMEMBERED = 50_000  # characters of code whose answer is kept
# What is left after these may still be a builtin or another script: then a dependency job finds nothing, which is fine.
_TYPESCRIPT = ("bun", "bunnative", "nativets", "deno")
_LOADS = re.compile(
    r"\b(?:import|export|require)\b|//\s*(?:extra_)?package_json:"
)  # no tree without one of these
_GO = re.compile(r"[\"`][\w-]+(?:\.[\w-]+)+/|^\s*//\s*go_mod:", re.MULTILINE)
_PHP = re.compile(r"^\s*//\s*(?:require|composer_json):", re.MULTILINE)
_SIGNS = {"go": _GO, "php": _PHP}


def needs_nothing(language: str, code: str) -> bool:
    """Certain that `code` has no dependencies, unless a dependency file of its workspace applies to it."""
    if language not in LANGUAGES_WITH_LOCKS:
        return True
    return (_look_remembered if len(code) <= _MOST_REMEMBERED else _look)(language, code)


def _look(language: str, code: str) -> bool:
    if language == "python3":
        return python.needs_nothing(code)
    if language in _TYPESCRIPT:
        return not _LOADS.search(code) or not (
            any(typescript.specifiers(code)) or "package_json" in "".join(typescript.header_comments(code))
        )
    return not _SIGNS[language].search(code)


_look_remembered = lru_cache(maxsize=512)(_look)
