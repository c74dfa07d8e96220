"""The code that a new script begins with, one short program for each language, in the file named after it.

Plain text files: nothing takes them for code of this project.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jobs.models import Language

_FOLDER = Path(__file__).parent


@cache
def starters() -> Mapping[str, str]:
    """Starter by language, for every language that scripts may be written in."""
    return {language.value: (_FOLDER / f"{language.value}.txt").read_text() for language in Language}
