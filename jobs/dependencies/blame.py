"""Which line of a script brought in the package that a failed resolution speaks of."""

import re
from collections.abc import Iterator

from jobs.dependencies.python_packages import package_of

_PYTHON_IMPORT = re.compile(r"^\s*(?:import\s+(?P<modules>[\w., ]+)|from\s+(?P<module>\w[\w.]*)\s+import\b)")
# "# pandas==2.9" below #requirements:, "# pin: pandas==2.9", "#extra_requirements: pandas"; in PEP 723: # "pandas>=2",
_PYTHON_COMMENT = re.compile(
    r"^\s*#\s*(?:(?:extra_)?requirements:|(?:re)?pin:)?\s*[\"']?([A-Za-z][\w.-]*)(?=\s*(?:$|[=<>~!@\[,;\"']))"
)
_SPECIFIERS = {
    "go": re.compile(r'^\s*(?:import\s+)?(?:[\w.]+\s+)?"([^"\s]+\.[^"\s]+)"|^\s*//\s*require\s+(\S+)'),
    "php": re.compile(r"^\s*//\s*(?:require:)?\s*([\w.-]+/[\w.-]+)"),
}
_TYPESCRIPT = re.compile(r"""\b(?:from|import|require)\s*\(?\s*["']((?![./])[^"'\n]+)["']""")
_WORDS = re.compile(r"\w+")


def offending_line(language: str, code: str, log: str) -> int | None:
    """The line of `code` (from 1) that names the package which `log` mentions first; None when there is none."""
    found = [
        (place, number)
        for number, line in enumerate(code.splitlines(), start=1)
        for name in _packages(language, line)
        if (place := _first_mention(log, name)) is not None
    ]
    return min(found)[1] if found else None


def _packages(language: str, line: str) -> Iterator[str]:
    """Names of the packages that a line of code asks for."""
    if language == "python3":
        if match := _PYTHON_COMMENT.match(line):
            yield match[1]
        elif match := _PYTHON_IMPORT.match(line):
            modules = [part.split() for part in (match["modules"] or match["module"]).split(",")]
            for words in modules:
                package = package_of(words[0]) if words else None
                if package is not None:
                    yield package
        return
    for match in _SPECIFIERS.get(language, _TYPESCRIPT).finditer(line):
        specifier = next(group for group in match.groups() if group)
        yield re.sub(r"^(?:npm|jsr):/?|(?<=.)@.*$", "", specifier)


def _first_mention(log: str, package: str) -> int | None:
    """Where `log` speaks of `package`; to an index, case does not matter and -, _ and . are one."""
    words = r"[-_.]".join(re.escape(word) for word in re.split(r"[-_.]", package))
    match = re.search(rf"(?<![\w-]){words}(?![\w-])", log, re.IGNORECASE) if _WORDS.search(package) else None
    return match.start() if match else None
