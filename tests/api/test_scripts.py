"""Scripts over REST: versions in a line, what clients compare, who may do what."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from jobs import scripts
from jobs.models import Script
from tests.tenancy import enter, join, make_workspace
from workspaces.errors import Conflict, DomainError

CODE = "def main(who: str, times: int = 1):\n    return [who] * times\n"
HELLO = {"path": "u/alice/hello", "content": CODE, "language": "python3", "summary": "Greets"}


def create(world, body, who="alice", query=""):
    return world.post(who, f"w/acme/scripts/create{query}", body)


def test_a_script_is_deployed_and_read_back_as_it_was_sent(world):
    sent = HELLO | {
        "tag": "gpu",
        "envs": ["A=1"],
        "cache_ttl": 60,
        "labels": ["nightly"],
        "timeout": 30,
        "lock": None,
    }

    answer = create(world, sent)

    assert (answer.status_code, answer["Content-Type"]) == (201, "text/plain; charset=utf-8")
    script = world.get("alice", f"w/acme/scripts/get/p/{HELLO['path']}").json()
    assert script["hash"] == answer.content.decode() and len(script["hash"]) == 16
    assert {name: script[name] for name in sent if name != "lock"} == {
        k: v for k, v in sent.items() if k != "lock"
    }
    assert script["lock"] == "" and script["ws_error_handler_muted"] is False
    assert script["schema"]["required"] == ["who"]
    assert world.get("alice", f"w/acme/scripts/get/h/{script['hash']}").json() == script


def test_what_was_never_set_is_absent_because_the_command_line_tells_absent_from_null(world):
    create(world, HELLO)

    script = world.get("alice", "w/acme/scripts/get/p/u/alice/hello").json()

    assert not {"envs", "labels", "timeout", "priority", "cache_ttl"} & set(script)


def test_versions_form_a_line(world):
    first = create(world, HELLO).content.decode()
    changed = HELLO | {"content": CODE + "# 2"}

    without_parent = create(world, changed)
    second = create(world, changed | {"parent_hash": first})
    from_an_old_one = create(world, HELLO | {"content": CODE + "# 3", "parent_hash": first})
    automatic = create(world, HELLO | {"content": CODE + "# 3", "parent_hash": first, "auto_parent": True})

    assert without_parent.status_code == 400 and b"Path conflict" in without_parent.content
    assert second.status_code == 201
    assert from_an_old_one.status_code == 400 and b"linear" in from_an_old_one.content
    assert automatic.status_code == 201
    history = world.get("alice", "w/acme/scripts/history/p/u/alice/hello").json()
    assert [version["script_hash"] for version in history] == [
        answer.content.decode() for answer in (automatic, second)
    ] + [first]
    assert world.get("alice", f"w/acme/scripts/get/h/{first}").json()["archived"] is True


def test_deploying_the_same_again_is_a_noop_only_when_asked(world):
    first = create(world, HELLO).content.decode()
    again = HELLO | {"parent_hash": first}

    assert create(world, again, query="?skip_if_noop=true").content.decode() == first
    assert create(world, again).content.decode() != first


def test_a_script_moves_to_another_path_with_its_history(world):
    first = create(world, HELLO).content.decode()

    moved = create(world, HELLO | {"path": "u/alice/greet", "parent_hash": first})

    assert moved.status_code == 201
    assert world.get("alice", "w/acme/scripts/exists/p/u/alice/hello").json() is False
    assert world.get("alice", "w/acme/scripts/get/p/u/alice/greet").json()["parent_hashes"] == [first]


def test_an_archived_script_does_not_run_and_comes_back_where_it_left_off(world):
    first = create(world, HELLO).content.decode()

    assert world.post("alice", "w/acme/scripts/archive/p/u/alice/hello").status_code == 200

    assert world.get("alice", "w/acme/scripts/exists/p/u/alice/hello").json() is False
    assert world.post("alice", "w/acme/jobs/run/p/u/alice/hello", {}).status_code == 404
    assert "u/alice/hello" in [
        s["path"] for s in world.get("alice", "w/acme/scripts/list?show_archived=true").json()
    ]
    assert create(world, HELLO).status_code == 201
    assert world.get("alice", "w/acme/scripts/get/p/u/alice/hello").json()["parent_hashes"] == [first]


def test_raw_routes_give_the_code_with_or_without_extension(world):
    version = create(world, HELLO).content.decode()

    for address in ("raw/p/u/alice/hello", "raw/p/u/alice/hello.py", f"raw/h/{version}.py"):
        answer = world.get("alice", f"w/acme/scripts/{address}")
        assert answer.content.decode() == CODE and answer["Content-Type"].startswith("text/plain")


def test_lists_have_no_code_and_take_the_filters_of_the_command_line(world):
    create(world, HELLO | {"labels": ["nightly"]})
    create(world, {"path": "f/private/lib", "content": "x = 1", "language": "python3"})

    def paths(query):
        return {row["path"] for row in world.get("alice", f"w/acme/scripts/list?{query}").json()}

    assert paths("") == {"u/alice/hello", "f/private/lib", "f/private/script"}
    assert paths("include_without_main=false&path_start=f/private/l") == set()
    assert paths("label=nightly") == paths("path_exact=u/alice/hello") == {"u/alice/hello"}
    assert paths("languages=bash") == paths("starred_only=true") == set()
    rows = world.get("alice", "w/acme/scripts/list?per_page=2&page=0").json()
    assert len(rows) == 2 and not {"content", "schema", "lock"} & set(rows[0])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"language": "cobol"}, "python3, deno, go"),
        ({"path": "../etc/passwd"}, "path"),
        ({"path": "f/nowhere/x"}, "folder nowhere does not exist"),
        ({"content": 5}, "content"),
        ({"content": "a\x00b"}, "NUL"),
        ({"schema": []}, "schema"),
        ({"tag": "x" * 51}, "tag"),
        ({"timeout": -1}, "timeout"),
        ({"priority": 101}, "priority"),
        ({"envs": ["novalue"]}, "NAME=value"),
        ({"kind": "poem"}, "kind"),
        ({"cache_ttl": "soon"}, "cache_ttl"),
        ({"parent_hash": "zz"}, "hash"),
        ({"parent_hash": "00000000000000ff"}, "parent_hash"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_changes_nothing(world, unchanged, change, says):
    unchanged()

    answer = create(world, HELLO | change)

    assert answer.status_code == 400 and says in answer.content.decode()
    unchanged(says)


def test_rights(world):
    create(world, HELLO)
    for who, method, route, status in [
        ("oscar", "POST", "w/acme/scripts/create", 403),
        ("dave", "GET", "w/acme/scripts/get/p/u/alice/hello", 404),
        ("dave", "POST", "w/acme/scripts/archive/p/u/alice/hello", 404),
        ("olga", "GET", "w/acme/scripts/list", 404),
        ("read-only alice", "POST", "w/acme/scripts/archive/p/u/alice/hello", 403),
        ("dave", "POST", "w/acme/scripts/delete/p/u/alice/hello", 403),
        ("alice", "POST", "w/acme/scripts/delete/p/u/alice/hello", 200),
    ]:
        answer = world.call(who, method, route, HELLO if route.endswith("create") else None)
        assert answer.status_code == status, (who, route, answer.content)
    assert not Script.objects.filter(path="u/alice/hello").exists()


def test_a_developer_cannot_deploy_on_behalf_of_somebody_else(world):
    create(world, HELLO | {"path": "u/dave/x", "on_behalf_of_email": "alice@example.com"}, who="dave")

    assert Script.objects.get(path="u/dave/x").on_behalf_of_email == "dave@example.com"


@pytest.mark.django_db(transaction=True)
def test_of_two_deployments_at_once_one_wins_and_the_other_is_told():
    workspace = make_workspace("acme", admin="alice@example.com")
    join(workspace, "bob@example.com", is_admin=True)
    draft = scripts.ScriptDraft(path="u/alice/hello", content=CODE, language="python3")
    first = scripts.deploy_script(enter(workspace, "alice@example.com"), draft)

    def deploy(number):
        try:
            caller = enter(workspace, "alice@example.com")
            changed = scripts.ScriptDraft(
                path="u/alice/hello", content=f"{CODE}# {number}", language="python3"
            )
            return scripts.deploy_script(caller, changed, parent_hash=first.hash)
        except DomainError as exc:
            return exc
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(deploy, range(4)))

    winners = [answer for answer in answers if isinstance(answer, Script)]
    assert len(winners) == 1
    assert all(isinstance(answer, Conflict) for answer in answers if answer not in winners)
    assert Script.objects.get(path="u/alice/hello", archived=False).hash == winners[0].hash
