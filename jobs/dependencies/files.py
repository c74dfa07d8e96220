"""Dependency files of a workspace: what they are called, who reads them, and which of them a script names. No I/O.

A file belongs to a language and has a name; the one without a name is the default, for all scripts that name none:

    # requirements: ml, default      Python (see jobs.dependencies.python_comments)
    // package_json: web             Bun and the two that read its files: bunnative, nativets
    // go_mod: web                   Go
    // composer_json: web            PHP

`extra_` before the keyword asks for a file besides what the script says itself; `default` means the one without a name.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from jobs.dependencies.imports import imported_paths
from jobs.dependencies.python_comments import WrongRequirement, read_comments

DEFAULT = "default"  # what scripts call the file without a name
FILE_NAMES = {"python3": "requirements.in", "bun": "package.json", "go": "go.mod", "php": "composer.json"}
_READ_ANOTHERS = {"bunnative": "bun", "nativets": "bun"}
_KEYWORDS = {"bun": "package_json", "go": "go_mod", "php": "composer_json"}
_NAMING = {
    language: re.compile(rf"^[ \t]*//[ \t]*(?:extra[_-])?{keyword}:(?P<names>.*)$", re.MULTILINE)
    for language, keyword in _KEYWORDS.items()
}
_MOST_REMEMBERED = 50_000  # characters of code whose answer is kept


def file_language(language: str) -> str | None:
    """Whose dependency files a script of `language` reads; None: it reads none."""
    return language if language in FILE_NAMES else _READ_ANOTHERS.get(language)


def file_path(language: str, name: str) -> str:
    """dependencies/requirements.in, dependencies/ml.requirements.in: as clients keep the file on disk."""
    file_name = FILE_NAMES[language]
    return f"dependencies/{name}.{file_name}" if name else f"dependencies/{file_name}"


def parse_file_path(path: str) -> tuple[str, str] | None:
    """(language, name) of such a path; None for any other."""
    folder, _, file = path.rpartition("/")
    for language, file_name in FILE_NAMES.items():
        if folder == "dependencies" and file == file_name:
            return language, ""
        if folder == "dependencies" and file.endswith(f".{file_name}"):
            return language, file.removesuffix(f".{file_name}")
    return None


def files_read(language: str, code: str) -> Sequence[str]:
    """Names of the dependency files that `code` is locked with, if they exist; "" is the default one."""
    family = file_language(language)
    if family is None:
        return ()
    return (_read_remembered if len(code) <= _MOST_REMEMBERED else _read)(family, code)


def reached(language: str, code: str, path: str | None) -> Sequence[str]:
    """All that the lock of `code` at `path` depends on: paths of scripts, and dependency files as `edge` writes them."""
    files = [edge(file_language(language) or "", name) for name in files_read(language, code)]
    return (*imported_paths(language, code, path), *files)


def edge(language: str, name: str) -> str:
    """How dependency_map writes down that a script reads a file: no script has such a path."""
    return f"dependencies/{language}/{name or DEFAULT}"


def _read(language: str, code: str) -> Sequence[str]:
    if language == "python3":
        try:
            said = read_comments(code, "")
        except WrongRequirement:
            return ()  # it cannot be locked, whatever the files say, before it is changed itself
        if said.requirements is None and not said.extra and not said.extra_files:
            return ("",)
        return tuple(dict.fromkeys([*said.files, *said.extra_files]))
    naming = [match["names"] for match in _NAMING[language].finditer(code)]
    if not naming:
        return ("",)
    names = [name.strip() for names in naming for name in names.split(",")]
    return tuple(dict.fromkeys("" if name == DEFAULT else name for name in names if name))


_read_remembered = lru_cache(maxsize=512)(_read)
