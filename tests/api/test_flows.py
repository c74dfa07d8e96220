"""Flows over REST: what is pushed comes back the same, versions follow each other, who may do what."""

import pytest
from django.db import connection

from jobs.models import Flow, FlowVersion, Job, JobKind, QueuedJob

PATH = "u/alice/report"
VALUE = {
    "modules": [
        {
            "id": "zebra",
            "summary": "First",
            "value": {
                "type": "rawscript",
                "language": "python3",
                "content": "def main(x: int): return x",
                "input_transforms": {"x": {"type": "javascript", "expr": "flow_input.x"}},
            },
        },
        {"id": "b", "value": {"type": "script", "path": "u/alice/hello", "input_transforms": {}}},
    ],
    "same_worker": False,
}
SCHEMA = {
    "type": "object",
    "order": ["x", "a"],
    "properties": {"x": {"type": "integer"}, "a": {"type": "string"}},
}
FLOW = {"path": PATH, "summary": "Reports", "description": "", "value": VALUE, "schema": SCHEMA}


def made():
    """The versions that a test deployed."""
    return FlowVersion.objects.exclude(path__startswith="f/private/")


def create(world, body, who="alice"):
    return world.post(who, "w/acme/flows/create", body)


def update(world, body, path=PATH, who="alice"):
    return world.post(who, f"w/acme/flows/update/{path}", body)


def get(world, path=PATH, who="alice"):
    return world.get(who, f"w/acme/flows/get/{path}").json()


def test_a_flow_is_deployed_and_read_back_as_it_was_sent(world):
    sent = FLOW | {
        "tag": "gpu",
        "timeout": 60,
        "priority": 5,
        "labels": ["nightly"],
        "ws_error_handler_muted": True,
        "dedicated_worker": False,
        "visible_to_runner_only": True,
        "on_behalf_of_email": "dave@example.com",
    }

    answer = create(world, sent)

    assert (answer.status_code, answer.content) == (201, PATH.encode())
    flow = get(world)
    assert {name: flow[name] for name in sent} == sent
    assert list(flow["schema"]["properties"]) == ["x", "a"], "the order of fields is the author's"
    assert list(flow["value"]["modules"][0]) == ["id", "summary", "value"]
    assert (flow["edited_by"], flow["archived"], flow["extra_perms"]) == ("alice", False, {})
    assert world.get("alice", f"w/acme/flows/get/v/{flow['version_id']}").json() == flow


def test_what_was_never_set_is_absent_because_the_command_line_tells_absent_from_null(world):
    create(world, FLOW)

    assert not {"tag", "labels", "timeout", "priority", "dedicated_worker"} & set(get(world))


def test_each_deployment_is_a_version_and_queues_the_job_that_locks_its_scripts(world):
    create(world, FLOW | {"deployment_message": "first"})
    first = get(world)["version_id"]

    answer = update(world, FLOW | {"summary": "Better", "deployment_message": "second"})

    assert (answer.status_code, answer.content) == (200, PATH.encode())
    history = world.get("alice", f"w/acme/flows/history/p/{PATH}").json()
    assert [row["deployment_msg"] for row in history] == ["second", "first"]
    assert history[1]["id"] == first and history[0]["created_by"] == "alice"
    latest = world.get("alice", f"w/acme/flows/get_latest_version/{PATH}").json()
    assert latest == history[0]
    status = world.get("alice", f"w/acme/flows/deployment_status/p/{PATH}").json()
    job = Job.objects.get(pk=status["job_id"])
    assert (job.kind, job.tag, job.runnable_id) == (JobKind.FLOW_DEPENDENCIES, "dependency", latest["id"])
    assert status["lock_error_logs"] is None and QueuedJob.objects.filter(pk=job.pk).exists()
    assert Job.objects.filter(kind=JobKind.FLOW_DEPENDENCIES).count() == 2


def test_a_flow_moves_with_its_history_and_its_access_rules(world):
    create(world, FLOW)
    world.post("alice", f"w/acme/acls/add/flow/{PATH}", {"owner": "u/dave", "write": False})
    create(world, FLOW | {"path": "u/alice/other"})

    onto_another = update(world, FLOW | {"path": "u/alice/other"})
    moved = update(world, FLOW | {"path": "u/alice/moved"})

    assert onto_another.status_code == 400 and b"u/alice/other" in onto_another.content
    assert (moved.status_code, moved.content) == (200, b"u/alice/moved")
    assert world.get("alice", f"w/acme/flows/get/{PATH}").status_code == 404
    assert get(world, "u/alice/moved", who="dave")["extra_perms"] == {"u/dave": False}
    assert len(world.get("alice", "w/acme/flows/history/p/u/alice/moved").json()) == 2


