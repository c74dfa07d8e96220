"""Two real servers on one database, and a real worker: for what only processes show (waiting, websockets, clients)."""

import os
import socket
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.db import connection

from jobs import queue, scripts
from jobs.models import WorkerPing
from tests import databases
from tests.browser.site import Site, free_port, stop, wait_until
from tests.tenancy import enter, make_account, make_workspace, token_for
from workspaces.access import Caller

ECHO = "echo"  # the tag of jobs that the worker inside the tests takes; the real one takes the default tags


@dataclass
class Served:
    """Two servers, `urls[0]` and `urls[1]`."""

    name: str  # of the database
    urls: tuple[str, str]
    sites: tuple[Site, Site]
    folder: Any


@pytest.fixture(scope="session")
def _served(django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    name = f"served_{uuid.uuid4().hex[:12]}"
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    folder = tmp_path_factory.mktemp("served")
    ports = (free_port(), free_port())
    sites = tuple(_site(name, port, folder) for port in ports)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for step in ("migrate", "bootstrap"):
            if sites[0].start(step, "manage.py", step).wait():
                pytest.fail(f"manage.py {step} failed:\n{sites[0].log(step)}")
        for site, port in zip(sites, ports, strict=True):
            arguments = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "windmill_site.asgi:application")
            processes.append(site.start(f"server-{port}", *arguments))
        processes.append(sites[0].start("worker", "manage.py", "runworker"))
        for port in ports:
            wait_until(lambda port=port: _listens(port), f"the server on port {port}")
        yield Served(name, (sites[0].url, sites[1].url), (sites[0], sites[1]), folder)
    finally:
        for process in processes:
            stop(process)
        with django_db_blocker.unblock():
            connection.close()
            with connection._nodb_cursor() as cursor:
                cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _site(name: str, port: int, folder: Any) -> Site:
    url = f"http://127.0.0.1:{port}"
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "DJANGO_"))}
    for key in ("DATABASE_DIRECT_URL", "DATABASE_URL_FILE"):
        inherited.pop(key, None)
    return Site(
        url=url,
        folder=folder,
        environment={
            **inherited,
            "DATABASE_URL": databases.address(name),
            "SECRET_KEY": settings.SECRET_KEY,
            "ENCRYPTION_KEY": settings.ENCRYPTION_KEY,
            "DATA_DIR": str(folder / "data"),
            "STATIC_ROOT": str(folder / "static"),
            "WORKER_DIR": str(folder / "jobs"),
            "PORT": str(port),
            "BASE_URL": url,
            "BASE_INTERNAL_URL": url,
            "DATABASE_CONNECTIONS": "10",
            "TIMEOUT_WAIT_RESULT": "5",
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "windmill_site.settings",
        },
    )


@pytest.fixture
def served(_served: Served, django_db_blocker: Any) -> Iterator[Served]:
    """The running servers; during the test, the ORM in this process speaks to their database."""
    usual = connection.settings_dict["NAME"]
    with django_db_blocker.unblock():
        connection.close()
        connection.settings_dict["NAME"] = _served.name
        try:
            yield _served
        finally:
            connection.close()
            connection.settings_dict["NAME"] = usual


@dataclass
class Acme:
    """A fresh workspace with admin alice, and her client for the first server."""

    served: Served
    workspace_id: str
    token: str
    caller: Caller
    http: httpx.Client = field(repr=False)

    def api(self, path: str, *, server: int = 0) -> str:
        return f"{self.served.urls[server]}/api/w/{self.workspace_id}/{path}"

    def deploy(self, path: str, content: str = "", language: str = "python3", tag: str | None = ECHO) -> str:
        draft = scripts.ScriptDraft(path=path, content=content, language=language, tag=tag)
        return scripts.deploy_script(self.caller, draft).hash_hex


@pytest.fixture
def acme(served: Served) -> Iterator[Acme]:
    id = f"acme-{uuid.uuid4().hex[:8]}"
    make_account("alice@example.com")
    caller = enter(make_workspace(id, admin="alice@example.com"), "alice@example.com")
    token = token_for("alice@example.com")
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=20) as http:
        yield Acme(served=served, workspace_id=id, token=token, caller=caller, http=http)


@pytest.fixture
def real_worker(served: Served) -> str:
    """Name of the running worker."""

    def ready() -> str | None:
        return WorkerPing.objects.filter(state="running").values_list("worker", flat=True).first()

    return str(wait_until(ready, "a running worker"))


@pytest.fixture
def echo_worker(served: Served) -> Iterator[Callable[[Callable[[queue.Claim], Any]], None]]:
    """Be the worker for jobs of tag `echo` on a thread: `echo_worker(answer)` completes each with `answer(claim)`."""
    stopped = threading.Event()
    threads: list[threading.Thread] = []

    def work(answer: Callable[[queue.Claim], Any]) -> None:
        try:
            while not stopped.wait(0.001):
                for claim in queue.claim_jobs(worker="echo", tags=[ECHO], limit=50):
                    result = answer(claim)
                    status = "failure" if isinstance(result, dict) and "error" in result else "success"
                    queue.complete_job((claim.id, claim.attempt), result=result, status=status)
        finally:
            connection.close()

    def start(answer: Callable[[queue.Claim], Any]) -> None:
        threads.append(threading.Thread(target=work, args=(answer,)))
        threads[-1].start()

    yield start
    stopped.set()
    for thread in threads:
        thread.join()
