import wmill


def main():
    return wmill.worker_is_draining()
