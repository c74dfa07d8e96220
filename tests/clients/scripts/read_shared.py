import wmill


def main():
    return wmill.get_shared_state()
