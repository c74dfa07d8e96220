"""Keeps jobs from addresses that are not meant for them, above all from those where clouds give out credentials.

Jobs share the machine's network, and who is unprivileged has no firewall. So a supervisor, a process of ours beside the
fork server, is asked by the system call filter (seccomp.py) of every process of a job:

    socket     it makes the internet sockets itself, and attaches a filter that drops every packet that comes from a
               blocked address. The filter is locked: nothing that a job does takes it off. So no connection to such
               an address is ever established, and no answer to a datagram ever read.
    connect,   it reads the address; when that is blocked the call fails with EACCES and the job's log says why. When
    sendto     it is not, the kernel goes on with the call.

The first is the guarantee; it holds for whatever way a packet leaves. The second is for people: a job that changes the
address after we read it, or sends by another call, waits for an answer that never comes.

Handing a socket over takes until whoever asked for it has run, and reading memory until it lets go of it: a job can make
both last, with a low priority among busy processes for instance. So each question has a thread of its own, and nobody
waits for the socket of somebody else.

There are machines that let only root attach filters to sockets; an ordinary user has only the second there.

Name servers of this machine are often link-local themselves: their port 53 stays within reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from . import linux, seccomp

DNS_PORT = 53
_RESOLVER_FILE = "/etc/resolv.conf"
_TOLD_MOST = 1000  # refusals that are remembered, to say each only once
_THREADS_READY = 2  # that wait for a question; further ones are there while there are questions
_STACK_BYTES = 256 << 10  # of each: a job may keep as many of them waiting as it may have processes

_NOTIFICATION_BYTES = (
    80  # struct seccomp_notif: id, pid, flags, data (number, architecture, instruction, 6 arguments)
)
_RECEIVE = 0xC0502100  # SECCOMP_IOCTL_NOTIF_RECV
_ANSWER = 0xC0182101  # SECCOMP_IOCTL_NOTIF_SEND
_GIVE_FD = 0x40182103  # SECCOMP_IOCTL_NOTIF_ADDFD
_GO_ON = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_AND_ANSWER = 2  # SECCOMP_ADDFD_FLAG_SEND (Linux 5.14)

_ADDRESS_BYTES = 28  # of the largest that matters, struct sockaddr_in6
_SO_ATTACH_FILTER = 26
_SO_LOCK_FILTER = 44
_KIND = 0xF  # of a socket; the rest of its type are flags
# We may do more than a job: nothing but what every process may make is made for it.
_MADE_HERE = {
    (socket.SOCK_STREAM, 0),
    (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    (socket.SOCK_DGRAM, 0),
    (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    (socket.SOCK_DGRAM, 136),  # UDP-Lite
}

_NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF: offsets from here are in the IP header, others in the transport's
_IPV4_SOURCE, _IPV6_SOURCE = 12, 8
_ACCEPT, _DROP = 0xFFFFFFFF, 0

_REFUSED, _SILENT = "refused", "silent"  # what find_out sees of a call that names a blocked address
_MAY_NOT_LOOK = "the worker may not look at its jobs' memory, which takes the capability SYS_PTRACE"


class AddressesOpen(Exception):
    """Addresses cannot be kept from jobs on this machine; the message says why."""


@dataclass(frozen=True)
class Network:
    """Addresses of one family whose first `bits` are those of `address`."""

    address: bytes  # 4 or 16
    bits: int

    def __contains__(self, address: bytes) -> bool:
        size = len(address)
        shift = 8 * size - self.bits
        return (
            size == len(self.address)
            and int.from_bytes(address, "big") >> shift == int.from_bytes(self.address, "big") >> shift
        )

    def __str__(self) -> str:
        return f"{_shown(self.address)}/{self.bits}"


class Rules:
    """What is blocked. `networks` are texts such as "169.254.0.0/16", as workers.networks spells them."""

    def __init__(self, networks: Sequence[str], resolvers: Sequence[bytes]) -> None:
        self.networks = [_network(text) for text in networks]
        self.resolvers = [one for one in resolvers if any(one in network for network in self.networks)]
        self.socket_filter = _socket_filter(self.networks, self.resolvers)
        self.filters_sockets = _can_attach(self.socket_filter)

    def cut_off(self, made: socket.socket) -> None:
        """Have `made` never hear from what is blocked. Raises OSError."""
        _attach(made, self.socket_filter)

    def blocking(self, address: bytes, port: int) -> Network | None:
        """The network for which `address` (4 or 16 bytes) is blocked; None when it may be reached."""
        if len(address) == 16 and address.startswith(b"\0" * 10 + b"\xff\xff"):
            address = address[12:]  # an IPv4 address as IPv6 sockets write it
        if port == DNS_PORT and address in self.resolvers:
            return None
        return next((network for network in self.networks if address in network), None)


def resolvers_of_this_machine() -> list[bytes]:
    """Addresses of the name servers that programs here ask."""
    found = []
    with contextlib.suppress(OSError), open(_RESOLVER_FILE, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) > 1 and words[0] == "nameserver":
                with contextlib.suppress(OSError):
                    text = words[1].partition("%")[0]
                    found.append(socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text))
    return found


class Supervisor:
    """Answers what the filter behind `listener` asks: with `serve` one question after the other, or all at once."""

    def __init__(self, listener: int, rules: Rules) -> None:
        self._listener = listener
        self._rules = rules
        self._calls = seccomp.supervised_calls()
        self._own_network = _network_of(os.getpid())
        self._told: set[tuple[int, bytes]] = set()
        self._lock = threading.Lock()
        self._ready = 0  # threads that wait for a question

    def serve_at_once(self) -> None:
        """Answer in threads until nobody is left who could ask; some of them are still there then."""
        threading.stack_size(_STACK_BYTES)
        for _ in range(_THREADS_READY):
            self._add_thread()
        poll = select.poll()
        poll.register(self._listener, 0)  # for its end only
        poll.poll()

    def _add_thread(self) -> None:
        with self._lock:
            self._ready += 1
        try:
            threading.Thread(target=self._answer_many, daemon=True).start()
        except (
            RuntimeError
        ) as error:  # there may be no more of them: then questions wait for each other for a while
            with self._lock:
                self._ready -= 1
            sys.stderr.write(f"address guard: {error}\n")

    def _answer_many(self) -> None:
        while True:
            try:
                question = self._next_question()
            except OSError:
                return  # nobody is left who could ask
            with self._lock:
                self._ready -= 1
                is_last = self._ready == 0
            if is_last:
                self._add_thread()
            if question is not None:
                self._take(question)
            with self._lock:
                if self._ready >= _THREADS_READY:
                    return
                self._ready += 1

    def serve(self) -> None:
        """Answer until nobody is left who could ask."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while poll.poll()[0][1] & select.POLLIN:
            self.answer_one()

    def answer_one(self) -> None:
        """Take one question and answer it."""
        question = self._next_question()
        if question is not None:
            self._take(question)

    def _next_question(self) -> bytearray | None:
        """Wait for one. None: whoever asked was interrupted or has ended. Raises OSError."""
        question = bytearray(_NOTIFICATION_BYTES)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, question)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None
            raise
        return question

    def _take(self, question: bytearray) -> None:
        identity, pid, _, number, _, _, *arguments = struct.unpack("QIIiIQ6Q", question)
        try:
            call = self._calls.get(number)
            if call == "socket":
                self._make_socket(identity, pid, *(argument & 0xFFFFFFFF for argument in arguments[:3]))
                return
            place, size = (arguments[1], arguments[2]) if call == "connect" else (arguments[4], arguments[5])
            self._refuse_or_go_on(identity, pid, place, size & 0xFFFFFFFF, is_connect=call == "connect")
        except Exception as error:  # one question must not end the answers for all jobs
            sys.stderr.write(f"address guard: {error!r}\n")
            self._answer(identity, error=errno.EACCES)

    def _make_socket(self, identity: int, pid: int, family: int, kind: int, protocol: int) -> None:
        if (kind & _KIND, protocol) not in _MADE_HERE or not self._rules.filters_sockets:
            self._answer(identity, flags=_GO_ON)
            return
        try:
            network = _network_of(pid)
        except OSError:
            self._answer(identity, error=errno.EACCES)  # it has ended
            return
        if network != self._own_network:
            self._answer(identity, flags=_GO_ON)  # a network of its own, where nothing is blocked
            return
        try:
            made = socket.socket(family, kind, protocol)
        except OSError as error:
            self._answer(identity, error=error.errno or errno.EACCES)
            return
        with made:
            self._rules.cut_off(made)
            with contextlib.suppress(OSError):
                os.fchown(
                    made.fileno(), os.stat(f"/proc/{pid}").st_uid, -1
                )  # firewalls may tell jobs by user
            flags = os.O_CLOEXEC if kind & socket.SOCK_CLOEXEC else 0
            given = struct.pack("QIIII", identity, _AND_ANSWER, made.fileno(), 0, flags)
            try:
                fcntl.ioctl(self._listener, _GIVE_FD, given)
            except OSError as error:
                if error.errno != errno.ENOENT:
                    self._answer(identity, error=error.errno or errno.EACCES)  # EMFILE: it has too many open

    def _refuse_or_go_on(self, identity: int, pid: int, place: int, size: int, *, is_connect: bool) -> None:
        named = linux.read_memory(pid, place, min(size, _ADDRESS_BYTES))
        address, port = _address(named, is_connect=is_connect)
        network = self._rules.blocking(address, port) if address else None
        if network is None:
            self._answer(identity, flags=_GO_ON)  # also when it cannot be read: the kernel finds out
            return
        with contextlib.suppress(OSError):
            self._tell(pid, address, network)
        self._answer(identity, error=errno.EACCES)

    def _answer(self, identity: int, *, error: int = 0, flags: int = 0) -> None:
        with contextlib.suppress(OSError):  # ENOENT: nobody waits for it any more
            fcntl.ioctl(self._listener, _ANSWER, struct.pack("QqiI", identity, 0, -error, flags))

    def _tell(self, pid: int, address: bytes, network: Network) -> None:
        """Say why, once a process, in its standard error where that is a pipe, such as the job's log. Raises OSError."""
        if (pid, address) in self._told:
            return
        if len(self._told) >= _TOLD_MOST:
            self._told.clear()
        self._told.add((pid, address))
        line = (
            f"{_shown(address)} cannot be reached from jobs: {network} is among the JOB_BLOCKED_NETWORKS "
            "of this worker\n"
        )
        theirs = linux.descriptor_of(_process_of(pid), 2)
        try:
            if not stat.S_ISFIFO(os.fstat(theirs).st_mode):
                return
            # Opened again, so as to write without ever waiting; the pipe is the same, and ours to write as it is theirs.
            log = os.open(f"/proc/self/fd/{theirs}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(log, line.encode())
            finally:
                os.close(log)
        finally:
            os.close(theirs)


def find_out(filter_program: bytes, rules: Rules, uid: int) -> bool:
    """Try it on a process of user `uid`, such as jobs are; answers whether calls that name an address are refused.

    Otherwise nobody may look at the memory of jobs, and a job waits in vain for an answer. Raises AddressesOpen when
    nothing works.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _try_it(theirs, filter_program, rules, uid)
    theirs.close()
    said = "the process to try it on ended"
    with ours, contextlib.suppress(OSError):
        listener = listener_from(ours)
        try:
            Supervisor(listener, rules).serve()
        finally:
            os.close(listener)
        said = ours.recv(4096).decode() or said
    os.waitpid(pid, 0)
    if said not in (_REFUSED, _SILENT):
        raise AddressesOpen(said)
    if said == _SILENT and not rules.filters_sockets:
        raise AddressesOpen(_MAY_NOT_LOOK)
    return said == _REFUSED


def _try_it(supervisor: socket.socket, filter_program: bytes, rules: Rules, uid: int) -> NoReturn:
    try:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)  # where it would be told why it is refused
        if uid != os.geteuid():
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        linux.drop_all_capabilities()
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        install(supervisor, filter_program)
        supervisor.send(_trial(rules.networks[0]).encode())
    except BaseException as error:
        with contextlib.suppress(OSError):
            supervisor.send(str(error).encode())
    finally:
        os._exit(0)


def _trial(network: Network) -> str:
    with socket.socket(socket.AF_INET if len(network.address) == 4 else socket.AF_INET6) as tried:
        tried.setblocking(False)
        number = tried.connect_ex((_shown(network.address), DNS_PORT + 1))
    return _REFUSED if number == errno.EACCES else _SILENT


def start_supervisor(rules: Rules) -> tuple[int, socket.socket]:
    """Fork a supervisor for the process that will call `install` with the socket; returns its pid, too.

    It ends with this process or with the last one that could ask, has our rights and no descriptor of ours.
    """
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _be_the_supervisor(theirs, rules, parent)
    theirs.close()
    return pid, ours


def install(supervisor: socket.socket, filter_program: bytes) -> None:
    """Hold this process to `filter_program`, and send the listener to whoever is behind `supervisor`. Raises OSError."""
    listener = seccomp.install(filter_program, with_listener=True)
    try:
        socket.send_fds(supervisor, [b"L"], [listener])
    finally:
        os.close(listener)


def listener_from(confined: socket.socket) -> int:
    """Wait for what `install` sends. Raises OSError when it does not come."""
    _, fds, _, _ = socket.recv_fds(confined, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if not fds:
        raise OSError(errno.EPIPE, "the filter was not installed")
    return fds[0]


def _be_the_supervisor(confined: socket.socket, rules: Rules, parent: int) -> NoReturn:
    try:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
        linux.keep_only([linux.CAP_SYS_PTRACE, linux.CAP_CHOWN, linux.CAP_NET_ADMIN])
        os.closerange(3, confined.fileno())
        os.closerange(confined.fileno() + 1, 1 << 20)
        Supervisor(listener_from(confined), rules).serve_at_once()
    except BaseException as error:
        sys.stderr.write(f"address guard: {error!r}\n")
    finally:
        os._exit(1)


# --- addresses ---


def _network(text: str) -> Network:
    address, _, bits = text.partition("/")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return Network(socket.inet_pton(family, address), int(bits))


def _shown(address: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)


def _address(named: bytes, *, is_connect: bool) -> tuple[bytes, int]:
    """Address and port in a struct sockaddr; an empty address when it is none of the internet."""
    if len(named) < 8:
        return b"", 0
    family, port = int.from_bytes(named[:2], sys.byteorder), int.from_bytes(named[2:4], "big")
    # A datagram to "no family" goes to an IPv4 address; connecting to it means to let go of the one before.
    if family == socket.AF_INET or (family == socket.AF_UNSPEC and not is_connect):
        return named[4:8], port
    if family == socket.AF_INET6 and len(named) >= 24:
        return named[8:24], port
    return b"", 0


def _network_of(pid: int) -> int:
    """The same for threads in the same network namespace; who may see it need not have more rights. Raises OSError."""
    return os.stat(f"/proc/{pid}/net/dev").st_ino


def _process_of(thread: int) -> int:
    """The process that `thread` belongs to. Raises OSError."""
    with open(f"/proc/{thread}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    raise ProcessLookupError


# --- the filter of a socket: a classic BPF program, which sees every packet that comes in ---


def _attach(made: socket.socket, socket_filter: bytes) -> None:
    code = ctypes.create_string_buffer(socket_filter, len(socket_filter))
    # struct sock_fprog: number of instructions, padding, address
    described = struct.pack("HxxxxxxQ", len(socket_filter) // 8, ctypes.addressof(code))
    made.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)
    made.setsockopt(socket.SOL_SOCKET, _SO_LOCK_FILTER, 1)


def _can_attach(socket_filter: bytes) -> bool:
    """Some machines let everybody attach filters, some only to sockets for datagrams, some only root."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as tried:
            try:
                _attach(tried, socket_filter)
            except OSError:
                return False
    return True


Instruction = tuple[int, int, int, int]  # code, instructions to skip when true, when false, value

_LOAD, _LOAD_HALF, _LOAD_BYTE = 0x20, 0x28, 0x30  # BPF_LD | BPF_W, BPF_H, BPF_B | BPF_ABS
_AND, _SHIFT_RIGHT = 0x54, 0x74  # BPF_ALU | BPF_K
_EQUAL, _SKIP, _RETURN = 0x15, 0x05, 0x06  # BPF_JMP | BPF_JEQ, BPF_JA; BPF_RET


def _socket_filter(networks: Sequence[Network], resolvers: Sequence[bytes]) -> bytes:
    """Drops what comes from `networks`, unless it is from port 53 of one of `resolvers`."""
    parts: dict[int, list[Instruction]] = {}
    for size in (4, 16):
        parts[size] = []
        for network in networks:
            if len(network.address) == size:
                exceptions: list[Instruction] = []
                for resolver in resolvers:
                    if resolver in network:
                        from_dns = [*_words(resolver, 8 * size), (_LOAD_HALF, 0, 0xFFFF, DNS_PORT)]
                        exceptions += _when(from_dns, [(_RETURN, 0, 0, _ACCEPT)])
                drop: list[Instruction] = [*exceptions, (_RETURN, 0, 0, _DROP)]
                parts[size] += _when(_words(network.address, network.bits), drop)
        parts[size].append((_RETURN, 0, 0, _ACCEPT))
    code: list[Instruction] = [
        (_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
        (_SHIFT_RIGHT, 0, 0, 4),
        (_EQUAL, 1, 0, 4),
        (_SKIP, 0, 0, len(parts[4])),
        *parts[4],
        *parts[16],
    ]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _words(address: bytes, bits: int) -> list[tuple[int, int, int, int]]:
    """How to compare a packet's source with the first `bits` of `address`: load, offset, mask, value."""
    start = _NETWORK_HEADER + (_IPV4_SOURCE if len(address) == 4 else _IPV6_SOURCE)
    found = []
    for offset in range(0, len(address), 4):
        mask = (0xFFFFFFFF << max(0, 32 - max(0, bits - 8 * offset))) & 0xFFFFFFFF
        if mask:
            found.append(
                (_LOAD, start + offset, mask, int.from_bytes(address[offset : offset + 4], "big") & mask)
            )
    return found


def _when(comparisons: Sequence[tuple[int, int, int, int]], then: Sequence[Instruction]) -> list[Instruction]:
    """`then` when all `comparisons` hold, else what follows."""
    code: list[Instruction] = []
    for left, (load, offset, mask, value) in zip(
        range(len(comparisons) - 1, -1, -1), comparisons, strict=True
    ):
        otherwise = 3 * left + len(then)
        code += [(load, 0, 0, offset), (_AND, 0, 0, mask), (_EQUAL, 0, otherwise, value)]
    return [*code, *then]
