import wmill


def main(path: str, secret: str, absent: str):
    wmill.set_variable(secret, "swordfish", is_secret=True)
    wmill.set_resource(path, {"host": "a", "password": f"$var:{secret}"}, resource_type="ftp")
    first = wmill.get_resource(path)
    wmill.set_resource(path, {"host": "b", "ports": [1, 2]})
    return {
        "first": first,
        "second": wmill.get_resource(f"$res:{path}"),
        "absent": wmill.get_resource(absent, none_if_undefined=True),
        "of_type": [row["path"] for row in wmill.list_resources(resource_type="ftp")],
    }
