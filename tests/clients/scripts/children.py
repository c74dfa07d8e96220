import wmill


def main(path: str, hash: str):
    by_path = wmill.run_script_by_path(path, args={"x": 1, "y": 2})
    by_hash = wmill.run_script_by_hash(hash, args={"x": 3, "y": 4})
    id = wmill.run_script_by_path_async(path, args={"x": 5, "y": 6})
    later = wmill.Windmill().wait_job(id)
    return {
        "results": [by_path, by_hash, later, wmill.get_result(id)],
        "status": wmill.get_job_status(id),
        "child": id,
        "root": wmill.get_root_job_id(id),
    }
