"""From `print` in a job to the browser's websocket: p50 and p95 of one line's way."""

import asyncio
import json
import time

import httpx
from websockets.asyncio.client import connect

from bench import harness

LINES, PAUSE_S = 200, 0.03
# The job prints its own clock; job and reader are on one machine.
JOB = f"""
import time

def main():
    for _ in range({LINES}):
        print(f"at {{time.time()}}")
        time.sleep({PAUSE_S})
"""


def run(arguments: list[str]) -> None:
    with harness.server() as url, harness.worker(slots=1):
        login = httpx.post(
            f"{url}/api/auth/login", json={"email": "admin@windmill.dev", "password": "changeme"}
        )
        delays = asyncio.run(_follow(url, login.text))
    table = [
        ("line printed to line received", harness.percentile(delays, 0.5), harness.percentile(delays, 0.95))
    ]
    harness.forget_jobs()
    harness.report("logs", ["ms", "p50", "p95"], table, lines=len(delays))


async def _follow(url: str, token: str) -> list[float]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers) as client:
        preview = {"content": JOB, "language": "python3"}
        job = (await client.post(f"{url}/api/w/{harness.WORKSPACE}/jobs/run/preview", json=preview)).text
    address = url.replace("http://", "ws://") + f"/ws/w/{harness.WORKSPACE}/jobs/{job}"
    delays: list[float] = []
    rest = ""
    async with connect(address, additional_headers=headers) as socket:
        async for message in socket:
            now = time.time()
            content = json.loads(message)
            if content["type"] == "done":
                break
            if content["type"] != "log":
                continue
            *lines, rest = (rest + content["text"]).split("\n")
            delays += [(now - float(line[3:])) * 1000 for line in lines if line.startswith("at ")]
    return delays
