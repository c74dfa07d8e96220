import os

import wmill


def main():
    return {
        "email": wmill.whoami()["email"],
        "workspace": wmill.get_workspace(),
        "by_name": wmill.username_to_email(os.environ["WM_USERNAME"]),
    }
