# limits: memory=96MB
"""Takes memory without end."""


def main() -> str:
    taken = []
    for _ in range(1000):
        taken.append(bytearray(b"x") * (8 << 20))
    return f"exposed: {len(taken) * 8} MB"
