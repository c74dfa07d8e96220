"""A long job with a coloured log: watch it live, or cancel it."""

import time


def main(batches: int = 120, pause_s: float = 0.5):
    for batch in range(1, batches + 1):
        print(f"\x1b[36mINFO\x1b[0m  batch {batch}/{batches} \x1b[32mok\x1b[0m")
        time.sleep(pause_s)
    return {"batches": batches}
