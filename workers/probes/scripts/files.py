"""Reads what is hidden, lists the homes and temporary folders of others, and writes into the system."""

import os
import uuid

# Of some, what leads to the tools of jobs is in sight: no file of theirs is.
CLOSED = ("/root", "/home", "/run", "/srv", "/var/lib", "/var/log", "/mnt", "/media", "/.old", "/.shares")
READ = (
    "/etc/shadow",
    "/etc/gshadow",
    "/proc/kcore",
    "/proc/1/environ",
    "/dev/mem",
    "/dev/kmsg",
    "/dev/sda",
    "/dev/vda",
)
SYSTEM = ("/", "/usr", "/etc", "/bin", "/lib", "/opt", "/root", "/home", "/var", "/dev", "/proc", "/sys")
SWITCHES = (
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/sys/power/state",
)


def main(hidden: list[str] | None = None) -> str:
    found = []
    for path in hidden or []:
        try:
            if os.listdir(path):
                found.append(f"listed {path}")
        except OSError:
            pass
    for path in CLOSED:
        try:
            found += [f"saw {entry.path}" for entry in os.scandir(path) if not entry.is_dir()]
        except OSError:
            pass
    for path in READ:
        try:
            with open(path, "rb") as file:
                file.read(1)
            found.append(f"read {path}")
        except OSError:
            pass
    for path in (*SYSTEM, *(hidden or [])):
        name = f"{path}/{uuid.uuid4().hex}"
        try:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
            os.unlink(name)
            found.append(f"wrote into {path}")
        except OSError:
            pass
    for path in SWITCHES:
        try:
            os.close(os.open(path, os.O_WRONLY))
            found.append(f"opened {path} for writing")
        except OSError:
            pass
    return f"exposed: {found[:5]}" if found else "contained"
