"""The job's own process: it waits, with its rights given up, for what it is to run; then it is that."""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import socket
import sys
from typing import Any, NoReturn

from . import packets, python_main, serving

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_LIMITED = (
    resource.RLIMIT_DATA,
    resource.RLIMIT_NPROC,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_CORE,
)
_REHEARSAL = "rehearsal"
_REHEARSED: dict[str, Any] = {
    # More than jobs have, of many lengths: what is free in the heap between others' memory is used up by them.
    "env": {f"REHEARSED_{number}": "x" * (number % 8 * 20) for number in range(100)},
    "files": {
        f"{_REHEARSAL}/of/main.py": "",
        f"{_REHEARSAL}/args.json": "{}",
    },
    "python": {
        "script_path": f"{_REHEARSAL}/of/main.py",
        "code": "import json\n\n\ndef main(name: str = 'x', n: int = 1):\n"
        "    return {'name': name, 'n': [n, 1.5, None]}\n",
        "args": {"name": "y"},
        "entrypoint": "main",
        "preprocess": False,
        "python_paths": [],
        "scripts": {},
        "folders": {},
        "result_bytes": 1000,
    },
}


def be_the_job(worker: socket.socket, home: str, scratch: str | None, *, shares_uid: bool) -> NoReturn:
    """Wait for a job from `worker` and run it. `scratch`: where its temporary files go, if that is not /tmp."""
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()  # it was preloaded: all jobs would draw the same numbers; `random` sees to it by itself
    _rehearse(home)
    channel: list[int] = []  # of a session: where calls come from, where answers go
    received = packets.receive(worker, channel)
    if received is None:
        os._exit(0)
    job: dict[str, Any] = json.loads(received[1])
    env = _environment(home, job["env"])
    if scratch is not None:
        env.setdefault("TMPDIR", scratch)
    for path, content in job["files"].items():
        _write(path, content)
    _limit(job["limits"], shares_uid=shares_uid)
    gc.enable()
    if job["kind"] == "python":
        if channel:
            serving.serve(job["python"], env, worker, calls=channel[0], answers=channel[1])
        python_main.run(job["python"], env, worker)
    worker.close()
    if channel:
        serving.put_in_place(*channel)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them; the program must not
    argv: list[str] = [part.encode("utf-8", "surrogatepass").replace(b"\0", b"") for part in job["argv"]]
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        sys.stderr.write(f"cannot run {job['argv'][0]}: {error.strerror}\n")
        os._exit(127)


def _rehearse(home: str) -> None:
    """Do once what every job does, before there is one, and leave no trace of it.

    The first touch of a memory page after a fork copies it, which costs about 3 microseconds; this takes some
    hundred of those copies out of the time that somebody waits for.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        packets.send(ours, "J", json.dumps(_REHEARSED).encode())
        _, text = packets.receive(theirs, []) or ("", b"")
    job: dict[str, Any] = json.loads(text)
    for path, content in job["files"].items():
        _write(path, content)
    for kind in _LIMITED:
        resource.setrlimit(kind, resource.getrlimit(kind))
    python_main.rehearse(job["python"], _environment(home, job["env"]))
    shutil.rmtree(_REHEARSAL)
    # The collector was off until now. Without this it would run as soon as it is on, and touch whatever it looks at.
    gc.freeze()


def _environment(home: str, own: dict[str, str]) -> dict[str, str]:
    return {"HOME": home, "LANG": "C.UTF-8", "PATH": _PATH, "TZ": "UTC", **own}


def _write(path: str, content: str) -> None:
    data = content.encode("utf-8", "surrogatepass")
    try:
        fd = os.open(path, _NEW_FILE, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, _NEW_FILE, 0o666)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def _limit(limits: dict[str, Any], *, shares_uid: bool) -> None:
    for kind, value in (
        # Private writable memory; RLIMIT_AS would also count address space that Go, Java and V8 only reserve.
        (resource.RLIMIT_DATA, limits["data_bytes"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        # Not 0: the kernel writes no file either way, but only at 1 it starts no program of the machine (core_pattern).
        (resource.RLIMIT_CORE, 1),
    ):
        if value is None:
            continue
        if kind == resource.RLIMIT_NPROC and shares_uid:
            continue  # the kernel counts processes by user: the worker's own would be counted in
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))
