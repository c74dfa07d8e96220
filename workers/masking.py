"""Hides secret values in a job's output, also when one is cut in two by the way output arrives."""

import json
import re
from collections.abc import Iterable

MASK = "*****"
# Shorter values occur by chance in any text; masking those would make logs unreadable and protect nothing.
MIN_LENGTH = 4
_MIN_LINE_LENGTH = 8  # of one line of a secret that spans several (a private key)


class Masker:
    """Replaces secrets in a stream of text. Feed it pieces; end it to get what it still holds back.

    The end of a piece that may be the beginning of a secret is held back until more text tells.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _spellings(secrets)
        self._pattern = re.compile("|".join(map(re.escape, self._secrets))) if self._secrets else None
        self._longest = len(self._secrets[0]) if self._secrets else 0
        self._held = ""

    def feed(self, text: str) -> str:
        """The text that can be shown now."""
        if self._pattern is None:
            return text
        text = self._held + text
        cut = len(text) - self._possible_beginning(text)
        while (match := self._match_across(text, cut)) is not None:
            cut = match.start()
        self._held = text[cut:]
        return self._pattern.sub(MASK, text[:cut])

    def end(self) -> str:
        """What was held back: no more text comes."""
        held, self._held = self._held, ""
        return self._pattern.sub(MASK, held) if self._pattern else held

    def mask(self, text: str) -> str:
        """A text that is complete in itself, such as a result."""
        return self._pattern.sub(MASK, text) if self._pattern else text

    def _possible_beginning(self, text: str) -> int:
        """Length of the longest end of `text` with which a secret may begin (and not end)."""
        longest = 0
        for secret in self._secrets:
            start = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while start >= 0 and len(text) - start > longest:
                if secret.startswith(text[start:]):
                    longest = len(text) - start
                    break
                start = text.find(secret[0], start + 1)
        return longest

    def _match_across(self, text: str, cut: int) -> re.Match[str] | None:
        assert self._pattern is not None
        if cut == len(text):
            return None
        # Scanned from the start, as `sub` does: what matches depends on what was matched before it.
        for match in self._pattern.finditer(text):
            if match.start() >= cut:
                return None
            if match.end() > cut:
                return match
        return None


def _spellings(secrets: Iterable[str]) -> list[str]:
    """The texts to look for, longest first: each secret, as JSON shows it, and its lines."""
    found: set[str] = set()
    for secret in secrets:
        stripped = secret.strip()
        if len(stripped) < MIN_LENGTH:
            continue
        found.add(stripped)
        found.add(json.dumps(stripped)[1:-1])
        found.add(json.dumps(stripped, ensure_ascii=False)[1:-1])
        lines = [line.strip() for line in stripped.splitlines()]
        if len(lines) > 1:
            found.update(line for line in lines if len(line) >= _MIN_LINE_LENGTH)
    return sorted(found, key=len, reverse=True)
