"""Django's admin: for superadmins with a full token, through the sign-in of the instance."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from tests.api.conftest import World
from tests.tenancy import token_for
from workspaces.models import Account, AuditEntry, InstanceSetting, Token, Workspace


def browser(token: str) -> Client:
    client = Client()
    client.cookies["token"] = token
    return client


@pytest.fixture
def root(world: World) -> Client:
    return browser(world.tokens["root"])


def pages() -> list[str]:
    return [
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for model in admin.site._registry
        if model._meta.app_label == "workspaces"
    ]


def test_the_signed_out_are_sent_to_the_sign_in_page_and_back(world: World) -> None:
    answer = Client().get("/admin/workspaces/account/", follow=True)

    assert answer.redirect_chain[-1][0] == "/login/?next=%2Fadmin%2Fworkspaces%2Faccount%2F"


@pytest.mark.parametrize(
    "limits", [{"scopes": ["users:read"]}, {"read_only": True}, {"workspace_id": "acme"}]
)
def test_a_limited_token_of_a_superadmin_does_not_open_it(limits: dict[str, Any], world: World) -> None:
    client = browser(token_for("root@example.com", **limits))

    assert client.get("/admin/", follow=True).status_code == 403


def test_a_workspace_admin_does_not_get_in(world: World) -> None:
    assert browser(world.tokens["alice"]).get("/admin/", follow=True).status_code == 403


def test_every_list_and_every_row_opens_without_secrets(root: Client, world: World) -> None:
    InstanceSetting.objects.create(pk="base_url", value="https://example.com")
    for page in pages():
        listed = root.get(page)
        assert listed.status_code == 200, page
        assert "script-src 'self'" in listed["Content-Security-Policy"]
        for text in (b"TOPSECRET", b"onclick=", b"<style", b"style="):
            assert text not in listed.content, f"{page} holds {text!r}"
        model = page.rstrip("/").rsplit("/", 1)[1]
        for row in next(m for m in admin.site._registry if m._meta.model_name == model).objects.all()[:3]:
            shown = root.get(reverse(f"admin:workspaces_{model}_change", args=[row.pk]))
            assert shown.status_code == 200, f"{page} {row}"
            # The hash of a token is its key in addresses; as a value it is shown nowhere.
            visible = re.sub(r"<[^>]*>", "", shown.content.decode())
            assert model != "token" or row.token_hash not in visible
            assert b"pbkdf2" not in shown.content


def act(client: Client, model: str, action: str, *keys: str) -> str:
    answer = client.post(
        reverse(f"admin:workspaces_{model}_changelist"),
        {"action": action, "_selected_action": keys},
        follow=True,
    )
    assert answer.status_code == 200
    return answer.content.decode()


def test_workspaces_are_archived_and_opened_again(root: Client) -> None:
    assert "1 archived" in act(root, "workspace", "archive", "other")
    assert Workspace.objects.get(pk="other").deleted
    assert "1 opened again" in act(root, "workspace", "unarchive", "other")
    assert AuditEntry.objects.filter(operation="workspaces.unarchive", email="root@example.com").exists()


def test_the_last_superadmin_cannot_be_disabled_but_others_can(root: Client) -> None:
    page = act(root, "account", "disable", "root@example.com", "dave@example.com")

    assert "last superadmin" in page and "1 disabled" in page
    assert list(Account.objects.filter(disabled=True).values_list("email", flat=True)) == ["dave@example.com"]


def test_tokens_are_revoked(root: Client, world: World) -> None:
    token = Token.objects.get(token_prefix=world.tokens["dave"][:10])

    assert "1 revoked" in act(root, "token", "revoke", token.pk)
    assert world.get("dave", "users/whoami").status_code == 401


def test_settings_are_written_through_the_domain(root: Client) -> None:
    root.post("/admin/workspaces/instancesetting/add/", {"name": "base_url", "value": '"https://x.example"'})
    wrong = root.post(
        "/admin/workspaces/instancesetting/add/", {"name": "base_url2!", "value": "1"}, follow=True
    ).content.decode()

    assert InstanceSetting.objects.get(pk="base_url").value == "https://x.example"
    assert "Not saved" in wrong and InstanceSetting.objects.count() == 1


def test_nothing_is_added_or_deleted_by_hand(root: Client) -> None:
    assert root.get("/admin/workspaces/account/add/").status_code == 403
    assert root.post("/admin/workspaces/auditentry/1/delete/", {"post": "yes"}).status_code in (403, 302)
    assert AuditEntry.objects.exists()


def test_djangos_own_groups_are_not_offered(root: Client) -> None:
    assert "Authentication and Authorization" not in root.get("/admin/").content.decode()


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"]
)
def test_the_way_back_after_sign_in_leads_nowhere_else(elsewhere: str, root: Client) -> None:
    assert root.get("/admin/login/", {"next": elsewhere})["Location"] == "/admin/"
    assert "evil" not in Client().get("/admin/login/", {"next": elsewhere})["Location"]
    assert root.get("/admin/login/", {"next": "/admin/jobs/"})["Location"] == "/admin/jobs/"
