import wmill


def main(plain: str, secret: str, absent: str):
    seen = []
    wmill.set_variable(plain, "one")
    seen.append(wmill.get_variable(plain))
    wmill.set_variable(plain, 'two "quoted" é\n')
    seen.append(wmill.get_variable(f"var://{plain}"))
    wmill.set_variable(secret, "hush hush", is_secret=True)
    seen.append(wmill.get_variable(secret))
    try:
        wmill.get_variable(absent)
    except Exception as exc:
        seen.append(absent in str(exc))
    return seen
