"""The superadmin's windows on jobs: they open, and their actions do what they say."""

import pytest
from django.test import Client

from jobs import queue
from jobs.models import CompletedJob, Flow, FlowStatus, FlowVersion, QueuedJob, ResumeEvent, new_job_id
from tests.tenancy import make_account, make_workspace, token_for
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

    for model in (
        "script",
        "flow",
        "flowversion",
        "flowstatus",
        "resumeevent",
        "queuedjob",
        "completedjob",
        "workerping",
    ):
        assert root.get(f"/admin/jobs/{model}/").status_code == 200
    assert b"No live worker listens to tag gpu" in root.get("/admin/jobs/queuedjob/").content
    assert root.get(f"/admin/jobs/queuedjob/{waiting}/change/").status_code == 200
    one = root.get(f"/admin/jobs/completedjob/{claim.id}/change/").content
    assert b"10002 characters" in one and len(one) < 60_000


def test_flows_their_versions_states_and_approvals_are_looked_at_and_never_changed(root):
    workspace = make_workspace("acme", admin="root@example.com")
    version = FlowVersion.objects.create(
        workspace=workspace,
        path="f/x/flow",
        value={"modules": []},
        created_by="ada",
        lock_error_logs="no such package",
    )
    flow = Flow.objects.create(workspace=workspace, path="f/x/flow", version_id=version.pk, edited_by="ada")
    job_id = new_job_id()
    status = FlowStatus.objects.create(id=job_id, workspace_id="acme", state={"step": 0})
    event = ResumeEvent.objects.create(
        id=new_job_id(), workspace_id="acme", job_id=job_id, flow_id=job_id, resume_id=1, approver="bob"
    )

    for model, row in (
        ("flow", flow),
        ("flowversion", version),
        ("flowstatus", status),
        ("resumeevent", event),
    ):
        page = root.get(f"/admin/jobs/{model}/{row.pk}/change/")
        assert page.status_code == 200
        assert root.get(f"/admin/jobs/{model}/?q=acme").context["cl"].result_count == 1
        assert root.get(f"/admin/jobs/{model}/add/").status_code == 403
        assert root.post(f"/admin/jobs/{model}/{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert root.get("/admin/jobs/flowversion/?lock_error_logs__isempty=0").context["cl"].result_count == 1


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
