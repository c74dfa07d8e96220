"""Clearing the cache of a machine when a worker group asks for it: its `cache_clear` is another number than last time."""

import fcntl
import hashlib
import logging
import os
import time
from pathlib import Path

from workers import cache

logger = logging.getLogger(__name__)

_FOLDER = ".cleared"  # in the cache: a file for each group, holding the number that was done last
_POLL_S = 0.1
_PATIENCE_S = 60.0


def clear_when_asked(cache_dir: Path, *, group: str, wish: int) -> bool:
    """Remove everything of the cache that nobody uses at this moment, unless this `wish` has been fulfilled here before.

    Call before the worker takes jobs; of several that start at once one does it, the others wait for it.
    """
    if not wish:
        return False
    folder = cache_dir / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    cache_dir.chmod(0o711)
    path = folder / hashlib.sha256(group.encode()).hexdigest()
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+") as record:
        fcntl.flock(record, fcntl.LOCK_EX)
        if record.read().strip() == str(wish):
            return False
        freed = _clear(cache_dir)
        if freed is None:
            logger.error(
                "cache_clear=%s of group=%s waits for the next start: another process has collected the cache for %s s",
                wish,
                group,
                _PATIENCE_S,
            )
            return False
        logger.info(
            "cleared the cache folder=%s group=%s cache_clear=%s bytes=%s kept_in_use=%s",
            cache_dir,
            group,
            wish,
            freed,
            cache.entry_count(cache_dir),
        )
        record.seek(0)
        record.truncate()
        record.write(str(wish))
    return True


def _clear(cache_dir: Path) -> int | None:
    """Bytes that it freed; None: others did not let us."""
    deadline = time.monotonic() + _PATIENCE_S
    while (freed := cache.clear(cache_dir)) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)  # somebody else collects at this moment
    return freed
