"""The system account that PostgreSQL runs as when we are root, which it refuses to be."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

from windmill_site.child_process import Account
from windmill_site.data_folder import StartError

# An account of its own: one that jobs share (nobody, say) would let them at the files and the socket.
ACCOUNT_NAME = "windmill-db"


def postgres_account(cluster: Path) -> Account | None:
    """None: run as who we are. As root: the owner of the cluster, else `windmill-db`, created when missing.

    The owner comes first because a data folder may have moved here from a machine with other numbers.
    """
    if os.geteuid() != 0:
        return None
    try:
        owner = cluster.stat()
    except FileNotFoundError:
        owner = None
    if owner is not None and owner.st_uid != 0:
        return Account(uid=owner.st_uid, gid=owner.st_gid)
    entry = _look_up() or _create()
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def _look_up() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        return None


def _create() -> pwd.struct_passwd:
    if shutil.which("useradd"):
        command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        command += ["--shell", "/usr/sbin/nologin", ACCOUNT_NAME]
    else:  # BusyBox
        command = ["adduser", "-S", "-D", "-H", "-h", "/nonexistent", "-s", "/sbin/nologin", ACCOUNT_NAME]
    try:
        result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        output = result.stderr.strip() or result.stdout.strip()
    except OSError as exc:
        output = str(exc)
    # Looked up again whatever came out: another start may have created it meanwhile.
    entry = _look_up()
    if entry is None:
        raise StartError(
            f"PostgreSQL does not run as root, and its account {ACCOUNT_NAME} could not be created "
            f"({output}). "
            "Start Windmill as an ordinary user, create that account, or set DATABASE_URL to use a server of "
            "yours."
        )
    return entry
