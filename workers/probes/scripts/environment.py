"""Looks for the platform's own variables in the environment and command line of every process it can see."""

import os

NAMES = (
    *(b"DATABASE_URL=", b"DATABASE_DIRECT_URL=", b"PGPASSWORD=", b"SECRET_KEY=", b"ENCRYPTION_KEY="),
    *(b"SUPERADMIN_SECRET=", b"LICENSE_KEY=", b"AWS_SECRET_ACCESS_KEY="),
)


def main() -> str:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    parts = file.read().split(b"\0")
            except OSError:
                continue
            found += [f"/proc/{pid}/{name}" for part in parts if part.startswith(NAMES)]
    return f"exposed: {found[:5]}" if found else "contained"
