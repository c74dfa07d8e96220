"""The REST routes of governance as clients use them: status, content type, shape."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.api.conftest import SECRET, World
from tests.tenancy import identity, make_account
from workspaces import accounts, job_tokens
from workspaces.models import Account, AuditEntry, Member, Token

PASSWORD = "correct horse battery staple"


def text_of(answer: Any) -> str:
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    return str(answer.content.decode())


@pytest.fixture
def ada(world: World) -> Account:
    return accounts.create_account(identity("root@example.com"), email="ada@example.com", password=PASSWORD)


def test_login_answers_the_token_as_text_and_as_a_cookie(world: World, ada: Account) -> None:
    answer = world.post(None, "auth/login", {"email": "Ada@Example.com", "password": PASSWORD})

    token = text_of(answer)
    assert answer.status_code == 200 and len(token) == 32
    cookie = answer.cookies["token"]
    assert (
        cookie.value == token and cookie["httponly"] and cookie["samesite"] == "Lax" and cookie["path"] == "/"
    )
    assert world.get(None, "users/email", authorization=f"Bearer {token}").content == b"ada@example.com"


def test_logout_ends_the_session_and_clears_the_cookie(world: World, ada: Account) -> None:
    token = text_of(world.post(None, "auth/login", {"email": "ada@example.com", "password": PASSWORD}))

    answer = world.post(None, "auth/logout")

    assert answer.status_code == 200 and answer.cookies["token"].value == ""
    assert world.get(None, "users/whoami", authorization=f"Bearer {token}").status_code == 401


def test_wrong_credentials_are_401_and_say_nothing_of_which(world: World, ada: Account) -> None:
    wrong = world.post(None, "auth/login", {"email": "ada@example.com", "password": "wrong"})
    unknown = world.post(None, "auth/login", {"email": "nobody@example.com", "password": "wrong"})

    assert wrong.status_code == unknown.status_code == 401
    assert wrong.content == unknown.content


def test_guessing_is_slowed_down_for_the_guesser_alone(world: World, ada: Account) -> None:
    guess = {"email": "ada@example.com", "password": "wrong"}
    statuses = [world.client.post("/api/auth/login", guess, "application/json", REMOTE_ADDR="203.0.113.9").status_code
                for _ in range(11)]  # fmt: skip

    right = {"email": "ada@example.com", "password": PASSWORD}
    from_there = world.client.post("/api/auth/login", right, "application/json", REMOTE_ADDR="203.0.113.9")
    from_elsewhere = world.client.post(
        "/api/auth/login", right, "application/json", REMOTE_ADDR="203.0.113.10"
    )

    assert statuses == [401] * 10 + [429]
    assert from_there.status_code == 429 and "minute" in text_of(from_there)
    assert from_elsewhere.status_code == 200


def test_a_guesser_does_not_escape_by_inventing_forwarded_addresses(world: World, ada: Account) -> None:
    guess = {"email": "ada@example.com", "password": "wrong"}
    statuses = [
        world.client.post(
            "/api/auth/login",
            guess,
            "application/json",
            REMOTE_ADDR="203.0.113.9",
            HTTP_X_FORWARDED_FOR=f"10.0.0.{i}",
        ).status_code
        for i in range(11)
    ]

    assert statuses[-1] == 429


def test_the_default_password_signs_in_from_this_machine_only(world: World, ada: Account) -> None:
    Account.objects.filter(pk=ada.pk).update(must_change_password=True)
    right = {"email": "ada@example.com", "password": PASSWORD}

    elsewhere = world.client.post("/api/auth/login", right, "application/json", REMOTE_ADDR="203.0.113.9")
    here = world.client.post("/api/auth/login", right, "application/json", REMOTE_ADDR="127.0.0.1")

    assert elsewhere.status_code == 403 and "default password" in text_of(elsewhere)
    assert here.status_code == 200


def test_a_cookie_is_believed_from_programs_but_not_from_other_sites(world: World) -> None:
    world.client.cookies["token"] = world.tokens["alice"]
    body = {"name": "by_cookie"}

    foreign = world.post(None, "w/acme/folders/create", body, origin="https://evil.example")
    marked = world.post(None, "w/acme/folders/create", body, **{"sec-fetch-site": "cross-site"})
    program = world.post(None, "w/acme/folders/create", body)

    assert (foreign.status_code, marked.status_code, program.status_code) == (403, 403, 200)


def test_whoami_has_the_fields_that_clients_read(world: World) -> None:
    everywhere = world.get("alice", "users/whoami").json()
    here = world.get("alice", "w/acme/users/whoami").json()
    guest = world.get("root", "w/acme/users/whoami").json()

    assert everywhere["email"] == "alice@example.com" and everywhere["login_type"] == "password"
    assert here["username"] == "alice" and here["is_admin"] and here["groups"] == ["all"]
    assert here["folders"] == here["folders_read"] == here["folders_owners"] == ["private"]
    assert guest["non_member"] is True and guest["username"] == "root@example.com"


def test_tokens_are_shown_once_and_named_by_their_first_ten_characters(world: World) -> None:
    body = {"label": "ci", "expiration": "2999-01-01T00:00:00Z", "read_only": True}
    created = world.post("dave", "users/tokens/create", body)

    token = text_of(created)
    listed = world.get("dave", "users/tokens/list?exclude_ephemeral=true").json()
    mine = next(item for item in listed if item["label"] == "ci")
    deleted = world.delete("dave", f"users/tokens/delete/{token[:10]}")

    assert created.status_code == 201 and mine["token_prefix"] == token[:10] and token not in str(listed)
    assert deleted.status_code == 200 and not Token.objects.filter(token_prefix=token[:10]).exists()


def test_nobody_deletes_somebody_elses_token(world: World) -> None:
    prefix = world.tokens["alice"][:10]

    assert world.delete("dave", f"users/tokens/delete/{prefix}").status_code == 404
    assert Token.objects.filter(token_prefix=prefix).exists()


def test_an_expired_token_opens_nothing(world: World) -> None:
    Token.objects.filter(email="dave@example.com").update(expiration=timezone.now() - timedelta(seconds=1))

    assert world.get("dave", "users/whoami").status_code == 401


def test_disabling_an_account_ends_its_use_at_once(world: World) -> None:
    assert world.post("root", "users/update/dave@example.com", {"disabled": True}).status_code == 200

    assert world.get("dave", "users/whoami").status_code == 401


def test_a_workspace_is_created_archived_and_opened_again(world: World) -> None:
    exists = world.post("root", "workspaces/exists", {"id": "fresh"})
    created = world.post("root", "workspaces/create", {"id": "fresh", "name": "Fresh", "color": "#112233"})
    again = world.post("root", "workspaces/create", {"id": "fresh", "name": "Fresh"})

    assert exists.json() is False and exists["Content-Type"] == "application/json"
    assert created.status_code == 201 and again.status_code == 400
    assert world.post("root", "w/fresh/workspaces/archive").status_code == 200
    assert "fresh" not in [row["id"] for row in world.get("root", "workspaces/list").json()]
    assert world.post("root", "workspaces/unarchive/fresh").status_code == 200
    assert world.get("root", "w/fresh/workspaces/get_workspace_name").content == b"Fresh"


def test_an_admin_adds_changes_and_removes_a_member(world: World) -> None:
    make_account("nina@example.com")
    added = world.post(
        "alice",
        "w/acme/workspaces/add_user",
        {"email": "nina@example.com", "is_admin": False, "operator": True},
    )

    assert added.status_code == 201
    assert world.get("alice", "w/acme/users/get/nina").json()["operator"] is True
    assert world.post("alice", "w/acme/users/update/nina", {"is_admin": True}).status_code == 200
    assert world.get("alice", "w/acme/users/username_to_email/nina").content == b"nina@example.com"
    assert world.delete("alice", "w/acme/users/delete/nina").status_code == 200
    assert not Member.objects.filter(workspace_id="acme", username="nina").exists()


def test_set_variable_of_the_python_client_works_for_new_and_old_ones(world: World) -> None:
    missing = world.get("dave", "w/acme/variables/get/u/dave/greeting")
    created = world.post("dave", "w/acme/variables/create",
                         {"path": "u/dave/greeting", "value": "hi", "is_secret": False, "description": ""})  # fmt: skip
    updated = world.post("dave", "w/acme/variables/update/u/dave/greeting", {"value": "hello"})

    assert (missing.status_code, created.status_code, updated.status_code) == (404, 201, 200)
    assert world.get("dave", "w/acme/variables/get_value/u/dave/greeting").content == b'"hello"'


def test_an_encoded_slash_in_a_path_is_a_slash(world: World) -> None:
    assert world.get("alice", "w/acme/variables/get_value/f%2Fprivate%2Fsecret").json() == SECRET


def test_a_secret_is_in_no_list_and_each_reading_is_recorded(world: World) -> None:
    listed = world.get("alice", "w/acme/variables/list").json()
    hidden = world.get("alice", "w/acme/variables/get/f/private/secret?decrypt_secret=false").json()
    ciphertext = world.get(
        "alice", "w/acme/variables/get/f/private/secret?decrypt_secret=false&include_encrypted=true"
    ).json()
    before = AuditEntry.objects.filter(operation="variables.decrypt_secret").count()
    plain = world.get("alice", "w/acme/variables/get/f/private/secret").json()

    assert {row["value"] for row in listed} == {None} and hidden["value"] is None
    assert SECRET not in ciphertext["value"] and plain["value"] == SECRET
    entry = AuditEntry.objects.filter(operation="variables.decrypt_secret").latest("id")
    assert AuditEntry.objects.filter(operation="variables.decrypt_secret").count() == before + 1
    assert (
        entry.resource == "f/private/secret"
        and entry.username == "alice"
        and SECRET not in str(entry.parameters)
    )


def test_an_exported_secret_comes_back_unchanged(world: World) -> None:
    address = "w/acme/variables/get/f/private/secret?decrypt_secret=false&include_encrypted=true"
    exported = world.get("alice", address).json()["value"]

    pushed = world.post(
        "alice", "w/acme/variables/update/f/private/secret?already_encrypted=true", {"value": exported}
    )
    foreign = world.post(
        "alice", "w/acme/variables/update/f/private/secret?already_encrypted=true", {"value": "gAAAAAB"}
    )

    assert pushed.status_code == 200 and world.get("alice", address).json()["value"] == exported
    assert foreign.status_code == 400


def test_resources_take_any_json_value_and_give_it_back(world: World) -> None:
    for value in ({"a": [1, 2.5, None]}, [1], "text", 7, True, None, {}):
        body = {"path": "u/dave/thing", "value": value, "resource_type": "state"}
        assert world.post("dave", "w/acme/resources/create?update_if_exists=true", body).status_code == 201
        answer = world.get("dave", "w/acme/resources/get_value/u/dave/thing")
        assert answer.json() == value and answer["Content-Type"] == "application/json"


def test_an_interpolated_resource_holds_the_secret_and_a_plain_one_its_reference(world: World) -> None:
    plain = world.get("alice", "w/acme/resources/get_value/f/private/database").json()
    whole = world.get("alice", "w/acme/resources/get_value_interpolated/f/private/database").json()

    assert plain["password"] == "$var:f/private/secret"
    assert whole["password"] == SECRET


def test_an_operator_reads_a_shared_secret_through_a_job_but_not_by_hand(
    world: World, running_job: Any
) -> None:
    world.post("alice", "w/acme/acls/add/variable/f/private/secret", {"owner": "u/oscar", "write": False})
    address = "w/acme/variables/get_value/f/private/secret"
    world.tokens["oscar's job"] = running_job("oscar")

    assert world.get("oscar", address).status_code == 403
    assert world.get("oscar's job", address).json() == SECRET


def test_a_job_token_is_good_for_its_workspace_while_the_job_runs(world: World, running_job: Any) -> None:
    world.tokens["job"] = running_job("alice")

    assert world.get("job", "users/whoami").json()["email"] == "alice@example.com"
    assert world.get("job", "w/acme/users/whoami").json()["username"] == "alice"
    assert world.get("job", "w/other/users/whoami").status_code == 403
    assert world.post("job", "users/tokens/create", {}).status_code == 403
    assert world.get("job", "users/list_as_super_admin").status_code == 403
    running_job.end()
    assert world.get("job", "users/whoami").status_code == 401


def test_a_forged_job_token_is_refused(world: World, running_job: Any) -> None:
    token = running_job("alice")
    world.tokens["forged"] = token[:-4] + "AAAA"

    assert world.get("forged", "users/whoami").status_code == 401
    assert token.startswith(job_tokens.PREFIX)


def test_resource_types_of_admins_are_shared_and_read_only(world: World) -> None:
    shared = world.get("dave", "w/acme/resources/type/get/postgresql").json()

    assert shared["schema"]["properties"]["port"]["type"] == "integer" and shared["workspace_id"] == "admins"
    assert (
        world.post("alice", "w/acme/resources/type/update/postgresql", {"description": "x"}).status_code
        == 403
    )
    assert (
        world.post("dave", "w/acme/resources/type/create", {"name": "c_crm", "schema": {}}).status_code == 201
    )
    assert "c_crm" not in world.get("olga", "w/other/resources/type/listnames").json()


def test_settings_are_for_superadmins_but_for_what_clients_need(world: World) -> None:
    stored = world.post("root", "settings/global/smtp_settings", {"value": {"password": "x"}})

    assert stored.status_code == 200
    assert world.get("root", "settings/global/smtp_settings").json() == {"password": "x"}
    assert world.get("root", "settings/list_global").json() == [
        {"name": "smtp_settings", "value": {"password": "x"}}
    ]
    assert world.get("dave", "settings/global/smtp_settings").status_code == 403
    assert world.get("dave", "settings/global/automate_username_creation").content == b"null"
    world.post("root", "settings/global/smtp_settings", {"value": None})
    assert world.get("root", "settings/list_global").json() == []


def test_the_audit_log_shows_admins_all_and_others_their_own(world: World) -> None:
    world.post("dave", "w/acme/groups/create", {"name": "crew"})

    everything = world.get("alice", "w/acme/audit/list?per_page=100").json()
    own = world.get("dave", "w/acme/audit/list?per_page=100").json()
    created = world.get("alice", "w/acme/audit/list?operation=group.&action_kind=Create").json()

    assert {"alice", "dave"} <= {row["username"] for row in everything}
    assert {row["username"] for row in own} == {"dave"}
    assert [row["operation"] for row in created] == ["group.create"] and created[0][
        "action_kind"
    ] == "Created"
    assert world.get("dave", f"w/acme/audit/get/{everything[-1]['id']}").status_code == 404


def test_page_0_and_page_1_are_the_first_page(world: World) -> None:
    first = world.get("alice", "w/acme/users/list?per_page=2&page=0").json()

    assert [row["username"] for row in first] == ["alice", "dave"]
    assert world.get("alice", "w/acme/users/list?per_page=2&page=1").json() == first
    assert [row["username"] for row in world.get("alice", "w/acme/users/list?per_page=2&page=2").json()] == [
        "oscar"
    ]


def test_unknown_addresses_and_methods_are_text(world: World) -> None:
    missing = world.get("alice", "no/such/route")
    slash = world.get("alice", "users/whoami/")
    method = world.call("alice", "PUT", "users/whoami")
    options = world.call("alice", "OPTIONS", "users/whoami")
    head = world.call("alice", "HEAD", "users/whoami")

    assert missing.status_code == slash.status_code == 404 and "no route" in text_of(missing)
    assert method.status_code == 405 and method["Allow"] == "GET, HEAD, OPTIONS" and "PUT" in text_of(method)
    assert options.status_code == 204 and options["Allow"] == method["Allow"]
    assert head.status_code == 200 and head.content == b""
