import wmill


def main(password: str, path: str):
    print("given", password)
    wmill.set_resource(path, {"password": password})
    print("stored", wmill.get_resource(path)["password"])
    return len(password)
