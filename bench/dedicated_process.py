"""What one warm process does by itself: calls a second, and one call at a time. No queue, no database.

.venv/bin/python -m bench.dedicated_process [calls]
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from workers.dedicated import Answer, Call, WarmProcess
from workers.runtimes import Execution, ExecutionFailed, SandboxUnavailable, Site, look_around
from workers.runtimes.base import Warmable
from workers.sandbox import HostPool, JobHost

NO_OPS = {
    "python3": "def main(x: int = 1):\n    return x\n",
    "bun": "export function main(x: number) {\n  return x;\n}\n",
    "deno": "export function main(x: number) {\n  return x;\n}\n",
}
_AHEAD = 200  # calls that a process has at most


class _Counting:
    """A Listener that sends the next calls when half of the last ones are answered."""

    def __init__(self, process: WarmProcess, total: int) -> None:
        self._process = process
        self._left = total
        self._open = 0
        self._number = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def feed(self) -> None:
        wanted = min(self._left, _AHEAD - self._open)
        calls = [self._call() for _ in range(wanted)]
        self._left -= wanted
        self._open += wanted
        self._process.send(calls, self)

    def _call(self) -> Call:
        self._number += 1
        job_id = f"00000000-0000-0000-0000-{self._number:012}"
        return Call(job_id, '{"x": 1}', {"WM_JOB_ID": job_id, "WM_TOKEN": f"token-{self._number}"}, 300.0)

    def on_log(self, job_id: str, text: str) -> None:
        raise AssertionError(text)

    def on_answers(self, answers: Sequence[Answer]) -> None:
        assert all(answer.is_success for answer in answers), answers
        self._open -= len(answers)
        if self._left and self._open <= _AHEAD // 2:
            self.feed()
        elif not self._left and not self._open:
            self.done.set_result(None)

    def on_end(
        self, reason: ExecutionFailed | SandboxUnavailable, begun: Call | None, not_begun: Sequence[Call]
    ) -> None:
        self.done.set_exception(reason)


class _Quiet:
    def write(self, text: str) -> None:
        print(text, end="")

    stream = write


async def measure(language: str, executor: Warmable, calls: int) -> str:
    """One line of the table."""
    execution = Execution(
        job_id="bench",
        workspace_id="bench",
        language=language,
        code=NO_OPS[language],
        args={},
        env={},
        lock="",
    )
    began = time.perf_counter()
    process = await WarmProcess.start(executor, execution, _Quiet())
    started_ms = (time.perf_counter() - began) * 1e3
    for _ in range(2):  # the first round warms it up
        cpu, began = time.process_time(), time.perf_counter()
        many = _Counting(process, calls)
        many.feed()
        await many.done
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    single = []
    for _ in range(500):
        began = time.perf_counter()
        one = _Counting(process, 1)
        one.feed()
        await one.done
        single.append(time.perf_counter() - began)
    peak_mb = process.peak_kb / 1024
    await process.close()
    return (
        f"{language:8} {started_ms:9.1f} {calls / took:10,.0f} {took / calls * 1e6:10.1f} {cpu / calls * 1e6:12.1f} "
        f"{statistics.median(single) * 1e6:11.0f} {peak_mb:8.0f}"
    )


async def main(calls: int) -> None:
    available = look_around()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        cache_dir = Path(folder) / "cache"
        cache_dir.mkdir(mode=0o711)
        host = JobHost(
            base_dir=Path(folder) / "jobs",
            read_only=[cache_dir, *(tool.readable for tool in available.tools.values())],
            writable_root=cache_dir,
            policy="warn",
        )
        await host.start()
        hosts = HostPool(host)
        site = Site(host=host, hosts=hosts, tools=available.tools, cache_dir=cache_dir)
        print("language  start ms    calls/s    us/call  us of worker  us if single  peak MB")
        for runtime in available.runtimes:
            for language in runtime.languages:
                executor = runtime.make(site)
                if language in NO_OPS and isinstance(executor, Warmable):
                    print(await measure(language, executor, calls))
        await hosts.close()
        await host.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
