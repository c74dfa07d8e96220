import wmill


def main():
    code = "def main(x: int):\n    return x * 2\n"
    return wmill.run_inline_script_preview(code, "python3", {"x": 21})
