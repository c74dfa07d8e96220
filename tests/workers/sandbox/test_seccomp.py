"""System calls that jobs are refused: what the filter decides, and what a job meets."""

import errno
import json
import platform
import re
from pathlib import Path

import pytest

from tests.workers.job_runs import Jobs
from tests.workers.sandbox.bpf import decide
from workers.job_process import seccomp

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS = {  # of this test's own, by machine
    "x86_64": {
        "read": 0,
        "clone": 56,
        "unshare": 272,
        "ioctl": 16,
        "socket": 41,
        "sendto": 44,
        "connect": 42,
        "bpf": 321,
    },
    "aarch64": {
        "read": 63,
        "clone": 220,
        "unshare": 97,
        "ioctl": 29,
        "socket": 198,
        "sendto": 206,
        "connect": 203,
        "bpf": 280,
    },
}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOWED = 0x7FFF0000
ASKED = 0x7FC00000
FORK = 0x01200011  # the flags with which the C library forks
THREAD = 0x003D0F00
NEW_USER, NEW_NET = 0x10000000, 0x40000000


def refused_with(number: int) -> int:
    return 0x00050000 | number


def decided(machine: str, name: str, *arguments: int, supervised: bool = False) -> int:
    program = seccomp.program(supervised=supervised, machine=machine)
    number = NUMBERS[machine][name]
    return decide(program, architecture=MACHINES[machine], call=number, arguments=arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_programs_need_is_allowed(machine: str) -> None:
    tcp = (2, 1 | 0o2000000, 6)

    assert decided(machine, "read") == ALLOWED
    assert decided(machine, "clone", FORK) == ALLOWED
    assert decided(machine, "clone", THREAD) == ALLOWED
    assert decided(machine, "ioctl", 1, 0x5413) == ALLOWED  # the size of a terminal
    assert decided(machine, "socket", *tcp) == ALLOWED
    assert decided(machine, "socket", 1, 5, 0) == ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
def test_what_opens_kernels_is_refused(machine: str) -> None:
    assert decided(machine, "bpf") == refused_with(errno.EPERM)
    assert decided(machine, "clone", NEW_USER | 17) == refused_with(errno.EPERM)
    assert decided(machine, "clone", NEW_NET | 17) == refused_with(errno.EPERM)
    assert decided(machine, "unshare", NEW_USER) == refused_with(errno.EPERM)
    assert decided(machine, "socket", 40, 1, 0) == refused_with(errno.EAFNOSUPPORT)  # AF_VSOCK
    assert decided(machine, "socket", 2, 1, 132) == refused_with(errno.EPROTONOSUPPORT)  # SCTP


@pytest.mark.parametrize("machine", MACHINES)
def test_high_halves_of_arguments_do_not_hide_what_the_kernel_will_see(machine: str) -> None:
    assert decided(machine, "ioctl", 0, 0x5412 | 1 << 32) == refused_with(errno.EPERM)  # TIOCSTI
    assert decided(machine, "socket", 40 | 1 << 32, 1, 0) == refused_with(errno.EAFNOSUPPORT)


@pytest.mark.parametrize("machine", MACHINES)
def test_other_sets_of_system_calls_are_absent(machine: str) -> None:
    program = seccomp.program(supervised=False, machine=machine)

    assert decide(program, architecture=0x40000003, call=3) == refused_with(errno.ENOSYS)
    if machine == "x86_64":
        x32_read = decide(program, architecture=MACHINES[machine], call=0x40000000)
        assert x32_read == refused_with(errno.ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_supervisor_is_asked_about_addresses_alone(machine: str) -> None:
    def asked(name: str, *arguments: int) -> bool:
        return decided(machine, name, *arguments, supervised=True) == ASKED

    assert asked("socket", 10, 2, 17)
    assert asked("sendto", 3, 0x7000, 5, 0, 0x8000_0000_0000, 16)
    assert not asked("sendto", 3, 0x7000, 5, 0, 0, 0)  # this is send()
    assert not asked("socket", 1, 1, 0)
    fast_open = decided(machine, "sendto", 3, 0x7000, 5, 0x20000000, 0x8000, 16, supervised=True)
    assert fast_open == refused_with(errno.EOPNOTSUPP)


@pytest.mark.parametrize("machine", MACHINES)
def test_connections_of_local_sockets_need_not_be_asked_about(machine: str) -> None:
    def is_asked(size: int, *, every: bool) -> bool:
        program = seccomp.program(supervised=True, every_connect=every, machine=machine)
        call = NUMBERS[machine]["connect"]
        decision = decide(program, architecture=MACHINES[machine], call=call, arguments=(3, 0x7000, size))
        return decision == ASKED

    assert [is_asked(size, every=False) for size in (16, 28, 128, 110)] == [True, True, True, False]
    assert is_asked(110, every=True)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"there is no {HEADERS[machine]}")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", HEADERS[machine].read_text(), re.MULTILINE)
    numbers = {name: int(number) for name, number in found}
    column = list(MACHINES).index(machine)

    for name, columns in seccomp.NUMBERED.items():
        if name in numbers:
            assert columns[column] == numbers[name], name


def test_a_filter_is_refused_for_processors_whose_numbers_are_unknown() -> None:
    with pytest.raises(OSError, match="not known for sparc64"):
        seccomp.program(supervised=False, machine="sparc64")


PROBE = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def tried(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(one) for one in arguments])
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "done"
def main():
    return {name: tried(*call) for name, call in CALLS.items()}
