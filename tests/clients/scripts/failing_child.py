import wmill


def main(path: str):
    return wmill.run_script_by_path(path)
