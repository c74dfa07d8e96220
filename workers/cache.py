"""What was built once for many jobs: environments, compiled programs. Shared by the workers of a machine.

A folder for each kind, and in it
    <key>       an entry, complete from the moment it is there. Its key is a hash of all that it was built from
    .building/  where entries are built and taken apart; each is named after its key
Beside these folders is .state, which no job may see: whoever can read a file can hold a lock on it. In it, for each kind,
    locks/      a file for each key, locked (flock) while somebody builds or removes that entry
    used/       a file for each key: changed when the entry was used last, holding its size; locked while it is in use

A worker that is killed leaves a folder in .building and no lock, so the next one that wants the entry, and the next
collection, know that nobody works on it. Any of it may be deleted by hand at any time.

Jobs can read entries whose key they know. They cannot list the keys, except where a worker that is not root runs jobs as
its own user: keys must be hashes of more than one can guess when an entry tells a secret.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workers.sandbox import ownership

logger = logging.getLogger(__name__)

Build = Callable[[Path], Awaitable[None]]  # fills the empty folder that it is given

SPARED_S = 15 * 60.0  # since its last use; an entry that was used later is not removed
COLLECT_EVERY_S = 5 * 60.0
_TOUCH_EVERY_S = 60.0  # far less than SPARED_S, by which the time of the last use may be behind
_LOCK_POLL_S = (0.02, 0.05, 0.1, 0.2, 0.5)
_KEY = re.compile(r"[0-9a-f]{16,128}")
_BUILDING, _STATE = ".building", ".state"


def state_folder(cache_dir: Path) -> Path:
    """What jobs must not see of a cache."""
    return cache_dir / _STATE


def _locks(root: Path) -> Path:
    return state_folder(root.parent) / root.name / "locks"


def _used(root: Path) -> Path:
    return state_folder(root.parent) / root.name / "used"


@dataclass
class _UnderWay:
    task: asyncio.Task[None]
    waiting: int = 0


class Cache:
    """Entries of one kind, below `root`. Use it in one event loop."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._touched: dict[str, float] = {}  # by key: when its use was recorded, on the monotonic clock
        self._builds: dict[str, _UnderWay] = {}
        self._is_made = False

    async def get(self, key: str, build: Build) -> Path:
        """The entry `key`, a hex digest; made by `build` when there is none yet. Costs microseconds when there is.

        `build` fills a folder on the same file system, which then becomes the entry: the worker's, readable for all.
        One that raises leaves nothing; everybody who waited for this entry in this process gets what it raised. If
        all of them are cancelled it is, too. Nothing is built twice at a time, in whichever process.

        The entry stays for SPARED_S at least. Use `entry` for jobs that may still read it later than that.
        """
        path = self._root / key
        if time.monotonic() - self._touched.get(key, -_TOUCH_EVERY_S) < _TOUCH_EVERY_S and os.path.isdir(
            path
        ):
            return path
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a key of a cache: expected a hexadecimal digest")
        if not self._touch(key):
            await self._shared_build(key, build)
        return path

    @asynccontextmanager
    async def entry(self, key: str, build: Build) -> AsyncIterator[Path]:
        """As `get`; the entry is not removed before the block ends."""
        while True:
            path = await self.get(key, build)
            used = _locked(_used(self._root) / key, fcntl.LOCK_SH)
            if used is not None and os.path.isdir(path):
                break
            if used is not None:
                os.close(used)
            self._touched.pop(key, None)
        try:
            yield path
        finally:
            os.utime(used)
            os.close(used)

    def _touch(self, key: str) -> bool:
        """Record that entry `key` is used; False when it is not there, or is being removed."""
        self._make_folders()
        used = _locked(_used(self._root) / key, fcntl.LOCK_SH)
        if used is None:
            return False
        try:
            if not os.path.isdir(self._root / key):
                return False
            os.utime(used)
        finally:
            os.close(used)
        self._touched[key] = time.monotonic()
        return True

    def _make_folders(self) -> None:
        if self._is_made and _used(self._root).is_dir() and (self._root / _BUILDING).is_dir():
            return
        # Passable for jobs, whose users are others; what they must not even pass is the worker's alone.
        for folder, mode in ((self._root, 0o711), (self._root / _BUILDING, 0o711)):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(mode)
        state_folder(self._root.parent).mkdir(mode=0o700, exist_ok=True)
        for folder in (_locks(self._root), _used(self._root)):
            folder.mkdir(parents=True, exist_ok=True)
        self._is_made = True

    async def _shared_build(self, key: str, build: Build) -> None:
        under_way = self._builds.get(key)
        if under_way is None:
            under_way = _UnderWay(asyncio.create_task(self._build(key, build)))
            self._builds[key] = under_way
            under_way.task.add_done_callback(lambda task: self._forget(key, task))
        under_way.waiting += 1
        try:
            await asyncio.shield(under_way.task)
        finally:
            under_way.waiting -= 1
            if under_way.waiting == 0 and not under_way.task.done():
                self._forget(key, under_way.task)
                under_way.task.cancel()
                await asyncio.wait([under_way.task])

    def _forget(self, key: str, task: asyncio.Task[None]) -> None:
        if key in self._builds and self._builds[key].task is task:
            del self._builds[key]

    async def _build(self, key: str, build: Build) -> None:
        lock = await self._build_lock(key)
        try:
            if self._touch(key):
                return  # somebody else built it while we waited
            await asyncio.to_thread(_remove_leftovers, self._root, key)
            name = f"{_BUILDING}/{_fresh(key)}"
            staging = self._root / name
            staging.mkdir(mode=0o711)
            try:
                await build(staging)
                size = await asyncio.to_thread(_sealed, self._root, name)
                os.rename(staging, self._root / key)
            except BaseException:
                await asyncio.to_thread(_remove, staging)
                raise
            _record_size(_used(self._root) / key, size)
            self._touch(key)
            logger.info("cache entry built kind=%s key=%s bytes=%s", self._root.name, key, size)
        finally:
            os.close(lock)

    async def _build_lock(self, key: str) -> int:
        attempt = 0
        while True:
            lock = _locked(_locks(self._root) / key, fcntl.LOCK_EX)
            if lock is not None:
                return lock
            await asyncio.sleep(_LOCK_POLL_S[min(attempt, len(_LOCK_POLL_S) - 1)])
            attempt += 1