def test_whoever_started_from_an_older_version_overwrites_nothing(world):
    create(world, FLOW)
    first = get(world)["version_id"]
    update(world, FLOW | {"summary": "Theirs", "parent_version": first})

    answer = update(world, FLOW | {"summary": "Mine", "parent_version": first})

    assert answer.status_code == 400 and str(get(world)["version_id"]).encode() in answer.content
    assert get(world)["summary"] == "Theirs"


def test_a_path_that_is_taken_is_refused(world):
    create(world, FLOW)

    answer = create(world, FLOW)

    assert answer.status_code == 400 and b"exists already" in answer.content
    assert made().count() == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"value": {"modules": [{"id": "a", "value": {"type": "rawscript"}}]}}, b"modules[0].value"),
        ({"value": {"modules": [{"id": "a", "value": {"type": "nonsense"}}]}}, b"modules[0].value.type"),
        ({"value": []}, b"value"),
        ({"schema": []}, b"schema"),
        ({"priority": 101}, b"priority"),
        ({"timeout": 0}, b"timeout"),
        ({"tag": "x" * 51}, b"tag"),
        ({"labels": [""]}, b"labels"),
        ({"dedicated_worker": "yes"}, b"dedicated_worker"),
        ({"path": "nowhere"}, b"path"),
        ({"path": "f/missing/flow"}, b"missing"),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_its_place(world, wrong, named):
    answer = create(world, FLOW | wrong)

    assert answer.status_code == 400 and named in answer.content, answer.content
    assert not made().exists() and not QueuedJob.objects.exists()


def test_missing_ids_are_filled_in(world):
    modules = [{"value": {"type": "identity"}}, {"value": {"type": "identity"}}]

    create(world, FLOW | {"value": {"modules": modules}})

    assert [module["id"] for module in get(world)["value"]["modules"]] == ["a", "b"]


def test_an_archived_flow_is_read_but_not_listed_and_comes_back_by_deploying(world):
    create(world, FLOW)

    world.post("alice", f"w/acme/flows/archive/{PATH}", {"archived": True})

    assert get(world)["archived"] is True
    assert world.get("alice", "w/acme/flows/list?path_start=u/").json() == []
    assert [row["path"] for row in world.get("alice", "w/acme/flows/list?show_archived=true").json()] == [
        PATH
    ]
    assert world.get("alice", f"w/acme/flows/exists/{PATH}").json() is False
    assert create(world, FLOW).status_code == 201
    assert get(world)["archived"] is False
    assert len(world.get("alice", f"w/acme/flows/history/p/{PATH}").json()) == 2


def test_an_archived_flow_is_unarchived(world):
    create(world, FLOW)
    world.post("alice", f"w/acme/flows/archive/{PATH}")

    world.post("alice", f"w/acme/flows/archive/{PATH}", {"archived": False})

    assert world.get("alice", f"w/acme/flows/exists/{PATH}").json() is True


@pytest.mark.parametrize("method", ["DELETE", "POST"])
def test_admins_delete_a_flow_with_its_history(world, method):
    create(world, FLOW)
    world.post("alice", f"w/acme/acls/add/flow/{PATH}", {"owner": "u/dave", "write": True})

    by_writer = world.call("dave", method, f"w/acme/flows/delete/{PATH}")
    by_admin = world.call("alice", method, f"w/acme/flows/delete/{PATH}")

    assert by_writer.status_code == 403
    assert (by_admin.status_code, by_admin.content) == (200, f"deleted {PATH}".encode())
    assert not made().exists() and not Flow.objects.filter(path=PATH).exists()


def test_lists_are_filtered(world):
    create(world, FLOW | {"labels": ["nightly"], "deployment_message": "why"})
    create(world, FLOW | {"path": "u/alice/dedicated", "dedicated_worker": True, "description": "long"})
    create(world, FLOW | {"path": "u/dave/own"}, who="dave")

    def paths(query, who="alice"):
        return [row["path"] for row in world.get(who, f"w/acme/flows/list?{query}").json()]

    assert paths("path_start=u/") == ["u/dave/own", "u/alice/dedicated", PATH]
    assert paths("path_start=u/&order_desc=false&per_page=1") == [PATH]
    assert paths("path_start=u/&per_page=2&page=2") == [PATH]
    assert paths("created_by=dave") == paths("path_start=u/dave/") == ["u/dave/own"]
    assert paths(f"path_exact={PATH}") == paths("label=nightly") == [PATH]
    assert paths("dedicated_worker=true") == ["u/alice/dedicated"]
    assert paths("path_start=u/&dedicated_worker=false") == ["u/dave/own", PATH]
    assert paths("starred_only=true") == []
    assert paths("", who="dave") == ["u/dave/own"]
    rows = world.get(
        "alice", "w/acme/flows/list?path_start=u/&with_deployment_msg=true&without_description=true"
    ).json()
    assert [row["deployment_msg"] for row in rows] == [None, None, "why"]
    assert {row["description"] for row in rows} == {None} and "value" not in rows[0]
    assert world.get("alice", "w/acme/flows/list_paths").json() == [
        "f/private/flow",
        "u/alice/dedicated",
        PATH,
        "u/dave/own",
    ]
    found = world.get("dave", "w/acme/flows/list_search").json()
    assert found == [{"path": "u/dave/own", "value": VALUE}]


