"""Jobs over REST: running, following, listing, canceling; who sees what."""

import base64
import json
import uuid
from urllib.parse import quote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import queue
from jobs.models import Job, QueuedJob
from tests.tenancy import token_for
from workspaces.models import AuditEntry, InstanceSetting

CODE = "def main(x: int = 0):\n    return x\n"


@pytest.fixture
def hello(world):
    world.post(
        "alice", "w/acme/scripts/create", {"path": "u/alice/hello", "content": CODE, "language": "python3"}
    )
    return "u/alice/hello"


def run(world, path, args=None, who="alice", query=""):
    answer = world.post(who, f"w/acme/jobs/run/p/{path}{query}", {} if args is None else args)
    assert answer.status_code == 201, answer.content
    return answer.content.decode()


def work(*, result=None, status="success", log="", tag="python3"):
    """Be a worker for one job."""
    (claim,) = queue.claim_jobs(worker="w1", tags=[tag])
    queue.append_log((claim.id, claim.attempt), log)
    queue.complete_job((claim.id, claim.attempt), result=result, status=status)
    return claim


def test_a_run_is_followed_from_queue_to_result(world, hello):
    job_id = run(world, hello, {"x": 1})
    maybe = f"w/acme/jobs_u/completed/get_result_maybe/{job_id}"

    assert str(uuid.UUID(job_id)) == job_id
    queued = world.get("alice", f"w/acme/jobs_u/get/{job_id}").json()
    assert (queued["type"], queued["running"], queued["args"]) == ("QueuedJob", False, {"x": 1})
    assert world.get("alice", maybe).json() == {
        "started": False,
        "completed": False,
        "success": None,
        "result": None,
    }
    for address in ("get", "get_result"):
        assert world.get("alice", f"w/acme/jobs_u/completed/{address}/{job_id}").status_code == 404

    work(result={"b": 1, "a": [2]}, log="hi\n")

    done = world.get("alice", f"w/acme/jobs_u/completed/get/{job_id}").json()
    assert (done["type"], done["success"], done["logs"], done["script_path"]) == (
        "CompletedJob",
        True,
        "hi\n",
        hello,
    )
    assert done["worker"] == "w1" and done["canceled"] is False and done["duration_ms"] >= 0
    assert world.get("alice", f"w/acme/jobs_u/completed/get_result/{job_id}").content == b'{"b": 1, "a": [2]}'
    assert world.get("alice", maybe).json() == {
        "started": True,
        "completed": True,
        "success": True,
        "result": {"b": 1, "a": [2]},
    }
    logs = world.get("alice", f"w/acme/jobs_u/get_logs/{job_id}")
    assert logs.content == b"hi\n" and logs["Content-Type"].startswith("text/plain")
    assert AuditEntry.objects.filter(operation="jobs.run.script", resource=hello, username="alice").exists()


@pytest.mark.parametrize(
    ("content_type", "body", "query", "args"),
    [
        ("application/json", b'{"x": 1}', "", {"x": 1}),
        ("application/json", b"[1, 2]", "", {"body": [1, 2]}),
        ("application/json", b"null", "", {}),
        ("", b"", "", {}),
        ("application/x-www-form-urlencoded", b"x=1&y=a%20b", "", {"x": "1", "y": "a b"}),
        ("application/json", b'{"x": 1}', "?wrap_body=true", {"body": {"x": 1}}),
        ("application/json", b'{"x": 1}', "?raw=true", {"x": 1, "raw_string": '{"x": 1}'}),
        ("text/plain", b"hi", "?raw=true", {"raw_string": "hi"}),
        ("application/json", b"{}", "?include_header=X-Who&include_query=q&q=7", {"x_who": "me", "q": "7"}),
        (
            "application/cloudevents+json",
            b'{"id": "1", "data": {"x": 2}}',
            "",
            {"x": 2, "WEBHOOK__METADATA__": {"id": "1"}},
        ),
    ],
)
def test_bodies_become_arguments(world, hello, content_type, body, query, args):
    answer = world.client.generic(
        "POST",
        f"/api/w/acme/jobs/run/p/{hello}{query}",
        body,
        content_type=content_type,
        headers={"Authorization": f"Bearer {world.tokens['alice']}", "X-Who": "me"},
    )

    assert answer.status_code == 201, answer.content
    assert Job.objects.get(pk=answer.content.decode()).args == args


