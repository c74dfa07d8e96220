"""The system call filter of jobs: a classic BPF program that the kernel runs before each system call of a job.

It refuses what ordinary programs never need and what has opened kernels before: user namespaces, keys, eBPF, io_uring,
modules, clocks and the like, much as container engines do by default; whatever is not named here is allowed. It is
written by hand instead of by libseccomp: the list is short, a job needs no library then, and there is no machine
without it.

The fork server puts itself under it before the first job, and jobs inherit it at no cost; in each of them it would be
a third of a millisecond. So what makes sandboxes is not in it: mount, umount2, setns and the namespaces other than of
users. The kernel refuses those to a job, which has no capability and, without user namespaces, no way to one.

With `supervised` the calls that name a network address are not decided here but by a supervisor (address_guard.py).
See docs/decisions/0013-system-calls-and-addresses.md.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterable

from . import linux

# (x86_64, aarch64); None: there is no such call. Answered with EPERM.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_mempolicy": (239, 236),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
# Answered with ENOSYS, as by a kernel that does not have them yet: programs then use what there was before. The flags
# of clone3 lie in memory, where a filter cannot see them.
_ABSENT: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
}
# Depends on their arguments.
_ABOUT_ONE_PROCESS = {  # the first argument is a pid
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
}
_ABOUT_MANY_PROCESSES = {  # the first argument says whether the second is a pid or something wider; its value for a pid
    "ioprio_set": (251, 30, 1),
    "setpriority": (141, 140, 0),
}
_CLONE = (56, 220)
_CONNECT = (42, 203)
_IOCTL = (16, 29)
_PERSONALITY = (135, 92)
_SENDMMSG = (307, 269)
_SENDMSG = (46, 211)
_SENDTO = (44, 206)
_SOCKET = (41, 198)
_UNSHARE = (272, 97)
_SECCOMP = (317, 277)
NUMBERED = {
    **_REFUSED,
    **_ABSENT,
    **_ABOUT_ONE_PROCESS,
    **{name: columns[:2] for name, columns in _ABOUT_MANY_PROCESSES.items()},
    "clone": _CLONE,
    "connect": _CONNECT,
    "ioctl": _IOCTL,
    "personality": _PERSONALITY,
    "seccomp": _SECCOMP,
    "sendmmsg": _SENDMMSG,
    "sendmsg": _SENDMSG,
    "sendto": _SENDTO,
    "socket": _SOCKET,
    "unshare": _UNSHARE,
}

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH_*
_GUARD = 1  # pid of the process that watches over a job, which runs as the same user
_X32 = 0x40000000  # set in the numbers of x86_64's second set of system calls

_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
# NEWCGROUP, NEWUTS, NEWUSER and NEWTIME; for clone the last one's bit belongs to the number of a signal.
_NEW_NAMESPACES_OF_JOBS = 0x16000080
_PERSONALITIES = (
    0,
    0x8,
    0x20000,
    0x20008,
    0xFFFFFFFF,
)  # Linux, 32 bit, old version number; the last one asks
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: put words into somebody's terminal
_LOCAL_FAMILIES = (socket.AF_UNIX, socket.AF_NETLINK)
_INTERNET_FAMILIES = (socket.AF_INET, socket.AF_INET6)
# No others: SCTP, DCCP and Multipath TCP can reach addresses that connect() was not given.
_PROTOCOLS = (0, socket.IPPROTO_ICMP, socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_ICMPV6, 136)
_ADDRESS_SIZES = (16, 28, 128)  # struct sockaddr_in, sockaddr_in6, sockaddr_storage
_FAST_OPEN = 0x20000000  # MSG_FASTOPEN: connects while it sends

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_ERROR = 0x00050000  # SECCOMP_RET_ERRNO; plus an errno

_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data; for arguments see _argument
_HIGH_HALF = 4

_SET_MODE_FILTER = 1
_FLAG_SPEC_ALLOW = (
    4  # no slower code against Spectre for the whole process: it shares memory with no other job
)
_FLAG_NEW_LISTENER = 8

_libc = ctypes.CDLL(None, use_errno=True)

Instruction = tuple[int, int, int, int]  # code, instructions to skip when true, when false, value
Code = list[Instruction]  # a piece of program that ends in a return on every way through it


_ALLOWED: Code = [(_RETURN, 0, 0, 0x7FFF0000)]  # SECCOMP_RET_ALLOW
_ASKED: Code = [(_RETURN, 0, 0, 0x7FC00000)]  # SECCOMP_RET_USER_NOTIF


def program(*, supervised: bool, every_connect: bool = True, machine: str | None = None) -> bytes:
    """The filter for this `machine`. Raises OSError when its system call numbers are not known here.

    `supervised`: a supervisor decides about addresses. Without `every_connect` it is not asked about connections whose
    address has none of the usual sizes of the internet's: those of local sockets, which every shell makes.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"system call numbers are not known for {machine} processors")
    column, architecture = _MACHINES[machine]
    # The system calls of 32-bit programs have other numbers.
    code: Code = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), *_error(errno.ENOSYS)]
    code.append((_LOAD, 0, 0, _NUMBER))
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), *_error(errno.ENOSYS)]
    for table, number in ((_REFUSED, errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for columns in table.values():
            call = columns[column]
            if call is not None:
                code += [(_EQUAL, 0, 1, call), *_error(number)]
    for columns, decision in _decisions(supervised, every_connect):
        code += [(_EQUAL, 0, len(decision), columns[column]), *decision]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in [*code, *_ALLOWED])


def install(filter_program: bytes, *, with_listener: bool = False) -> int:
    """Hold this thread, and all that it starts, to `filter_program` for good. Raises OSError.

    Programs that it executes gain no privileges from then on.

    Returns the descriptor of the listener that answers what the filter asks, or 0.
    """
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    code = ctypes.create_string_buffer(filter_program, len(filter_program))
    # struct sock_fprog: number of instructions, padding, address
    described = struct.pack("HxxxxxxQ", len(filter_program) // 8, ctypes.addressof(code))
    flags = _FLAG_SPEC_ALLOW | (_FLAG_NEW_LISTENER if with_listener else 0)
    number = _SECCOMP[_MACHINES[platform.machine()][0]]
    result = _libc.syscall(
        ctypes.c_long(number),
        ctypes.c_uint(_SET_MODE_FILTER),
        ctypes.c_uint(flags),
        ctypes.create_string_buffer(described, len(described)),
    )
    if result < 0:
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
    return int(result)


def supervised_calls() -> dict[int, str]:
    """Names, by number, of the calls that a filter asks about."""
    column = _MACHINES[platform.machine()][0]
    return {_CONNECT[column]: "connect", _SENDTO[column]: "sendto", _SOCKET[column]: "socket"}


def _decisions(supervised: bool, every_connect: bool) -> list[tuple[tuple[int, int], Code]]:
    """What is decided by arguments, and how."""
    refused = _error(errno.EPERM)
    found = [
        (_IOCTL, _choose(_argument(1), _TERMINAL_INPUT, refused, _ALLOWED)),
        (_PERSONALITY, _choose(_argument(0), _PERSONALITIES, _ALLOWED, refused)),
        (_SOCKET, _socket(supervised)),
        (_CLONE, _if_bits(_argument(0), _NEW_NAMESPACES, refused, _ALLOWED)),
        (_UNSHARE, _if_bits(_argument(0), _NEW_NAMESPACES_OF_JOBS, refused, _ALLOWED)),
    ]
    # Neither slowed down nor limited the guard does what it is there for.
    not_the_guard = [_choose(_argument(place), [_GUARD], refused, _ALLOWED) for place in range(2)]
    found += [(columns, not_the_guard[0]) for columns in _ABOUT_ONE_PROCESS.values()]
    for *columns, pid in _ABOUT_MANY_PROCESSES.values():
        found.append(((columns[0], columns[1]), _choose(_argument(0), [pid], not_the_guard[1], refused)))
    if supervised:
        no_fast_open = _error(errno.EOPNOTSUPP)
        # Only with an address: its place in memory is not 0. Most programs that "send" do it without.
        to_address = _choose(
            _argument(4), [0], _choose(_argument(4) + _HIGH_HALF, [0], _ALLOWED, _ASKED), _ASKED
        )
        found += [
            (
                _CONNECT,
                _ASKED if every_connect else _choose(_argument(2), _ADDRESS_SIZES, _ASKED, _ALLOWED),
            ),
            (_SENDTO, _if_bits(_argument(3), _FAST_OPEN, no_fast_open, to_address)),
            # Where a message goes lies in memory, and all kinds of programs send messages: see address_guard.
            (_SENDMSG, _if_bits(_argument(2), _FAST_OPEN, no_fast_open, _ALLOWED)),
            (_SENDMMSG, _if_bits(_argument(3), _FAST_OPEN, no_fast_open, _ALLOWED)),
        ]
    return found


def _socket(supervised: bool) -> Code:
    """socket(family, type, protocol): local ones, and the internet's usual protocols."""
    internet = _choose(
        _argument(2), _PROTOCOLS, _ASKED if supervised else _ALLOWED, _error(errno.EPROTONOSUPPORT)
    )
    others = _choose(_argument(0), _LOCAL_FAMILIES, _ALLOWED, _error(errno.EAFNOSUPPORT))
    return _choose(_argument(0), _INTERNET_FAMILIES, internet, others)


def _error(number: int) -> Code:
    return [(_RETURN, 0, 0, _ERROR | number)]


def _argument(position: int) -> int:
    """Where the low half of an argument is, which is all that the kernel looks at where it is an int."""
    return 16 + 8 * position


def _choose(where: int, values: Iterable[int], then: Code, otherwise: Code) -> Code:
    """`then` when the word at `where` is one of `values`."""
    tests = [int(value) for value in values]
    code: Code = [(_LOAD, 0, 0, where)]
    for left, value in zip(range(len(tests) - 1, -1, -1), tests, strict=True):
        code.append((_EQUAL, left, 0 if left else len(then), value))
    return [*code, *then, *otherwise]


def _if_bits(where: int, bits: int, then: Code, otherwise: Code) -> Code:
    """`then` when the word at `where` has one of `bits`."""
    return [(_LOAD, 0, 0, where), (_ANY_BIT, 0, len(then), bits), *then, *otherwise]
