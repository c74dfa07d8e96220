"""The running site of the browser tests and the people on it; conftest.py has the fixtures."""

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from workspaces import access
from workspaces.access import Caller, Identity
from workspaces.models import Account, Workspace

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60
PASSWORD = "correct horse battery"


@dataclass
class Site:
    """The running site under test."""

    url: str
    environment: dict[str, str]
    folder: Path

    def start(self, name: str, *arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
        """Start a Python process of the project in this site's environment, keyword arguments added to it; its output
        goes to <folder>/<name>.log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env={**self.environment, **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        """The end of that output."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]


@dataclass
class Person:
    """Somebody with an account, in a workspace."""

    account: Account
    workspace: Workspace
    site: Site

    @property
    def identity(self) -> Identity:
        return Identity(email=self.account.email, super_admin=self.account.super_admin, account=self.account)

    @property
    def caller(self) -> Caller:
        return access.enter_workspace(self.identity, self.workspace.id)

    @property
    def username(self) -> str:
        return self.caller.username

    def url(self, path: str = "") -> str:
        """Address of a page of the workspace: ada.url("runs/")."""
        return f"{self.site.url}/w/{self.workspace.id}/{path}"


def make_account(name: str, **fields: Any) -> Account:
    """An account that no other test has, with PASSWORD."""
    account = Account(email=f"{name}-{uuid.uuid4().hex[:8]}@example.com", name=name.capitalize(), **fields)
    account.set_password(PASSWORD)
    account.save(force_insert=True)
    return account


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = START_TIMEOUT_S) -> Any:
    """Poll until `condition()` is true and return its value; fails the test, saying `what` was awaited."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s} s in vain for {what}")
        time.sleep(0.05)
    return value


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process that `Site.start` started, and what it started."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