@pytest.mark.parametrize(
    ("content_type", "body", "query", "status"),
    [
        ("text/plain", b"hi", "", 415),
        ("application/cloudevents-batch+json", b"[]", "", 415),
        ("application/json", b"{", "", 400),
        ("application/json", b'{"x": "\\u0000"}', "", 400),
        ("application/json", b"[" * 100_000, "", 400),
        ("application/json", b"{}", "?scheduled_for=soon", 400),
        ("application/json", b"{}", "?scheduled_in_secs=-5", 400),
        ("application/json", b"{}", "?job_id=7", 400),
        ("application/json", b"{}", "?timeout=0", 400),
        ("application/json", b"{}", "?parent_job=13e38686-660d-41f8-a588-802242ec36f5", 400),
        ("application/json", b"{}", "?include_header=Authorization", 400),
        ("application/json", b"{}", "?tag=" + "x" * 300, 400),
        ("application/x-www-form-urlencoded", b"x=%ff", "", 400),
    ],
)
def test_bad_calls_are_refused_and_queue_nothing(world, hello, unchanged, content_type, body, query, status):
    unchanged()

    answer = world.client.generic(
        "POST",
        f"/api/w/acme/jobs/run/p/{hello}{query}",
        body,
        content_type=content_type,
        headers={"Authorization": f"Bearer {world.tokens['alice']}"},
    )

    assert answer.status_code == status, answer.content
    unchanged(query)


def test_run_options_reach_the_queue(world, hello):
    parent = run(world, hello)
    wanted = str(uuid.uuid4())

    child = run(
        world, hello, query=f"?job_id={wanted}&parent_job={parent}&scheduled_in_secs=60&tag=$workspace-gpu"
    )

    assert child == wanted
    job, waiting = Job.objects.get(pk=child), QueuedJob.objects.get(pk=child)
    assert (str(job.parent_job), str(job.root_job), job.tag) == (parent, parent, "acme-gpu")
    assert 59 <= (waiting.scheduled_for - waiting.created_at).total_seconds() <= 61
    assert world.get("alice", f"w/acme/jobs_u/get_root_job_id/{child}").json() == parent
    assert world.get("alice", f"w/acme/jobs/queue/explain/{child}").json()["reason"] == "scheduled"
    again = world.post("alice", f"w/acme/jobs/run/p/{hello}?job_id={wanted}", {})
    assert again.status_code == 400 and b"taken" in again.content
    assert world.post("alice", f"w/acme/jobs/queue/run_now/{child}").status_code == 200
    assert world.get("alice", f"w/acme/jobs/queue/explain/{child}").json()["reason"] == "no_worker"


def test_the_priority_of_a_run_is_the_one_asked_for_or_else_the_scripts(world, hello):
    world.post(
        "alice",
        "w/acme/scripts/create",
        {"path": "u/alice/urgent", "content": CODE, "language": "python3", "priority": 20},
    )
    preview = {"content": CODE, "language": "python3", "args": {}}
    plain = run(world, hello)
    first = run(world, hello, query="?priority=100")
    urgent = run(world, "u/alice/urgent")
    lowered = run(world, "u/alice/urgent", query="?priority=0")
    tried = world.post("alice", "w/acme/jobs/run/preview?priority=30", preview).content.decode()

    claims = queue.claim_jobs(worker="w1", tags=["python3"], limit=10)

    assert [str(claim.id) for claim in claims] == [first, tried, urgent, plain, lowered]
    assert world.get("alice", f"w/acme/jobs_u/get/{first}").json()["priority"] == 100


