"""Looks for processes that are not its own, and for what the first process of its view lets it read."""

import os


def parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])


def main() -> str:
    top = os.getpid()
    while parent(top) > 1:
        top = parent(top)
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            above = pid
            while above not in (0, 1, top):
                above = parent(above)
        except OSError:
            continue  # it ended meanwhile
        if above != top and pid != 1:
            found.append(f"process {pid}")
    for name in ("environ", "mem", "maps", "auxv", "task/1/environ"):
        try:
            with open(f"/proc/1/{name}", "rb") as file:
                file.read(1)
            found.append(f"/proc/1/{name}")
        except OSError:
            pass
    for name in ("fd", "root/etc", "cwd/."):
        try:
            os.listdir(f"/proc/1/{name}")
            found.append(f"/proc/1/{name}")
        except OSError:
            pass
    return f"exposed: {found[:5]}" if found else "contained"
