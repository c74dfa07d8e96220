import wmill


def main(path: str):
    id = wmill.run_flow_async(path, args={"x": 20})
    return wmill.Windmill().wait_job(id)