def test_a_tag_reserved_for_other_workspaces_is_refused(world, hello):
    InstanceSetting.objects.create(name="custom_tags", value=["gpu(other)", "big(^other)"])

    assert world.post("alice", f"w/acme/jobs/run/p/{hello}?tag=gpu", {}).status_code == 400
    run(world, hello, query="?tag=big")


def test_the_preprocessor_gets_the_event_unless_skipped(world):
    code = "def preprocessor(event):\n    return {'x': 1}\n" + CODE
    world.post(
        "alice", "w/acme/scripts/create", {"path": "u/alice/pre", "content": code, "language": "python3"}
    )

    job = Job.objects.get(pk=run(world, "u/alice/pre", {"a": 1}, query="?q=1"))
    skipped = Job.objects.get(pk=run(world, "u/alice/pre", {"x": 1}, query="?skip_preprocessor=true"))

    event = job.args["event"]
    assert (event["kind"], event["body"], event["query"]) == ("webhook", {"a": 1}, {"q": "1"})
    assert "authorization" not in event["headers"] and job.preprocessed is False
    assert skipped.args == {"x": 1} and skipped.preprocessed is None


def test_previews_are_for_developers(world):
    body = {"content": "echo $1", "language": "bash", "args": {"a": 1}, "path": "u/dave/try"}

    assert world.post("oscar", "w/acme/jobs/run/preview", body).status_code == 403
    answer = world.post("dave", "w/acme/jobs/run/preview", body)
    assert answer.status_code == 201
    job = Job.objects.get(pk=answer.content.decode())
    assert (job.kind, job.raw_code, job.tag, job.args) == ("preview", "echo $1", "bash", {"a": 1})
    unknown = world.post("dave", "w/acme/jobs/run/preview", body | {"language": "cobol"})
    assert unknown.status_code == 400 and b"python3" in unknown.content


def test_who_sees_a_job(world, hello):
    job_id = run(world, hello)
    route = f"w/acme/jobs_u/get/{job_id}"

    statuses = {
        who: world.get(who, route).status_code for who in ("alice", "root", "dave", "oscar", "olga", None)
    }

    assert statuses == {"alice": 200, "root": 200, "dave": 404, "oscar": 404, "olga": 404, None: 401}
    assert world.get("dave", "w/acme/jobs/list").json() == []
    assert [job["id"] for job in world.get("alice", "w/acme/jobs/queue/list").json()] == [job_id]


def test_a_run_at_a_shared_path_is_seen_by_its_readers_unless_hidden(world):
    world.post("alice", "w/acme/folders/create", {"name": "team", "extra_perms": {"u/dave": False}})
    world.post("alice", "w/acme/scripts/create", {"path": "f/team/x", "content": CODE, "language": "python3"})
    shown, hidden = run(world, "f/team/x"), run(world, "f/team/x", query="?invisible_to_owner=true")

    assert [job["id"] for job in world.get("dave", "w/acme/jobs/list").json()] == [shown]
    assert world.get("dave", f"w/acme/jobs_u/get/{shown}").status_code == 200
    assert world.get("dave", f"w/acme/jobs_u/get/{hidden}").status_code == 404


def test_a_job_of_anonymous_is_followed_and_canceled_by_whoever_holds_its_id(world, make_job):
    job_id = make_job(workspace_id="acme", created_by="anonymous")

    assert world.get(None, f"w/acme/jobs_u/get/{job_id}").status_code == 200
    assert world.get("olga", f"w/acme/jobs_u/completed/get_result_maybe/{job_id}").status_code == 200
    assert world.get(None, f"w/other/jobs_u/get/{job_id}").status_code == 401
    assert world.post(None, f"w/acme/jobs_u/queue/cancel/{job_id}", {}).status_code == 200


