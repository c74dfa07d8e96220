"""What scripts depend on, read from their text: packages, other scripts of the workspace. Nothing here does I/O."""

from jobs.dependencies.imports import imported_paths
from jobs.dependencies.wanted import LANGUAGES_WITH_LOCKS, WantedFiles

__all__ = ["LANGUAGES_WITH_LOCKS", "WantedFiles", "imported_paths"]
