"""Writes into what jobs have in common: Python's own folders, those of packages, the cache of dependencies.

It changes nothing that is there, also where it could.
"""

import fcntl
import os
import sys
import uuid

PLANTED = ("sitecustomize.py", "usercustomize.py", "planted.pth", "json.py", "node_modules")


def main(shared: list[str] | None = None) -> str:
    found = []
    folders = [path for path in sys.path if os.path.isdir(path) and not path.startswith(os.getcwd())]
    folders += [os.path.dirname(os.__file__), os.path.join(os.path.dirname(os.__file__), "site-packages")]
    for folder in (*folders, *(shared or [])):
        for name in (*PLANTED, uuid.uuid4().hex):
            path = f"{folder}/{name}"
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                os.unlink(path)
                found.append(f"planted {path}")
            except OSError:
                pass
        try:
            os.chmod(folder, os.stat(folder).st_mode & 0o7777)  # as it is: whether it may
            found.append(f"changed {folder}")
        except OSError:
            pass
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        try:
            if path and os.path.isabs(path):
                os.close(os.open(path, os.O_WRONLY))
                found.append(f"opened {path} for writing")
        except OSError:
            pass
    for folder in shared or []:
        for place, _, files in os.walk(folder):
            for name in files:
                if "lock" not in place and "collecting" not in name:
                    continue
                try:
                    with open(f"{place}/{name}", "rb") as file:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        found.append(f"locked {place}/{name}")
                except OSError:
                    pass
    return f"exposed: {found[:5]}" if found else "contained"