async def keep_small(cache_dir: Path, max_bytes: int) -> None:
    """Collect now and then until cancelled. What fails is logged."""
    while True:
        try:
            await asyncio.to_thread(collect, cache_dir, max_bytes)
        except Exception:
            logger.exception("cache not collected folder=%s", cache_dir)
        await asyncio.sleep(COLLECT_EVERY_S)


def collect(cache_dir: Path, max_bytes: int, *, spared_s: float = SPARED_S) -> int:
    """Remove entries of all kinds in `cache_dir`, those first whose last use is longest ago, down to `max_bytes`.

    Returns how many bytes that freed. Spares entries that are in use or were in the last `spared_s`, so it may stay
    above. Also removes what killed workers left. At most one process does it at a time; for others it is nothing.
    """
    with suppress(FileNotFoundError):
        guard = _locked(_made(state_folder(cache_dir)) / "collecting", fcntl.LOCK_EX)
        if guard is None:
            return 0
        try:
            return _collect(cache_dir, max_bytes, spared_s)
        finally:
            os.close(guard)
    return 0


def clear(cache_dir: Path) -> int | None:
    """Remove all entries that are not in use at this moment, however lately they were; returns how many bytes that freed.

    None: another process collects, ask again. What is removed while a job still reads it without a lock (`Cache.get`)
    is missing there: call when the jobs of this worker have ended.
    """
    guard = _locked(_made(state_folder(cache_dir)) / "collecting", fcntl.LOCK_EX)
    if guard is None:
        return None
    try:
        return _collect(cache_dir, -1, spared_s=0.0)
    finally:
        os.close(guard)


