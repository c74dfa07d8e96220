"""Hides secret values in a job's output, also when one is cut in two by the way output arrives."""

import json
from collections.abc import Iterable

MASK = "*****"
# Shorter values occur by chance in any text; masking those would make logs unreadable and protect nothing.
MIN_LENGTH = 4
_MIN_LINE_LENGTH = 8  # of one line of a secret that spans several (a private key)
_MOST_LINES = 1000  # of a secret whose lines are looked for one by one
_FIRST = 16  # characters of a secret that are looked for before all of it is
_MOST_FAILED = 100


class Masker:
    """Replaces secrets in a stream of text. Feed it pieces; end it to get what it still holds back.

    The end of a piece that may be the beginning of a secret is held back until more text tells. Secrets and text come
    from people who may want to keep the worker busy: looking for them takes time in proportion to their length, no more.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _spellings(secrets)
        self._held = ""

    def feed(self, text: str) -> str:
        """The text that can be shown now."""
        if not self._secrets:
            return text
        text = self._held + text
        places = self._places(text)
        cut = len(text) - self._possible_beginning(text)
        cut = next((start for start, end in places if start < cut < end), cut)
        self._held = text[cut:]
        return _masked(text[:cut], [place for place in places if place[1] <= cut])

    def end(self) -> str:
        """What was held back: no more text comes."""
        held, self._held = self._held, ""
        return self.mask(held)

    def mask(self, text: str) -> str:
        """A text that is complete in itself, such as a result."""
        return _masked(text, self._places(text))

    def _places(self, text: str) -> list[tuple[int, int]]:
        """Where secrets begin and end, in order; those that overlap are one."""
        found = []
        for secret in self._secrets:
            start = text.find(secret)
            while start >= 0:
                found.append((start, start + len(secret)))
                start = text.find(secret, start + len(secret))
        joined: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if joined and start < joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return joined

    def _possible_beginning(self, text: str) -> int:
        """Length of the longest end of `text` with which a secret may begin (and not end); rather too long."""
        longest = 0
        for secret in self._secrets:
            first, failed = secret[:_FIRST], 0
            start = text.find(first, max(0, len(text) - len(secret) + 1)) if len(secret) > _FIRST else -1
            while start >= 0 and len(text) - start > longest:
                # A text that looks like the secret again and again is not worth knowing exactly.
                if failed == _MOST_FAILED or secret.startswith(text[start:]):
                    longest = len(text) - start
                    break
                failed += 1
                start = text.find(first, start + 1)
            start = text.find(secret[0], max(0, len(text) - min(_FIRST, len(secret) - 1)))
            while start >= 0 and len(text) - start > longest:
                if secret.startswith(text[start:]):
                    longest = len(text) - start
                    break
                start = text.find(secret[0], start + 1)
        return longest


def _masked(text: str, places: list[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in places:
        parts += [text[at:start], MASK]
        at = end
    return "".join([*parts, text[at:]])


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
        if 1 < len(lines) <= _MOST_LINES:
            found.update(line for line in lines if len(line) >= _MIN_LINE_LENGTH)
    return sorted(found, key=len, reverse=True)
