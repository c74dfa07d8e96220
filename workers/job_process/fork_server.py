"""The fork server: a small, warm, single-threaded process that makes sandboxes and forgets them when they end.

It is started with an empty environment and reads its configuration, one value of kind "C", from the control socket
that it inherits. Then it answers (JSON values over the same socket):

    in   {"op": "spawn", "id": n}    make sandbox n; with "share": name, one that shares the folder of this name, which
                                     is made with its first sandbox; with "writable": [names], one that may write
                                     those folders below the folder for that; with "network": false, one without;
                                     with "tmp_bytes": size, one with another /tmp. Descriptors that come along: of its
                                     control group, as in sandboxed.Own, the last is for its events
    in   {"op": "drop", "share": name}   let go of that folder
    out  {"op": "ready", "id": n, "uid": u}   the user of its job, + three descriptors: log (pipe, to read), job and
                                     guard (sockets)
    in   {"op": "kill", "id": n}     end it with all its processes
    out  {"op": "gone", "id": n}     no process of sandbox n is left
    out  {"op": "failed", "id": n, "message": "..."}
    out  {"op": "hello", "pid": ...} once at start, or {"op": "refused", "message": "..."} and exit

End of file on the control socket ends the server, and with it everything it started: it is process 1 of a pid
namespace of its own wherever that is possible.

With an "environment" in its configuration it imports packages of strangers, once, for all its jobs. It gives up its
rights before: see environment_server.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import json
import os
import random
import secrets
import select
import shutil
import signal
import socket
import sys
import traceback
from typing import Any, NamedTuple, NoReturn

from . import confinement, environment_server, linux, packets, processes, root_view, sandboxed

NAMESPACES = "namespaces"
USER_NAMESPACES = "user-namespaces"
NONE = "none"

# Worth having warm: what most scripts import, about 60 ms of imports. Each megabyte it takes makes every fork
# and exit some 0.1 ms slower, so urllib.request, ssl and asyncio (3 MB) are left to the jobs that want them.
_PRELOADED = [
    "base64",
    "bisect",
    "calendar",
    "collections.abc",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "functools",
    "hashlib",
    "hmac",
    "inspect",
    "io",
    "itertools",
    "json",
    "linecache",
    "logging",
    "math",
    "operator",
    "os.path",
    "pathlib",
    "queue",
    "random",
    "re",
    "secrets",
    "select",
    "shlex",
    "shutil",
    "signal",
    "socket",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "traceback",
    "typing",
    "urllib.parse",
    "uuid",
    "warnings",
    "weakref",
    "zlib",
]


Refused = environment_server.Refused


def main(control_fd: int) -> NoReturn:
    """Read the configuration and serve until the control socket closes. Never returns."""
    control = socket.socket(fileno=control_fd)
    received = packets.receive(control)
    if received is None:
        os._exit(0)
    configuration: dict[str, Any] = json.loads(received[1])
    os.umask(0o022)  # what we make for jobs to see they must be able to see
    linux.leave_session_keyring()
    try:
        server_pid = _enter_namespaces(configuration["isolation"])
    except Exception as error:
        _say(control, {"op": "refused", "message": str(error)})
        os._exit(1)
    if server_pid:
        # This first process only waits, so that whoever started it sees the server's end.
        if configuration["environment"] is not None:
            environment_server.watch(server_pid, control)
        control.close()
        os.waitpid(server_pid, 0)
        os._exit(0)
    try:
        server = ForkServer(control, configuration)
    except Exception as error:
        _say(control, {"op": "refused", "message": str(error)})
        os._exit(1)
    try:
        server.serve()
    except BaseException:
        traceback.print_exc()  # to the worker's standard error
    finally:
        server.end()


def _enter_namespaces(isolation: str) -> int:
    """Move into the namespaces for `isolation`; returns 0 in the process that is to serve, its pid in the parent."""
    uid, gid = os.geteuid(), os.getegid()
    shared = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    if isolation == NAMESPACES:
        if uid != 0:
            raise Refused("only root can make namespaces without a user namespace")
        linux.unshare(shared)
    elif isolation == USER_NAMESPACES:
        if uid == 0:
            # Root inside would still own root's files outside; an ordinary user owns nothing.
            uid = gid = 65534
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            linux.prctl(linux.PR_SET_DUMPABLE, 1)  # or the kernel gives our own /proc/self/uid_map to root
        linux.unshare(linux.CLONE_NEWUSER | shared)
        linux.map_to_itself(uid, gid)
    pid = os.fork()
    if pid == 0:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
    return pid


class _Share(NamedTuple):
    """A folder that jobs share."""

    number: str  # what it is called here
    uid: int  # of its jobs; -1: who we are


class ForkServer:
    """Makes sandboxes one at a time; keeps only which process belongs to which of them."""

    def __init__(self, control: socket.socket, configuration: dict[str, Any]) -> None:
        self._control = control
        self._isolation: str = configuration["isolation"]
        self._base_dir: str = configuration["base_dir"]
        self._pids: dict[int, int] = {}  # sandbox id by the pid of its guard
        self._uids: dict[int, int] = {}  # uid by sandbox id
        self._free_uids: list[int] = []
        self._shares: dict[str, _Share] = {}  # folders that jobs share, by the name that the worker gave them
        self._last_share = 0
        self._own_pid_namespace = -1
        self._view: root_view.RootView | None = None
        self._report: str | None = None

        environment: dict[str, Any] | None = configuration["environment"]

        _warm_up(configuration["preload"])
        uid = os.geteuid()
        if environment is None:
            self._find_uids()
        elif uid == 0:
            uid = environment_server.free_uid()
        if self._isolation == NONE:
            linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
            self._check_unprivileged_python()
            self._remove_stale_folders()
        else:
            self._view = root_view.build(
                read_only=configuration["read_only"],
                hidden=configuration["hidden"],
                writable_at=configuration["writable_at"],
                tmp_bytes=configuration["tmp_bytes"],
                extra_users=[(one, one) for one in (self._free_uids if environment is None else [uid])],
            )
        job_uid = self._free_uids[0] if self._free_uids else uid
        confined = confinement.Confinement(configuration["blocked_networks"], job_uid)
        if self._view is not None:
            if environment is not None:
                environment_server.descend(uid, control)
                self._view.add_proc_and_tmp()
            if environment is not None or self._isolation == USER_NAMESPACES:
                # Jobs need no user namespaces of their own, and the kernel is safer without.
                with contextlib.suppress(OSError), open("/proc/sys/user/max_user_namespaces", "w") as limit:
                    limit.write("0")
            self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        linux.drop_capability_bounds()
        confined.close()
        self._supervisor_pid = confined.supervisor_pid
        if environment is not None:
            linux.keep_only_system_administration()
            environment_server.import_packages(environment)
        self._gives_uids = bool(self._free_uids)
        # A core dump or ptrace of this process would show nothing secret, but nobody needs one either.
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        self._try_one()
        gc.collect()
        gc.freeze()  # children then do not copy pages only because the collector marked objects
        gc.disable()
        if environment is not None:
            linux.gather_memory()  # forking 50 MB of packages page by page, and their end, took 3 ms more
        cuts_network = self._view is not None and environment is None and _can_cut_network()
        hello = {"op": "hello", "pid": os.getpid(), "note": self._report, "cuts_network": cuts_network}
        hello |= {
            "calls_note": confined.calls_note,
            "addresses": confined.addresses,
            "addresses_note": confined.addresses_note,
            "keeps_sockets": linux.can_keep_to_own_sockets(),
        }
        _say(control, hello)

    def _find_uids(self) -> None:
        if os.geteuid() != 0 or self._isolation == USER_NAMESPACES:
            return
        with open("/proc/self/uid_map", encoding="ascii") as table:
            mapped = sum(int(line.split()[2]) for line in table)
        # Ranges that the Linux distributions leave unused; the small one is for containers with 65,536 ids. A block
        # of its own for each server: a user id must mean one job, also when several workers share a machine.
        if mapped > 2_000_000_000:
            first = 1_879_100_000 + 500 * secrets.randbelow(500_000)
            self._free_uids = list(range(first, first + 470))
        else:
            self._free_uids = list(range(60_706, 60_706 + 470))
            random.shuffle(self._free_uids)

    def _check_unprivileged_python(self) -> None:
        if not self._free_uids:
            return
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setresgid(*[self._free_uids[0]] * 3)
            os.setresuid(*[self._free_uids[0]] * 3)
            os._exit(0 if os.access(os.__file__, os.R_OK) and os.access(self._base_dir, os.X_OK) else 1)
        if os.waitpid(pid, 0)[1] != 0:
            self._free_uids = []
            self._report = (
                f"jobs run as root, because other users cannot read {os.path.dirname(os.__file__)} or "
                f"enter {self._base_dir}"
            )

    def _remove_stale_folders(self) -> None:
        """Take away what a fork server that was killed left of its jobs."""
        for name in os.listdir(self._base_dir):
            pid, dash, number = name.partition("-")
            is_ours = number.isdigit() or number.startswith("shared-")
            if dash and pid.isdigit() and is_ours and not os.path.exists(f"/proc/{pid}/stat"):
                _remove(f"{self._base_dir}/{name}")

    def _try_one(self) -> None:
        """Make one sandbox and end it, so that what the kernel refuses is known before the first job."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = self._fork(
            0,
            sandboxed.Channels(log=os.open("/dev/null", os.O_WRONLY), job=theirs, guard=theirs),
            sandboxed.Own(),
        )
        theirs.close()
        ours.shutdown(socket.SHUT_WR)
        answer = packets.receive(ours)
        ours.close()
        os.waitpid(pid, 0)
        self._release(0)
        if answer is not None:
            raise Refused(answer[1].decode())

    def serve(self) -> None:
        """Answer requests and bury the dead until the control socket closes."""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wake_read, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == wake_read:
                    os.read(wake_read, 4096)
                    self._bury()
                    continue
                fds: list[int] = []
                received = packets.receive(self._control, fds)
                if received is None:
                    return
                request = json.loads(received[1])
                if request["op"] == "spawn":
                    own = sandboxed.Own(
                        share=request.get("share"),
                        writable=request.get("writable", ()),
                        network=request.get("network", True),
                        tmp_bytes=request.get("tmp_bytes"),
                        join_fds=fds[:-1],
                        events_fd=fds[-1] if fds else -1,
                    )
                    self._spawn(request["id"], own)
                    for group_fd in fds:
                        os.close(group_fd)
                elif request["op"] == "drop":
                    self._drop_share(request["share"])
                else:
                    self._kill(request["id"])

    def _spawn(self, number: int, own: sandboxed.Own) -> None:
        try:
            if own.share is not None and own.share not in self._shares:
                self._make_share(own.share)
            log_read, log_write = os.pipe2(os.O_CLOEXEC)
            # A job may open /dev/stderr, which asks for rights on the pipe itself.
            os.fchmod(log_write, 0o666)
            job, job_theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            guard, guard_theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            channels = sandboxed.Channels(log=log_write, job=job_theirs, guard=guard_theirs)
            self._pids[self._fork(number, channels, own)] = number
        except OSError as error:
            _say(self._control, {"op": "failed", "id": number, "message": str(error)})
            return
        job_theirs.close()
        guard_theirs.close()
        uid = self._uids.get(number, os.geteuid())
        _say(
            self._control, {"op": "ready", "id": number, "uid": uid}, [log_read, job.fileno(), guard.fileno()]
        )
        job.close()
        guard.close()
        os.close(log_read)

    def _fork(self, number: int, channels: sandboxed.Channels, own: sandboxed.Own) -> int:
        """Fork the guard of a sandbox, as process 1 of a new pid namespace; closes the log in this process."""
        # Jobs that share a folder run as the same user, so that each may change what another one left there.
        shared = None if own.share is None else self._shares[own.share]
        uid = gid = self._take_uid() if shared is None else shared.uid
        if uid != -1:
            self._uids[number] = uid
        folder = None
        if self._view is None:
            folder = self._make_folder(number, uid, gid)
            if shared is not None:
                os.symlink(self._share_folder(shared.number), f"{folder}/job/shared")
        else:
            linux.unshare(linux.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            sandboxed.run(
                channels,
                view=self._view,
                folder=folder,
                uid=uid,
                gid=gid,
                own=dataclasses.replace(own, share=None if shared is None else shared.number),
            )
        if self._view is not None:
            # The next unshare is refused unless our children would be born into our own namespace again.
            linux.setns(self._own_pid_namespace, linux.CLONE_NEWPID)
        os.close(channels.log)
        return pid

    def _take_uid(self) -> int:
        """A user id that nobody uses; -1: jobs stay who we are, an ordinary user. Raises OSError when none is left."""
        if not self._gives_uids:
            return -1
        if not self._free_uids:
            raise OSError("more sandboxes than user ids for them")
        return self._free_uids.pop(0)

    def _make_share(self, name: str) -> None:
        """Make the folder `name` and give it a user. Raises OSError."""
        uid = self._take_uid()
        self._last_share += 1
        number = str(self._last_share)
        try:
            if self._view is not None:
                self._view.add_share(number, uid, uid)
            else:
                os.mkdir(self._share_folder(number), 0o700)
                os.chown(self._share_folder(number), uid, uid)
        except OSError:
            self._give_back(uid)
            raise
        self._shares[name] = _Share(number, uid)

    def _drop_share(self, name: str) -> None:
        share = self._shares.pop(name, None)
        if share is None:
            return
        if self._view is None:
            _remove(self._share_folder(share.number))
        else:
            with contextlib.suppress(OSError):  # its memory is lost until this server ends; nothing else is
                self._view.remove_share(share.number)
        self._give_back(share.uid)

    def _give_back(self, uid: int) -> None:
        is_shared = any(share.uid == uid for share in self._shares.values())
        if uid != -1 and uid not in self._uids.values() and not is_shared:
            self._free_uids.append(uid)

    def _share_folder(self, number: str) -> str:
        """Where a shared folder lies when there are no namespaces."""
        return f"{self._base_dir}/{os.getpid()}-shared-{number}"

    def _make_folder(self, number: int, uid: int, gid: int) -> str:
        folder = self._folder(number)
        os.mkdir(folder, 0o700)
        for name in ("job", "home", "tmp"):
            os.mkdir(f"{folder}/{name}", 0o700)
            os.chown(f"{folder}/{name}", uid, gid)
        os.chown(folder, uid, gid)
        return folder

    def _folder(self, number: int) -> str:
        return f"{self._base_dir}/{os.getpid()}-{number}"

    def _kill(self, number: int) -> None:
        for pid, sandbox in self._pids.items():
            if sandbox == number:
                if self._view is None:
                    processes.kill_tree(pid)
                else:
                    os.kill(pid, signal.SIGKILL)  # the kernel ends the whole namespace with its first process
                return

    def _bury(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._supervisor_pid:
                raise RuntimeError("the supervisor of addresses ended, so no job can reach the network")
            number = self._pids.pop(pid, None)
            if number is None:
                continue
            if self._view is None:
                processes.kill_strays(guards=self._children(), uid=self._own_uid(number))
                _remove(self._folder(number))
            self._release(number)
            _say(self._control, {"op": "gone", "id": number})

    def _children(self) -> set[int]:
        """The processes that we started and that have not ended."""
        return {*self._pids, self._supervisor_pid}

    def _own_uid(self, number: int) -> int | None:
        """The user id of a sandbox when no other one has it."""
        uid = self._uids.get(number)
        is_shared = uid is not None and list(self._uids.values()).count(uid) > 1
        return None if is_shared else uid

    def _release(self, number: int) -> None:
        uid = self._uids.pop(number, None)
        if uid is not None:
            self._give_back(uid)
        if number == 0 and self._view is None:
            _remove(self._folder(number))

    def end(self) -> NoReturn:
        """End this process and every job with it."""
        if self._view is None:
            for pid in list(self._pids):
                processes.kill_tree(pid)
            while self._pids:
                pid, _ = os.wait()
                if pid in self._pids:
                    number = self._pids.pop(pid)
                    processes.kill_strays(guards=self._children(), uid=self._uids.get(number))
                    _remove(self._folder(number))
            for name in list(self._shares):
                self._drop_share(name)
        os._exit(0)


def _can_cut_network() -> bool:
    """Whether the kernel gives us network namespaces."""
    pid = os.fork()
    if pid == 0:
        try:
            linux.unshare(linux.CLONE_NEWNET)
            linux.raise_loopback()
        except OSError:
            os._exit(1)
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _remove(folder: str) -> None:
    """Delete a job's folder, also what the job made unreadable for its own user (us, where we are not root)."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        for place, folders, _ in os.walk(folder):
            for name in folders:
                if not os.path.islink(f"{place}/{name}"):
                    with contextlib.suppress(OSError):
                        os.chmod(f"{place}/{name}", 0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _warm_up(modules: list[str]) -> None:
    for name in (*_PRELOADED, *modules):
        # A missing one (ssl in a small build) is the concern of the job that imports it.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # `python -S` leaves these out, and scripts call exit().
    site: Any = importlib.import_module("site")
    site.setquit()
    site.setcopyright()
    site.sethelper()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _say(control: socket.socket, message: dict[str, Any], fds: list[int] | None = None) -> None:
    packet = b"M" + json.dumps(message).encode()
    try:
        if fds:
            socket.send_fds(control, [packet], fds)
        else:
            control.send(packet)
    except OSError:
        pass  # whoever asked is gone; the end of file that follows ends this server