def test_a_list_costs_the_same_whatever_its_length(world, django_assert_max_num_queries):
    for number in range(3):
        create(world, FLOW | {"path": f"u/alice/flow{number}"})

    with django_assert_max_num_queries(8):
        world.get("alice", "w/acme/flows/list?with_deployment_msg=true")


def test_rights_on_a_flow_come_from_its_rules(world):
    create(world, FLOW)
    version = get(world)["version_id"]
    assert world.get("dave", f"w/acme/flows/get/{PATH}").status_code == 404
    assert world.get("dave", f"w/acme/flows/get/v/{version}").status_code == 404

    world.post("alice", f"w/acme/acls/add/flow/{PATH}", {"owner": "u/dave", "write": False})

    assert get(world, who="dave")["version_id"] == version
    assert update(world, FLOW, who="dave").status_code == 403
    world.post("alice", f"w/acme/acls/add/flow/{PATH}", {"owner": "u/dave", "write": True})
    assert update(world, FLOW, who="dave").status_code == 200
    assert get(world)["edited_by"] == "dave"


def test_only_admins_and_deployers_let_a_flow_run_as_somebody_else(world):
    create(world, FLOW | {"path": "u/dave/own", "on_behalf_of_email": "alice@example.com"}, who="dave")

    assert get(world, "u/dave/own")["on_behalf_of_email"] == "dave@example.com"


def test_the_message_of_a_version_can_be_changed(world):
    create(world, FLOW)
    version = get(world)["version_id"]

    plain = world.post("alice", f"w/acme/flows/history_update/v/{version}", {"deployment_msg": "one"})
    at_path = world.post(
        "alice", f"w/acme/flows/history_update/v/{version}/p/{PATH}", {"deployment_msg": "two"}
    )
    elsewhere = world.post("alice", f"w/acme/flows/history_update/v/{version}/p/u/alice/x", {})

    assert (plain.status_code, at_path.status_code, elsewhere.status_code) == (200, 200, 404)
    assert world.get("alice", f"w/acme/flows/get_latest_version/{PATH}").json()["deployment_msg"] == "two"


def test_the_error_handler_is_muted_without_a_new_version(world):
    create(world, FLOW)
    version = get(world)["version_id"]

    world.post("alice", f"w/acme/flows/toggle_workspace_error_handler/{PATH}", {"muted": True})

    assert get(world)["ws_error_handler_muted"] is True
    assert get(world)["version_id"] == version


def test_what_happens_to_a_flow_is_in_the_audit_log(world):
    create(world, FLOW)
    update(world, FLOW)
    world.post("alice", f"w/acme/flows/archive/{PATH}")
    world.delete("alice", f"w/acme/flows/delete/{PATH}")

    entries = world.get("alice", f"w/acme/audit/list?resource={PATH}").json()

    done = [entry["operation"] for entry in entries if entry["operation"].startswith("flows.")]
    assert done == ["flows.delete", "flows.archive", "flows.update", "flows.create"]


def test_tokens_are_limited_to_paths(world):
    from tests.tenancy import token_for

    create(world, FLOW)
    create(world, FLOW | {"path": "u/alice/other"})
    world.tokens["narrow"] = token_for("alice@example.com", scopes=[f"flows:read:{PATH}"])

    assert get(world, who="narrow")["path"] == PATH
    assert world.get("narrow", "w/acme/flows/get/u/alice/other").status_code == 403
    assert [row["path"] for row in world.get("narrow", "w/acme/flows/list").json()] == [PATH]
    assert update(world, FLOW, who="narrow").status_code == 403


def test_a_deployment_that_fails_leaves_nothing_behind(world):
    create(world, FLOW)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE queue ADD CONSTRAINT no_more CHECK (tag <> 'dependency') NOT VALID")

    answer = update(world, FLOW | {"summary": "Half"})

    assert answer.status_code >= 400
    assert get(world)["summary"] == "Reports" and made().count() == 1
