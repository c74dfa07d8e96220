import wmill


def main():
    count = (wmill.get_state() or {"count": 0})["count"] + 1
    wmill.set_state({"count": count})
    return wmill.get_state()
