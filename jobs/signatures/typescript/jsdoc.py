"""Parameter descriptions from the comment above a function: `@param {string} name - What it is`."""

import re

from jobs.signatures.signature import is_storable

_TAG = re.compile(r"@(\w+)\s*(.*)")
_PARAMETER = re.compile(r"(?:\{[^}]*\}\s*)?(?:\[\s*([\w$.]+)[^\]]*\]|([\w$.]+))\s*-?\s*(.*)")
_PARAMETER_TAGS = frozenset({"param", "arg", "argument"})

_LONGEST_COMMENT = 50_000  # characters; beyond it is data, not prose
_LONGEST_LINE = 500


def parameter_descriptions(comment: str) -> dict[str, str]:
    """Parameter name -> its description on one line; parameters without one are absent."""
    if not comment.startswith("/**"):
        return {}
    found: dict[str, list[str]] = {}
    words: list[str] = []  # of the tag that is being read
    for line in comment[:_LONGEST_COMMENT].removeprefix("/**").removesuffix("*/").split("\n"):
        text = line.strip()[:_LONGEST_LINE].removeprefix("*").strip()
        tag = _TAG.match(text)
        if tag is None:
            words.append(text)
            continue
        words = []
        parameter = _PARAMETER.match(tag[2]) if tag[1] in _PARAMETER_TAGS else None
        if parameter is not None:
            words = found.setdefault(parameter[1] or parameter[2], [])
            words.append(parameter[3])
    described = {name: " ".join(" ".join(words).split()) for name, words in found.items()}
    return {name: text for name, text in described.items() if text and is_storable(text)}
