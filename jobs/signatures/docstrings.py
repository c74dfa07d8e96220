"""Parameter descriptions from a docstring: Google, NumPy and reStructuredText (or Epytext) styles."""

import inspect
import re

from jobs.signatures.signature import is_storable

_GOOGLE_SECTION = re.compile(r"((keyword |other )?(args|arguments|parameters|params)):\s*$", re.I)
_GOOGLE_ITEM = re.compile(r"(\*{0,2}\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:(?:\s+|$)(.*)")
_NUMPY_SECTION = re.compile(r"(parameters|other parameters)\s*$", re.I)
_NUMPY_ITEM = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_FIELD = re.compile(
    r"[:@](?:param(?:eter)?|arg(?:ument)?|key(?:word)?)\s+(?:[^:]*\s)?(\*{0,2}\w+)\s*:\s*(.*)"
)

# Beyond these it is data, not prose; and the patterns above take time with the square of a line.
_LONGEST_DOCSTRING = 50_000
_LONGEST_LINE = 500


def parameter_descriptions(docstring: str | None) -> dict[str, str]:
    """Parameter name -> its description on one line; parameters without one are absent."""
    if not docstring:
        return {}
    lines = [line[:_LONGEST_LINE] for line in inspect.cleandoc(docstring[:_LONGEST_DOCSTRING]).split("\n")]
    found: dict[str, list[str]] = {}
    for reader in (_google, _numpy, _fields):
        for name, words in reader(lines).items():
            found.setdefault(name.lstrip("*"), words)
    described = {name: " ".join(" ".join(words).split()) for name, words in found.items()}
    return {name: text for name, text in described.items() if text and is_storable(text)}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _google(lines: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    section = item = -1  # indents; section -1: outside
    current: list[str] | None = None
    for line in lines:
        text, indent = line.strip(), _indent(line)
        if not text:
            continue
        if section < 0 or indent <= section:
            section = indent if _GOOGLE_SECTION.match(text) else -1
            item, current = -1, None
            continue
        item = indent if item < 0 else item
        match = _GOOGLE_ITEM.match(text)
        if indent <= item and match:
            current = found.setdefault(match[1], [])
            current.append(match[2])
        elif current is not None:
            current.append(text)
    return found


def _numpy(lines: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    inside = False
    current: list[list[str]] = []
    for number, line in enumerate(lines):
        text = line.strip()
        underline = lines[number + 1].strip() if number + 1 < len(lines) else ""
        if text and len(underline) >= 3 and set(underline) == {"-"}:
            inside, current = bool(_NUMPY_SECTION.match(text)), []
        elif not inside or not text or set(text) == {"-"}:
            continue
        elif _indent(line) == 0:
            match = _NUMPY_ITEM.match(text)
            names = re.split(r"\s*,\s*", match[1]) if match else []
            current = [found.setdefault(name, []) for name in names]
        else:
            for words in current:
                words.append(text)
    return found


def _fields(lines: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        text = line.strip()
        if match := _FIELD.match(text):
            current = found.setdefault(match[1], [])
            current.append(match[2])
        elif not text or text[0] in ":@":
            current = None
        elif current is not None:
            current.append(text)
    return found
