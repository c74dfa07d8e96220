"""Requests a second and p95 of whoami, run, get and list, one server process, 8 connections at a time."""

import asyncio
import time

import httpx

from bench import harness

CONNECTIONS = 8


def run(arguments: list[str]) -> None:
    count = int(arguments[0]) if arguments else 800
    with harness.server() as url:
        login = httpx.post(
            f"{url}/api/auth/login", json={"email": "admin@windmill.dev", "password": "changeme"}
        )
        headers = {"Authorization": f"Bearer {login.text}"}
        base = f"{url}/api/w/{harness.WORKSPACE}"
        httpx.post(f"{base}/folders/create", headers=headers, json={"name": "bench"})
        made = httpx.post(
            f"{base}/scripts/create",
            headers=headers,
            json={
                "path": "f/bench/noop",
                "summary": "",
                "description": "",
                "content": harness.NOOP["python3"],
                "language": "python3",
                "lock": "",
            },
        )
        made.raise_for_status()
        job = httpx.post(f"{base}/jobs/run/p/f/bench/noop", headers=headers, json={}).text
        routes = {
            "whoami": ("GET", f"{url}/api/users/whoami"),
            "run a script": ("POST", f"{base}/jobs/run/p/f/bench/noop"),
            "get a job": ("GET", f"{base}/jobs_u/get/{job}"),
            "list 30 jobs": ("GET", f"{base}/jobs/list?per_page=30"),
        }
        table = [
            [name, *asyncio.run(_measure(method, address, headers, count))]
            for name, (method, address) in routes.items()
        ]
    harness.forget_jobs()
    harness.report(
        "api", ["route", "requests/s", "p50 ms", "p95 ms"], table, requests=count, connections=CONNECTIONS
    )


async def _measure(
    method: str, address: str, headers: dict[str, str], count: int
) -> tuple[float, float, float]:
    spent: list[float] = []
    left = iter(range(count))

    async def one_connection(client: httpx.AsyncClient) -> None:
        for _ in left:
            begin = time.perf_counter()
            response = await client.request(
                method, address, headers=headers, json={} if method == "POST" else None
            )
            response.raise_for_status()
            spent.append((time.perf_counter() - begin) * 1000)

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=CONNECTIONS), timeout=60) as client:
        for _ in range(20):
            await client.request(method, address, headers=headers, json={} if method == "POST" else None)
        begin = time.perf_counter()
        await asyncio.gather(*(one_connection(client) for _ in range(CONNECTIONS)))
        seconds = time.perf_counter() - begin
    return count / seconds, harness.percentile(spent, 0.5), harness.percentile(spent, 0.95)
