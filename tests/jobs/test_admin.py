"""The superadmin's windows on jobs: they open, and their actions do what they say."""

import pytest
from django.test import Client

from jobs import queue
from jobs.models import CompletedJob, QueuedJob
from tests.tenancy import make_account, token_for
from workspaces.models import AuditEntry


@pytest.fixture
def root(db):
    make_account("root@example.com", super_admin=True)
    client = Client()
    client.cookies["token"] = token_for("root@example.com")
    return client


def act(root, action, job_id):
    answer = root.post("/admin/jobs/queuedjob/", {"action": action, "_selected_action": [str(job_id)]})
    assert answer.status_code == 302, answer.content


def test_every_window_opens_and_says_why_a_job_waits(root, make_job):
    waiting = make_job(tag="gpu")
    make_job()
    (claim,) = queue.claim_jobs(worker="w", tags=["python3"])
    queue.complete_job((claim.id, claim.attempt), result="x" * 10_000)

    for model in ("script", "queuedjob", "completedjob", "workerping"):
        assert root.get(f"/admin/jobs/{model}/").status_code == 200
    assert b"No live worker listens to tag gpu" in root.get("/admin/jobs/queuedjob/").content
    assert root.get(f"/admin/jobs/queuedjob/{waiting}/change/").status_code == 200
    one = root.get(f"/admin/jobs/completedjob/{claim.id}/change/").content
    assert b"10002 characters" in one and len(one) < 60_000


def test_actions_cancel_requeue_and_hasten(root, make_job):
    waiting, later, running = make_job(tag="a"), make_job(tag="a", scheduled_in_s=3600), make_job(tag="b")
    queue.claim_jobs(worker="w", tags=["b"])

    act(root, "cancel", waiting)
    act(root, "run_now", later)
    act(root, "requeue", running)

    assert CompletedJob.objects.get(pk=waiting).status == "canceled"
    assert [claim.id for claim in queue.claim_jobs(worker="w2", tags=["a"])] == [later]
    assert QueuedJob.objects.get(pk=running).running is False
    assert set(
        AuditEntry.objects.filter(email="root@example.com", operation__startswith="jobs.").values_list(
            "operation", flat=True
        )
    ) == {
        "jobs.cancel",
        "jobs.run_now",
        "jobs.requeue",
    }
