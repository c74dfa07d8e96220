import wmill


def main():
    return list(wmill.cancel_running())
