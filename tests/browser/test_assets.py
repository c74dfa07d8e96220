"""Variables, resources and their types, folders, groups and people, as somebody at a browser uses them."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.site import Person
from workspaces import folders, resource_types, resources, variables
from workspaces.models import AuditEntry, Member, Resource, Variable

WAREHOUSE = {
    "type": "object",
    "properties": {
        "host": {"type": "string"},
        "port": {"type": "integer"},
        "password": {"type": "string", "password": True},
    },
    "required": ["host"],
}


def test_a_secret_is_created_revealed_on_request_and_never_part_of_the_page(
    ada: Person, ada_page: Page
) -> None:
    folders.create_folder(ada.caller, name="billing")
    ada_page.goto(ada.url("variables/"))
    ada_page.get_by_role("button", name="New variable").click()
    drawer = ada_page.get_by_role("dialog", name="New variable")
    drawer.get_by_label("Owner").select_option("f/billing")
    drawer.get_by_label("Name").fill("stripe/key")
    drawer.get_by_label("Secret").check()
    drawer.get_by_label("Value").fill("sk_live_1234")
    drawer.get_by_role("button", name="Create variable").click()

    expect(ada_page.get_by_role("button", name="f/billing/stripe/key", exact=True)).to_be_visible()
    assert "sk_live_1234" not in ada_page.content()
    ada_page.get_by_role("button", name="Reveal f/billing/stripe/key").click()
    expect(ada_page.get_by_text("sk_live_1234")).to_be_visible()
    read = AuditEntry.objects.filter(workspace_id=ada.workspace.id, operation="variables.decrypt_secret")
    assert read.get().resource == "f/billing/stripe/key"
    ada_page.get_by_role("button", name="Reveal f/billing/stripe/key").click()
    expect(ada_page.get_by_text("sk_live_1234")).to_have_count(0)


def test_a_revealed_secret_hides_by_itself(ada: Person, ada_page: Page) -> None:
    variables.create_variable(ada.caller, path="u/ada/key", value="hide me soon", is_secret=True)
    ada_page.clock.install()
    ada_page.goto(ada.url("variables/"))
    ada_page.get_by_role("button", name="Reveal u/ada/key").click()
    expect(ada_page.get_by_text("hide me soon")).to_be_visible()

    ada_page.clock.run_for(31_000)

    expect(ada_page.get_by_text("hide me soon")).to_have_count(0)


def test_editing_a_secret_without_typing_a_value_keeps_it(ada: Person, ada_page: Page) -> None:
    variables.create_variable(ada.caller, path="u/ada/key", value="kept", is_secret=True)
    ada_page.goto(ada.url("variables/?edit=u/ada/key"))
    drawer = ada_page.get_by_role("dialog", name="Edit u/ada/key")
    expect(drawer.get_by_label("Value")).to_have_value("")
    drawer.get_by_label("Description").fill("Now with a description")
    drawer.get_by_role("button", name="Save variable").click()

    expect(ada_page.get_by_text("Now with a description")).to_be_visible()
    assert variables.get_value(ada.caller, "u/ada/key") == "kept"


def test_what_is_wrong_is_said_at_its_field_and_a_typed_secret_is_not_sent_back(
    ada: Person, ada_page: Page
) -> None:
    variables.create_variable(ada.caller, path="u/ada/taken", value="1", is_secret=False)
    ada_page.goto(ada.url("variables/?new=1"))
    drawer = ada_page.get_by_role("dialog")
    drawer.get_by_label("Name").fill("taken")
    drawer.get_by_label("Secret").check()
    drawer.get_by_label("Value").fill("typed_secret")
    drawer.get_by_role("button", name="Create variable").click()

    expect(drawer.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    expect(drawer.get_by_text("exists already")).to_be_visible()
    expect(drawer.get_by_label("Value")).to_have_value("")


def test_a_variable_is_deleted_after_a_question(ada: Person, ada_page: Page) -> None:
    variables.create_variable(ada.caller, path="u/ada/old", value="1", is_secret=False)
    ada_page.goto(ada.url("variables/"))
    ada_page.get_by_role("button", name="More for u/ada/old").click()
    ada_page.get_by_role("button", name="Delete").click()
    ada_page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()

    expect(ada_page.get_by_text("No variables yet")).to_be_visible()
    assert not Variable.objects.filter(workspace=ada.workspace).exists()


def test_a_resource_is_filled_in_by_the_form_of_its_type_and_keeps_passwords_secret(
    ada: Person, ada_page: Page
) -> None:
    resource_types.create_resource_type(ada.caller, name="c_warehouse", schema=WAREHOUSE)
    ada_page.goto(ada.url("resources/"))
    ada_page.get_by_role("button", name="New resource").click()
    drawer = ada_page.get_by_role("dialog")
    drawer.get_by_label("Name").fill("warehouse")
    drawer.get_by_label("Type").select_option("c_warehouse")
    drawer.get_by_label("host").fill("db.example.com")
    drawer.get_by_label("port").fill("5432")
    drawer.get_by_label("password").fill("hunter2")
    drawer.get_by_role("button", name="Create resource").click()

    expect(ada_page.get_by_role("button", name="u/ada/warehouse", exact=True)).to_be_visible()
    stored = Resource.objects.get(workspace=ada.workspace).value
    assert stored == {"host": "db.example.com", "port": 5432, "password": "$var:u/ada/warehouse_password"}
    assert variables.get_value(ada.caller, "u/ada/warehouse_password") == "hunter2"


def test_editing_a_resource_keeps_what_it_does_not_show(ada: Person, ada_page: Page) -> None:
    resource_types.create_resource_type(ada.caller, name="c_warehouse", schema=WAREHOUSE)
    value = {"host": "old.example.com", "password": "plain_hidden"}
    resources.create_resource(ada.caller, path="u/ada/warehouse", resource_type="c_warehouse", value=value)
    ada_page.goto(ada.url("resources/?edit=u/ada/warehouse"))
    drawer = ada_page.get_by_role("dialog")
    drawer.get_by_label("host").fill("new.example.com")
    assert "plain_hidden" not in ada_page.content()
    drawer.get_by_role("button", name="Save resource").click()

    expect(ada_page.get_by_text("Resource u/ada/warehouse saved")).to_be_visible()
    stored = resources.get_resource(ada.caller, "u/ada/warehouse").value
    assert stored["host"] == "new.example.com"
    assert variables.get_value(ada.caller, stored["password"].removeprefix("$var:")) == "plain_hidden"


def test_a_type_without_fields_takes_json_and_says_where_it_is_wrong(ada: Person, ada_page: Page) -> None:
    resource_types.create_resource_type(ada.caller, name="c_anything", schema=None)
    ada_page.goto(ada.url("resources/?new=1"))
    drawer = ada_page.get_by_role("dialog")
    drawer.get_by_label("Name").fill("thing")
    drawer.get_by_label("Type").select_option("c_anything")
    drawer.get_by_label("Value").fill('{"a": }')
    drawer.get_by_role("button", name="Create resource").click()

    expect(drawer.get_by_text(re.compile("not valid JSON.*line 1, column 7"))).to_be_visible()


def test_rights_on_a_folder_are_given_and_taken(
    ada: Person, member: Callable[..., Person], ada_page: Page
) -> None:
    bob = member("bob")
    folders.create_folder(ada.caller, name="billing")
    ada_page.goto(ada.url("folders/billing/"))
    ada_page.get_by_role("combobox", name="Who").select_option("u/bob")
    ada_page.get_by_role("combobox", name="Right", exact=True).select_option("read")
    ada_page.get_by_role("button", name="Give right").click()
    expect(ada_page.get_by_role("combobox", name="Right of u/bob")).to_have_value("read")
    assert bob.caller.folders_read == ["billing"]
    ada_page.get_by_role("combobox", name="Right of u/bob").select_option("owner")
    expect(ada_page.get_by_role("combobox", name="Right of u/bob")).to_have_value("owner")

    ada_page.get_by_role("button", name="Take the right of u/ada away").click()
    expect(ada_page.get_by_role("combobox", name="Right of u/ada")).to_have_count(0)
    ada_page.get_by_role("button", name="Take the right of u/bob away").click()

    expect(ada_page.get_by_text("must keep an owner")).to_be_visible()
    assert bob.caller.folders_owned == ["billing"]


def test_people_change_roles_and_groups(ada: Person, member: Callable[..., Person], ada_page: Page) -> None:
    bob = member("bob")
    ada_page.goto(ada.url("users/"))
    ada_page.get_by_label("Role of bob").select_option("operator")
    expect(ada_page.get_by_text("bob changed")).to_be_visible()
    assert Member.objects.get(workspace=ada.workspace, username="bob").operator

    ada_page.goto(ada.url("groups/"))
    ada_page.get_by_role("button", name="New group").click()
    ada_page.get_by_role("dialog").get_by_label("Name").fill("finance")
    ada_page.get_by_role("button", name="Create group").click()
    ada_page.get_by_label("Add to finance").select_option("bob")
    ada_page.get_by_role("region", name="g/finance").get_by_role("button", name="Add", exact=True).click()

    expect(ada_page.get_by_role("button", name="Take bob out of finance")).to_be_visible()
    assert "finance" in bob.caller.groups


def test_a_missing_variable_suggests_the_one_that_was_meant(ada: Person, ada_page: Page) -> None:
    variables.create_variable(ada.caller, path="u/ada/stripe_key", value="1", is_secret=False)

    ada_page.goto(ada.url("variables/u/ada/strpe_key/edit/"))

    expect(ada_page.get_by_role("heading", name="There is nothing here")).to_be_visible()
    ada_page.get_by_role("link", name="u/ada/stripe_key").click()
    expect(ada_page.get_by_role("heading", name="Edit u/ada/stripe_key")).to_be_visible()


def test_a_new_folder_opens_at_once(ada: Person, ada_page: Page) -> None:
    ada_page.goto(ada.url("folders/"))
    ada_page.get_by_role("button", name="New folder").click()
    drawer = ada_page.get_by_role("dialog")
    drawer.get_by_label("Name").fill("no good")
    drawer.get_by_role("button", name="Create folder").click()
    expect(drawer.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    drawer.get_by_label("Name").fill("billing")
    drawer.get_by_role("button", name="Create folder").click()

    expect(ada_page.get_by_role("heading", name="f/billing")).to_be_visible()
    ada_page.goto(ada.url("folders/biling/"))
    expect(ada_page.get_by_role("link", name="billing")).to_be_visible()
