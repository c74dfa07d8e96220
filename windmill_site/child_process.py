"""Starting other programs so that they cannot outlive us, and, as root, so that they are not root."""

import ctypes
import os
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_SECUREBITS = 28
_SECBIT_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_READ_SEARCH = 2
_CAP_SETPCAP = 8
_CAPABILITY_VERSION_3 = 0x20080522

# Loaded before any fork: between fork and exec, in the child, there must be no import.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapabilityData(ctypes.Structure):
    _fields_ = [
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    ]


@dataclass(frozen=True, kw_only=True)
class Account:
    """The system account a program runs as."""

    uid: int
    gid: int


def before_exec(
    *,
    dies_with_us: signal.Signals | None = None,
    account: Account | None = None,
    may_pass_closed_folders: bool = False,
) -> Callable[[], None]:
    """A `preexec_fn`: gives up root for `account`, and asks the kernel for `dies_with_us` at our end (Linux).

    Start such children from the main thread: the kernel watches the thread that forked, not the process.
    `may_pass_closed_folders` leaves the program, and only it, the right to read through folders that are
    closed to its account: a checkout under /root works, and nobody's permissions are changed for it.
    """
    parent = os.getpid()

    def prepare() -> None:
        if account is not None:
            _become(account, keep_read_search=may_pass_closed_folders)
        # After the change of account: the kernel forgets this wish at such a change.
        if dies_with_us is not None and _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(dies_with_us), 0, 0, 0)
            if os.getppid() != parent:  # we died between the fork and the wish
                os.kill(os.getpid(), dies_with_us)

    return prepare


def _become(account: Account, *, keep_read_search: bool) -> None:
    if keep_read_search and _libc is not None:
        # Keeps capabilities over the change of account, and lets access(2) count them: PostgreSQL asks it
        # whether its own programs can be run.
        _libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
    os.setgroups([])
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    if keep_read_search and _libc is not None:
        header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
        only = 1 << _CAP_DAC_READ_SEARCH
        sets = (_CapabilityData * 2)(_CapabilityData(only, only, only), _CapabilityData(0, 0, 0))
        if _libc.capset(ctypes.byref(header), ctypes.byref(sets)) != 0:
            raise OSError(ctypes.get_errno(), "capset")  # never start it with all that root may do
        _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH, 0, 0)


def closed_folder_above(path: Path, account: Account) -> Path | None:
    """The first folder above `path` that `account` cannot pass, by owner and mode; None: it passes all."""
    for folder in reversed(path.parents):
        info = folder.stat()
        if info.st_uid == account.uid:
            needed = stat.S_IXUSR
        elif info.st_gid == account.gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not info.st_mode & needed:
            return folder
    return None


def can_pass_closed_folders() -> bool:
    """Whether we may hand on what `may_pass_closed_folders` promises."""
    needed = 1 << _CAP_DAC_READ_SEARCH | 1 << _CAP_SETPCAP
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapPrm:"):
                return int(line.split()[1], 16) & needed == needed
    except OSError:
        pass
    return False


def exit_sentence(code: int) -> str:
    """How a child ended, for people: `code` as in Popen.returncode."""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was killed by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")
    return f"ended with exit status {code}"
