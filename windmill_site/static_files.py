"""Collected static files: made again only when a source file, or a package that brings some, has changed."""

import hashlib
import os
from pathlib import Path

from windmill_site.data_folder import PROJECT_DIR

_STAMP = ".collected-from"


def fingerprint() -> str:
    """Names, sizes and times of our static files, and the pinned packages (some bring files)."""
    digest = hashlib.sha256((PROJECT_DIR / "requirements.txt").read_bytes())
    digest.update((PROJECT_DIR / "windmill_site" / "storage.py").read_bytes())
    for folder, subfolders, names in os.walk(PROJECT_DIR / "static"):
        subfolders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            info = path.stat()
            digest.update(f"{path.relative_to(PROJECT_DIR)}\0{info.st_size}\0{info.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def is_collected(root: Path, wanted: str) -> bool:
    try:
        return (root / _STAMP).read_text() == wanted and (root / "staticfiles.json").is_file()
    except OSError:
        return False


def mark_collected(root: Path, wanted: str) -> None:
    (root / _STAMP).write_text(wanted)
