# limits: open_files=256
"""Opens files without end."""

import os

MOST = 5000


def main() -> str:
    for count in range(MOST):
        try:
            os.open("/dev/null", os.O_RDONLY)
        except OSError:
            return f"contained: refused after {count} files"
    return f"exposed: {MOST} files"
