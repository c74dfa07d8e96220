import wmill


def main():
    wmill.set_shared_state({"rows": [1, 2]})
