import wmill


def main():
    return {"cursor": wmill.get_flow_user_state("cursor"), "absent": wmill.get_flow_user_state("absent")}
