import time

import wmill


def main(path: str):
    id = wmill.run_script_by_path_async(path)
    while wmill.get_job_status(id) != "RUNNING":
        time.sleep(0.1)
    wmill.cancel_job(id, reason="not needed")
    while wmill.get_job_status(id) != "COMPLETED":
        time.sleep(0.1)
    job = wmill.get_job(id)
    return {"canceled": job["canceled"], "reason": job["canceled_reason"]}
