"""The way in: signing in and out, the first password, the choice of a workspace, one's own account and tokens."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.site import PASSWORD, Person, Site
from workspaces import accounts, tokens
from workspaces.models import Account, Token


def fill_sign_in(page: Page, email: str, password: str) -> None:
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_signing_in_leads_back_to_the_page_that_was_asked_for(ada: Person, page: Page) -> None:
    page.goto(ada.url("variables/?q=stripe"))

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    fill_sign_in(page, ada.account.email, PASSWORD)

    expect(page).to_have_url(ada.url("variables/?q=stripe"))


def test_wrong_credentials_say_so_and_keep_the_address_typed(ada: Person, page: Page) -> None:
    page.goto("/login/")
    fill_sign_in(page, ada.account.email, "not the password")

    expect(page.get_by_role("alert")).to_have_text(re.compile("Wrong email or password"))
    expect(page.get_by_label("Email")).to_have_value(ada.account.email)
    expect(page.get_by_label("Password")).to_have_value("")


def test_signing_out_ends_the_session(ada: Person, ada_page: Page) -> None:
    ada_page.goto(ada.url())
    ada_page.get_by_role("button", name="Ada").click()
    ada_page.get_by_role("button", name="Sign out").click()

    expect(ada_page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert not Token.objects.filter(email=ada.account.email, label=tokens.SESSION).exists()


def test_from_elsewhere_the_default_password_is_changed_before_anything_else(ada: Person, page: Page) -> None:
    Account.objects.filter(pk=ada.account.email).update(must_change_password=True)
    page.context.set_extra_http_headers({"X-Forwarded-For": "203.0.113.9"})
    page.goto(ada.url("runs/"))
    fill_sign_in(page, ada.account.email, PASSWORD)

    expect(page.get_by_role("heading", name="Choose a new password")).to_be_visible()
    page.get_by_label(re.compile(r"^New password\*$")).fill("a longer one than before")
    page.get_by_label("New password again").fill("a longer one than before")
    page.get_by_role("button", name="Change password and sign in").click()

    expect(page).to_have_url(ada.url("runs/"))
    assert accounts.check_password(email=ada.account.email, password="a longer one than before")


def test_a_session_from_elsewhere_cannot_go_around_the_default_password(
    ada: Person, page: Page, sign_in: Callable[[Page, Person], None]
) -> None:
    Account.objects.filter(pk=ada.account.email).update(must_change_password=True)
    sign_in(page, ada)
    page.context.set_extra_http_headers({"X-Forwarded-For": "203.0.113.9"})

    page.goto(ada.url("variables/"))

    expect(page).to_have_url(re.compile(r"/account/password/\?next="))


def test_every_page_warns_while_the_default_password_stands(ada: Person, ada_page: Page) -> None:
    Account.objects.filter(pk=ada.account.email).update(must_change_password=True)

    ada_page.goto(ada.url("workers/"))

    notices = ada_page.get_by_role("region", name="Notices")
    expect(notices).to_contain_text("still has the default password")
    notices.get_by_role("link", name="Change it").click()
    expect(ada_page.get_by_role("heading", name="Password")).to_be_visible()


def test_a_new_workspace_suggests_its_id_and_opens(ada: Person, ada_page: Page) -> None:
    ada_page.goto("/workspaces/new/")
    ada_page.get_by_role("textbox", name="Name", exact=True).fill("Ünï Staging 2")
    expect(ada_page.get_by_label("Id")).to_have_value("uni-staging-2")
    ada_page.get_by_label("Id").fill(ada.workspace.id)
    ada_page.get_by_role("button", name="Create workspace").click()
    expect(ada_page.get_by_label("Id")).to_have_attribute("aria-invalid", "true")

    ada_page.get_by_label("Id").fill(f"{ada.workspace.id}-staging")
    ada_page.get_by_role("button", name="Create workspace").click()

    expect(ada_page).to_have_url(f"{ada.site.url}/w/{ada.workspace.id}-staging/")
    expect(ada_page.get_by_role("button", name="switch workspace")).to_contain_text("Ünï Staging 2")


def test_the_start_page_opens_the_workspace_visited_last(ada: Person, ada_page: Page) -> None:
    ada_page.goto(ada.url("workers/"))

    ada_page.goto("/")

    expect(ada_page).to_have_url(ada.url())


def test_somebody_in_no_workspace_is_told_what_to_do(
    ada: Person, member: Callable[..., Person], page: Page, sign_in: Callable[[Page, Person], None]
) -> None:
    from workspaces import workspaces

    bob = member("bob")
    workspaces.remove_member(ada.caller, "bob")
    sign_in(page, bob)

    page.goto("/")

    expect(page.get_by_role("heading", name="No workspace yet")).to_be_visible()
    expect(page.get_by_text(bob.account.email).first).to_be_visible()


def test_a_token_is_shown_once_copied_and_deleted(site: Site, ada: Person, ada_page: Page) -> None:
    ada_page.goto("/account/tokens/")
    ada_page.get_by_label("Label").fill("Deploy from CI")
    ada_page.get_by_label("Scopes").fill("jobs:run:scripts:f/billing/*")
    ada_page.get_by_role("button", name="Create token").click()
    ada_page.get_by_role("button", name="Copy the token").click()
    text = ada_page.evaluate("navigator.clipboard.readText()")
    assert tokens.authenticate(text).scopes == ("jobs:run:scripts:f/billing/*",)

    ada_page.reload()
    assert text not in ada_page.content()
    ada_page.get_by_role("button", name="Delete token Deploy from CI").click()
    ada_page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()

    expect(ada_page.get_by_text("No tokens yet")).to_be_visible()
    assert not Token.objects.filter(token_hash=tokens.hash_token(text)).exists()


def test_a_scope_that_cannot_be_read_is_named_at_its_field(ada: Person, ada_page: Page) -> None:
    ada_page.goto("/account/tokens/")
    ada_page.get_by_label("Label").fill("x")
    ada_page.get_by_label("Scopes").fill("everything")
    ada_page.get_by_role("button", name="Create token").click()

    expect(ada_page.get_by_label("Scopes")).to_have_attribute("aria-invalid", "true")
    expect(ada_page.get_by_text("'everything' is not valid")).to_be_visible()


def test_the_theme_is_remembered_by_the_server(ada: Person, ada_page: Page) -> None:
    ada_page.goto(ada.url())
    ada_page.get_by_role("radio", name="Dark theme").click()
    expect(ada_page.locator("html")).to_have_attribute("data-theme", "dark")

    ada_page.reload()

    expect(ada_page.locator("html")).to_have_attribute("data-theme", "dark")
