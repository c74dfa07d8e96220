# limits: disk=32MB memory=256MB
"""Makes empty files without end: each takes memory of the kernel, none takes space."""

import os

MOST = 400_000


def main() -> str:
    os.mkdir("many")
    at = os.open("many", os.O_RDONLY)
    for count in range(MOST):
        try:
            os.mknod(str(count), dir_fd=at)
        except OSError as error:
            return f"contained: {error.strerror} after {count} files"
    return f"exposed: {MOST} files"
