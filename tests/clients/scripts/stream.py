import wmill


def main():
    wmill.stream_result(iter(["one, ", "two\n", "three"]))
    return "done"
