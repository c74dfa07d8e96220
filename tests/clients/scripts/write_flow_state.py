import wmill


def main():
    wmill.set_flow_user_state("cursor", {"at": 7})