def entry_count(cache_dir: Path) -> int:
    """How many entries there are, of all kinds."""
    return sum(bool(_KEY.fullmatch(name)) for root in _kinds(cache_dir) for name in os.listdir(root))


def _kinds(cache_dir: Path) -> list[Path]:
    return [root for root in cache_dir.iterdir() if not root.is_symlink() and _used(root).is_dir()]


def _made(folder: Path) -> Path:
    """The folder, made if the one above it is there. Raises FileNotFoundError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _collect(cache_dir: Path, max_bytes: int, spared_s: float) -> int:
    found: list[tuple[float, int, Path]] = []  # last use, size, entry
    for root in _kinds(cache_dir):
        for leftover in os.listdir(root / _BUILDING):
            key = leftover.partition("-")[0]
            lock = _locked(_locks(root) / key, fcntl.LOCK_EX) if _KEY.fullmatch(key) else None
            if lock is not None:
                _remove(root / _BUILDING / leftover)
                os.close(lock)
        for name in os.listdir(root):
            if _KEY.fullmatch(name):
                found.append((*_use_and_size(root, name), root / name))
        for name in set(os.listdir(_used(root))).difference(os.listdir(root)):
            _removed_unless_used(root / name, spared_s)  # there is nothing but the record of it
    total, freed = sum(size for _, size, _ in found), 0
    for _, size, entry in sorted(found):
        if total - freed <= max_bytes:
            break
        if _removed_unless_used(entry, spared_s):
            freed += size
            logger.info("cache entry removed kind=%s key=%s bytes=%s", entry.parent.name, entry.name, size)
    return freed


def _removed_unless_used(entry: Path, spared_s: float) -> bool:
    root, key = entry.parent, entry.name
    lock = _locked(_locks(root) / key, fcntl.LOCK_EX)
    if lock is None:
        return False
    used = _locked(_used(root) / key, fcntl.LOCK_EX)
    try:
        if used is None or time.time() - os.fstat(used).st_mtime < spared_s:
            return False
        doomed = root / _BUILDING / _fresh(key)
        with suppress(FileNotFoundError):
            os.rename(entry, doomed)
        (_used(root) / key).unlink(missing_ok=True)
        os.close(used)
        used = None
        _remove(doomed)
        (_locks(root) / key).unlink(missing_ok=True)
        return True
    finally:
        if used is not None:
            os.close(used)
        os.close(lock)


def _use_and_size(root: Path, key: str) -> tuple[float, int]:
    """When the entry was used last, in seconds since the epoch, and its size, measured if nobody has written it down."""
    record = _used(root) / key
    try:
        text = record.read_text()
        return record.stat().st_mtime, int(text)
    except (FileNotFoundError, ValueError):
        size = _size(root / key)
        _record_size(record, size)
        return record.stat().st_mtime, size


def _record_size(record: Path, size: int) -> None:
    record.write_text(str(size))


def _sealed(root: Path, name: str) -> int:
    """Make the folder nobody's but ours to change; returns its size."""
    ownership.take_back(str(root), name)
    return _size(root / name)


def _size(folder: Path) -> int:
    """Bytes on disk; files with several names count for each."""
    total = 0
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
    return total


def _fresh(key: str) -> str:
    return f"{key}-{secrets.token_hex(8)}"


def _remove_leftovers(root: Path, key: str) -> None:
    """Take away what builders of `key` left that were killed. Hold its lock."""
    for name in os.listdir(root / _BUILDING):
        if name.startswith(f"{key}-"):
            _remove(root / _BUILDING / name)


def _remove(folder: Path) -> None:
    try:
        ownership.remove(str(folder))
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning("cache folder not removed folder=%s reason=%s", folder, error)


def _locked(path: Path, kind: int) -> int | None:
    """An open, locked descriptor of `path`, made if need be; None when somebody else has a lock that excludes it."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            # Whoever removes an entry removes its lock file too: ours may be one that nobody else will open again.
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except FileNotFoundError:
            pass
        os.close(fd)
