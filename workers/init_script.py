"""The init script of a worker group: prepares the host once, before the first job (reference/worker.md section 1).

It installs what jobs need on the machine, so unlike them it runs outside the sandbox, as the worker's own user; its
environment is clean all the same: no database address, no keys.
"""

import asyncio
import codecs
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from jobs.models import JobKind
from jobs.queue import JobRequest
from workers.logs import JobLog

TAG = "init_script"
WORKSPACE = "admins"
EMAIL = "worker@windmill.dev"
_KEPT_CHARS = 100_000  # of its output, for the workers page
_READ_BYTES = 65_536


class InitScriptFailed(Exception):
    """The script ended with an error; `log` is the end of what it printed."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


def job(script: str, *, worker: str) -> JobRequest:
    """The job by which everybody can look at what it did."""
    return JobRequest(
        workspace_id=WORKSPACE,
        kind=JobKind.PREVIEW,
        tag=TAG,
        created_by=worker,
        permissioned_as=f"u/{worker}",
        permissioned_as_email=EMAIL,
        args={},
        runnable_path=f"init_script_{worker}",
        raw_code=script,
        language="bash",
    )


async def run(script: str, *, environment: Mapping[str, str], log: JobLog, timeout_s: float) -> str:
    """Run it with bash; answers its output. Raises InitScriptFailed. Cancelling kills it with all its children."""
    with TemporaryDirectory(prefix="windmill-init-") as folder:
        path = Path(folder, "init.sh")
        path.write_text(script.replace("\r\n", "\n"))
        try:
            process = await asyncio.create_subprocess_exec(
                "bash",
                str(path),
                cwd=folder,
                env={"HOME": str(Path.home()), **environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except FileNotFoundError as exc:
            raise InitScriptFailed("bash is not installed on this host", "") from exc
        output = ""
        try:
            async with asyncio.timeout(timeout_s):
                assert process.stdout is not None
                decoder = codecs.getincrementaldecoder("utf-8")("replace")
                while data := await process.stdout.read(_READ_BYTES):
                    text = decoder.decode(data)
                    output = (output + text)[-_KEPT_CHARS:]
                    log.write(text)
                exit_code = await process.wait()
        except TimeoutError as exc:
            raise InitScriptFailed(f"it ran for more than {timeout_s:.0f} s", output) from exc
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if exit_code != 0:
        raise InitScriptFailed(f"it ended with exit code {exit_code}", output)
    return output
