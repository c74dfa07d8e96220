# limits: disk=32MB memory=256MB
"""Fills the disk: its folder, /tmp and /dev/shm."""

PIECE = b"x" * (1 << 20)


def main() -> str:
    written = 0
    try:
        for folder in (".", "/tmp", "/dev/shm"):
            with open(f"{folder}/bomb", "wb", buffering=0) as file:
                for _ in range(8192):
                    written += file.write(PIECE)
    except OSError as error:
        return f"contained: {error.strerror} after {written >> 20} MB"
    return f"exposed: {written >> 20} MB"
