"""A small world for the REST routes: two workspaces, people of every role, and a client that speaks for them."""

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from jobs.models import CompletedJob, Flow, FlowVersion, Job, LogChunk, QueuedJob, Script
from tests.tenancy import enter, fill, join, make_account, make_workspace, token_for
from workspaces import job_tokens
from workspaces.models import Workspace
from workspaces.resource_types import add_well_known_types

SECRET = "TOPSECRET-of-alice"


@dataclass
class World:
    """Workspace `acme`: admin alice, developer dave, operator oscar. Workspace `other`: admin olga, also alice."""

    tokens: dict[str, str] = field(default_factory=dict)
    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def call(self, who: str | None, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A request under /api by one of the people (None: signed out). A `body` of bytes is sent as it is."""
        if who is not None:
            headers["authorization"] = f"Bearer {self.tokens[who]}"
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.client.generic(
            method, f"/api/{path}", data, content_type="application/json", headers=headers
        )

    def get(self, who: str | None, path: str, **headers: str) -> Any:
        return self.call(who, "GET", path, **headers)

    def post(self, who: str | None, path: str, body: Any = None, **headers: str) -> Any:
        return self.call(who, "POST", path, body, **headers)

    def delete(self, who: str | None, path: str, **headers: str) -> Any:
        return self.call(who, "DELETE", path, **headers)


@pytest.fixture
def world(db: None) -> World:
    make_account("root@example.com", super_admin=True)
    add_well_known_types(Workspace.objects.create(pk="admins", name="Admins", owner="root@example.com"))
    acme = make_workspace("acme", admin="alice@example.com")
    other = make_workspace("other", admin="olga@example.com")
    alice = enter(acme, "alice@example.com")
    join(acme, "dave@example.com")
    join(acme, "oscar@example.com", operator=True)
    join(other, "alice@example.com")
    fill(alice, "private", secret=SECRET)
    make_run(secret=SECRET)
    make_flow(secret=SECRET)
    world = World()
    for name in ("root", "alice", "dave", "oscar", "olga"):
        world.tokens[name] = token_for(f"{name}@example.com")
    world.tokens["read-only alice"] = token_for("alice@example.com", read_only=True)
    world.tokens["scoped alice"] = token_for("alice@example.com", scopes=["nothing:read"])
    world.tokens["alice confined to other"] = token_for("alice@example.com", workspace_id="other")
    return world


JOB_ID = UUID("018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a10")


def make_run(*, secret: str) -> None:
    """A script of alice's and a run of it, with the secret in code, arguments, log and result."""
    script = Script.objects.create(
        hash=0xAA,
        workspace_id="acme",
        path="f/private/script",
        summary=secret,
        content=f"# {secret}",
        language="python3",
        created_by="alice",
        tag="python3",
    )
    Job.objects.create(
        id=JOB_ID,
        workspace_id="acme",
        kind="script",
        runnable_id=script.hash,
        runnable_path=script.path,
        script_lang="python3",
        args={"x": secret},
        tag="python3",
        created_by="alice",
        permissioned_as="u/alice",
        permissioned_as_email="alice@example.com",
    )
    now = timezone.now()
    CompletedJob.objects.create(
        id=JOB_ID, workspace_id="acme", status="success", started_at=now, duration_ms=1, result={"x": secret}
    )
    LogChunk.objects.create(job_id=JOB_ID, log_offset=0, workspace_id="acme", logs=secret)


def make_flow(*, secret: str) -> None:
    """A flow of alice's, with the secret in what it does."""
    module = {"id": "a", "value": {"type": "identity"}, "summary": secret}
    version = FlowVersion.objects.create(
        pk=7700, workspace_id="acme", path="f/private/flow", value={"modules": [module]}, created_by="alice"
    )
    Flow.objects.create(
        workspace_id="acme", path=version.path, version_id=version.pk, summary=secret, edited_by="alice"
    )


_IGNORED = ("django_migrations", "django_content_type", "auth_permission")


def fingerprint() -> dict[str, str]:
    """A hash of every table's rows, but for when tokens were last used and for failed sign-ins."""
    with connection.cursor() as cursor:
        names = [name for name in connection.introspection.table_names(cursor) if name not in _IGNORED]
        parts = []
        for name in names:
            row = "to_jsonb(t) - 'last_used_at'"
            parts.append(
                f"SELECT '{name}', coalesce(md5(string_agg(({row})::text, '|' ORDER BY ({row})::text)), '') "
                f'FROM "{name}" t' + (" WHERE operation <> 'users.login_failure'" if name == "audit" else "")
            )
        cursor.execute(" UNION ALL ".join(parts))
        return dict(cursor.fetchall())


@pytest.fixture
def unchanged() -> Any:
    """`unchanged()` at the start, then again: it fails when any row differs. `expected=True` starts anew."""
    before: dict[str, str] = {}

    def check(doing: str = "", *, expected: bool = False) -> None:
        now = fingerprint()
        if before and not expected:
            changed = [name for name in now if now[name] != before.get(name)]
            assert not changed, f"{doing} changed {', '.join(changed)}"
        before.update(now)

    return check


class RunningJob:
    """`running_job("alice")` starts a job of a member of acme and answers its token; `.end()` ends it."""

    def __init__(self) -> None:
        self.id = UUID(int=7)

    def __call__(self, username: str) -> str:
        QueuedJob.objects.create(
            id=self.id,
            workspace_id="acme",
            tag="python3",
            running=True,
            attempt=1,
            worker="w",
            started_at=timezone.now(),
        )
        return job_tokens.issue(
            workspace_id="acme",
            email=f"{username}@example.com",
            username=username,
            permissioned_as=f"u/{username}",
            job_id=self.id,
            attempt=1,
            expires_in_s=60,
        )

    def end(self) -> None:
        QueuedJob.objects.filter(pk=self.id).delete()


@pytest.fixture
def running_job() -> RunningJob:
    return RunningJob()