"""
CALLS = {  # x86_64
    "unshare": (272, NEW_USER),
    "unshare of mounts": (272, 0x20000),
    "clone with a namespace": (56, NEW_USER | 17, 0, 0, 0, 0),
    "clone3": (435, 0, 0),
    "keyctl": (250, 0, -3, 0),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 8, 0),
    "open_by_handle_at": (304, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "reboot": (169, 0, 0, 0, 0),
    "personality": (135, 0x0400000),
    "TIOCSTI": (16, 0, 0x5412, 0),
    "AF_VSOCK": (41, 40, 1, 0),
    "AF_ALG": (41, 38, 5, 0),
    "x32": (0x40000000 + 39,),
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64")
def test_a_job_meets_the_filter(isolated: Jobs) -> None:
    met = isolated.python(PROBE.replace("CALLS", repr(CALLS))).result

    assert "done" not in met.values()
    assert met["clone3"] == met["io_uring_setup"] == met["x32"] == "ENOSYS"
    assert met["AF_VSOCK"] == met["AF_ALG"] == "EAFNOSUPPORT"
    assert set(met.values()) == {"ENOSYS", "EAFNOSUPPORT", "EPERM"}, met


def test_what_the_filter_leaves_to_the_kernel_is_refused_for_want_of_capabilities(isolated: Jobs) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def error(result):
    return os.strerror(ctypes.get_errno()) if result else "done"
def main():
    own = os.open("/proc/self/ns/uts", os.O_RDONLY)
    return [
        error(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None)),
        error(libc.mount(b"/tmp", b"/tmp/job", None, 0x1000, None)),
        error(libc.umount2(b"/tmp", 2)),
        error(libc.setns(own, 0)),
    ]
"""

    assert isolated.python(code).result == ["Operation not permitted"] * 4


@pytest.mark.parametrize(
    ("language", "code"),
    [
        (
            "bash",
            "grep -c '^Seccomp:.*2$' /proc/self/status > n; "
            "unshare --user true && echo '\"made\"' > result.json || echo '\"refused\"' > result.json",
        ),
        (
            "bun",
            "import { spawnSync } from 'node:child_process'; export function main() { "
            "return spawnSync('unshare', ['--user', 'true']).status === 0 ? 'made' : 'refused' }",
        ),
    ],
)
def test_no_language_makes_user_namespaces(isolated: Jobs, language: str, code: str) -> None:
    assert isolated(language, code).result == "refused"


def test_what_a_job_starts_is_held_too(isolated: Jobs) -> None:
    code = "cat /proc/self/status | grep '^Seccomp:' | tr -dc 0-9 > result.json"

    assert isolated.bash(code).result == 2  # SECCOMP_MODE_FILTER


def test_threads_processes_and_pipes_work_under_the_filter(isolated: Jobs) -> None:
    code = """
import concurrent.futures, multiprocessing, subprocess
def main():
    with concurrent.futures.ThreadPoolExecutor() as threads:
        squares = list(threads.map(lambda n: n * n, range(3)))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        texts = pool.map(str, range(3))
    return [squares, texts, subprocess.run(["echo", "hi"], capture_output=True, text=True).stdout]
"""

    assert isolated.python(code).result == json.loads('[[0, 1, 4], ["0", "1", "2"], "hi\\n"]')
