import wmill


def main():
    return wmill.Windmill().create_token()