def test_a_token_that_may_only_run_one_script_follows_its_runs_and_nothing_else(world, hello):
    world.tokens["hook"] = token_for("alice@example.com", scopes=["jobs:run:scripts:u/alice/hello"])
    job_id = run(world, hello, who="hook")

    assert world.get("hook", f"w/acme/jobs_u/completed/get_result_maybe/{job_id}").status_code == 200
    assert world.get("hook", "w/acme/jobs/list").status_code == 403
    assert world.get("hook", "w/acme/jobs/queue/count").status_code == 403
    assert world.post("hook", "w/acme/jobs/run/p/f/private/script", {}).status_code == 403
    assert (
        world.post("hook", "w/acme/jobs/run/preview", {"content": "", "language": "bash"}).status_code == 403
    )
    assert world.post("hook", f"w/acme/jobs_u/queue/cancel/{job_id}", {"reason": "x"}).status_code == 200


def test_cancel_of_a_waiting_job_ends_it(world, hello):
    job_id = run(world, hello)

    answer = world.post("alice", f"w/acme/jobs_u/queue/cancel/{job_id}", {"reason": "enough"})

    assert answer.status_code == 200
    job = world.get("alice", f"w/acme/jobs_u/completed/get/{job_id}").json()
    assert job["canceled"] and job["canceled_by"] == "alice" and not job["success"]
    assert job["result"]["error"]["name"] == "Canceled"
    assert world.post("alice", f"w/acme/jobs_u/queue/cancel/{job_id}", {}).status_code == 404


def test_a_selection_is_canceled_as_far_as_it_can_be(world, hello):
    ids = [run(world, hello) for _ in range(2)]

    answer = world.post("alice", "w/acme/jobs/queue/cancel_selection", [*ids, str(uuid.uuid4())])

    assert answer.json() == ids
    assert world.get("alice", "w/acme/jobs/queue/count").json() == {"database_length": 0, "suspended": 0}


def test_list_filters(world, hello):
    ok, failed = run(world, hello, {"x": 1, "y": {"z": [1, 2]}}), run(world, hello, {"x": 2})
    work(result={"total": 5, "more": 1})
    work(result={"error": {}}, status="failure")
    waiting = run(world, hello, query="?tag=gpu_1")
    everything = [job["id"] for job in world.get("alice", "w/acme/jobs/list").json()]

    def ids(query):
        answer = world.get("alice", f"w/acme/jobs/list?script_path_exact={hello}&{query}")
        assert answer.status_code == 200, answer.content
        return [job["id"] for job in answer.json()]

    assert everything[:3] == ids("") == [waiting, failed, ok]
    assert ids("success=true") == ids("status=success") == ids("result=" + quote('{"total": 5}')) == [ok]
    assert ids("success=false") == ids("args=" + quote('{"x": 2}')) == [failed]
    assert ids("running=false") == ids("status=queued") == ids("tag=gpu_1") == [waiting]
    assert ids("tag=gpu%") == ids("tag=gpux1") == [] and ids("tag=gpu*&allow_wildcards=true") == [waiting]
    assert ids("worker=w1") == [failed, ok] and ids("per_page=1&page=2") == [failed]
    assert (
        ids("created_by=bob,alice&job_kinds=script&trigger_kind=webhook&has_null_parent=true")
        == everything[:3]
    )
    assert ids("parent_job=" + str(uuid.uuid4())) == ids("label=x") == ids("is_flow_step=true") == []
    assert ids("order_desc=false") == [ok, failed, waiting]
    assert ids("created_after=2100-01-01T00:00:00Z") == ids("completed_before=2000-01-01T00:00:00Z") == []
    assert ids("broad_filter=GPU_1") == [waiting]
    row = world.get("alice", "w/acme/jobs/completed/list").json()[0]
    assert not {"args", "result", "logs", "raw_code"} & set(row)
    for wrong in ("args={", "status=odd", "created_after=yesterday", "parent_job=7", "running=perhaps"):
        assert world.get("alice", f"w/acme/jobs/list?{quote(wrong, safe='=')}").status_code == 400


def test_a_page_of_jobs_costs_the_same_few_queries_whatever_its_length(world, hello):
    for _ in range(5):
        run(world, hello)

    def queries(per_page):
        with CaptureQueriesContext(connection) as captured:
            assert len(world.get("alice", f"w/acme/jobs/list?per_page={per_page}").json()) == per_page
        return len(captured)

    assert queries(1) == queries(5) <= 9


