"""What a fork server takes from itself, before the first job, so that no job has it: system calls and addresses."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from . import address_guard, seccomp

KEPT = "kept"  # no job gets an answer from there, whatever it does
REFUSED = "refused"  # system calls that name such an address fail; a job may change it while it is looked at
OPEN = "open"


class Confinement:
    """Begun by a process with the rights to look after jobs; `close` is for the one that jobs are forked from.

    `networks` must not be reached from jobs, which run as user `uid`. `calls_note` and `addresses_note`
    say what is not in force here, and why; empty when it is. `addresses` is one of KEPT, REFUSED and OPEN.
    """

    def __init__(self, networks: Sequence[str], uid: int) -> None:
        self.calls_note = ""
        self.addresses_note = ""
        self.addresses = OPEN
        self.supervisor_pid = 0  # of a child process; 0: there is none
        self._program = b""
        self._to_supervisor: socket.socket | None = None
        try:
            self._program = seccomp.program(supervised=False)
            if not networks:
                return
            rules = address_guard.Rules(networks, address_guard.resolvers_of_this_machine())
            # Where sockets are filtered, looking at addresses is for people's sake alone.
            supervised = seccomp.program(supervised=True, every_connect=not rules.filters_sockets)
            is_told = address_guard.find_out(supervised, rules, uid)
            self.supervisor_pid, self._to_supervisor = address_guard.start_supervisor(rules)
            self._program = supervised
            if rules.filters_sockets:
                self.addresses = KEPT
                if not is_told:
                    self.addresses_note = (
                        "a job that tries is not told why it waits: the worker may not look at its jobs' memory, "
                        "which takes the capability SYS_PTRACE"
                    )
            else:
                self.addresses = REFUSED
                self.addresses_note = "this machine lets only root attach filters to sockets"
        except (OSError, address_guard.AddressesOpen) as error:
            if networks:
                self.addresses_note = str(error)

    def close(self) -> None:
        """Hold this process and all that it forks to what was begun."""
        try:
            if self._to_supervisor is not None:
                with self._to_supervisor:
                    address_guard.install(self._to_supervisor, self._program)
            elif self._program:
                seccomp.install(self._program)
            else:
                self.calls_note = "the processor is not known"
        except OSError as error:
            if self._to_supervisor is not None:
                raise  # it worked a moment ago
            self.calls_note = str(error)
