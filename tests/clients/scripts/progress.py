import wmill


def main():
    before = wmill.get_progress()
    wmill.set_progress(42)
    return {"before": before, "after": wmill.get_progress()}