def test_jobs_run_again_with_their_arguments(world, hello):
    first = run(world, hello, {"x": 3})

    answer = world.post("alice", "w/acme/jobs/run/batch_rerun_jobs", {"job_ids": [first, str(uuid.uuid4())]})

    again, error = answer.content.decode().splitlines()
    assert answer.status_code == 201 and error.startswith("Error: ")
    assert Job.objects.get(pk=again).args == {"x": 3}


def test_progress_is_set_and_read(world, hello):
    job_id = run(world, hello)

    assert world.get("alice", f"w/acme/job_metrics/get_progress/{job_id}").json() is None
    assert (
        world.post("alice", f"w/acme/job_metrics/set_progress/{job_id}", {"percent": 40}).status_code == 200
    )
    assert world.get("alice", f"w/acme/job_metrics/get_progress/{job_id}").json() == 40
    assert (
        world.post("alice", f"w/acme/job_metrics/set_progress/{job_id}", {"percent": 101}).status_code == 400
    )


def test_a_completed_job_can_be_emptied_and_deleted(world, hello):
    job_id = run(world, hello, {"x": 1})
    work(result="secret", log="secret")

    assert world.post("dave", f"w/acme/jobs/completed/delete/{job_id}").status_code == 404
    emptied = world.post("alice", f"w/acme/jobs/completed/delete/{job_id}").json()

    assert (emptied["args"], emptied["result"], emptied["deleted"]) == ({}, {}, True)
    assert world.get("alice", f"w/acme/jobs_u/get_logs/{job_id}").content == b"##DELETED##"
    assert world.post("dave", "w/acme/jobs/delete", [job_id]).status_code == 403
    assert world.post("alice", "w/acme/jobs/delete", [job_id]).status_code == 200
    assert not Job.objects.filter(pk=job_id).exists()


def test_counts_and_instance_routes(world, hello):
    run(world, hello)
    work(result=1)
    run(world, hello)

    assert world.get("alice", "w/acme/jobs/queue/count").json() == {"database_length": 1, "suspended": 0}
    assert (
        world.get("alice", "w/acme/jobs/completed/count_jobs?completed_after_s_ago=60&success=true").json()
        >= 1
    )
    assert world.get("alice", "w/acme/jobs/queue/position/4102444800000").json() == {"position": 1}
    assert world.get("alice", "workers/queue_counts").json() == {"python3": 1}
    assert world.get("alice", "workers/exists_workers_with_tags?tags=python3,x").json() == {
        "python3": False,
        "x": False,
    }
    assert world.get("alice", "jobs/db_clock").json() > 1_700_000_000_000
    assert world.get("alice", "jobs/completed/count_by_tag").status_code == 403
    assert {"tag": "python3", "count": 2} in world.get("root", "jobs/completed/count_by_tag").json()


def test_get_runs_with_a_base64_payload_only_from_the_site_itself(world, hello):
    payload = base64.urlsafe_b64encode(json.dumps({"x": 5}).encode()).decode().rstrip("=")
    world.client.cookies["token"] = world.tokens["alice"]

    answer = world.client.get(
        f"/api/w/acme/jobs/run_wait_result/p/{hello}?payload={payload}",
        headers={"Sec-Fetch-Site": "cross-site"},
    )

    assert answer.status_code == 403
    assert not Job.objects.filter(runnable_path=hello).exists()


@pytest.mark.parametrize("id", ["7", "x" * 36, "00000000-0000-0000-0000-00000000000g"])
def test_ids_that_are_none_are_said_to_be(world, id):
    for route in ("jobs_u/get", "jobs_u/get_logs", "jobs_u/completed/get", "job_metrics/get_progress"):
        answer = world.get("alice", f"w/acme/{route}/{id}")
        assert answer.status_code == 400 and b"UUID" in answer.content
