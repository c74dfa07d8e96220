"""$var: and $res: in values, and the secrets behind them."""

from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from tests.workspaces.conftest import People
from workspaces import references, resources, secrets, variables
from workspaces.access import Caller
from workspaces.errors import BadRequest, NotFound
from workspaces.models import AuditEntry, Variable, WorkspaceKey


def put(caller: Caller, name: str, value: Any) -> None:
    resources.create_resource(
        caller, path=f"u/{caller.username}/{name}", value=value, resource_type="any", update_if_exists=True
    )


def hide(caller: Caller, name: str, value: str) -> None:
    variables.create_variable(caller, path=f"u/{caller.username}/{name}", value=value, is_secret=True)


def test_references_are_replaced_anywhere_and_the_secrets_told(people: People) -> None:
    hide(people.dev, "key", "s3cret")
    put(people.dev, "db", {"host": "h", "password": "$var:u/dan/key"})
    given_value = {"a": ["$res:u/dan/db", {"b": "var://u/dan/key"}], "c": "text $var:u/dan/key", "d": None}

    value, told = references.interpolate(given_value, caller=people.dev)

    db = {"host": "h", "password": "s3cret"}
    assert value == {"a": [db, {"b": "s3cret"}], "c": "text $var:u/dan/key", "d": None}
    assert told == ["s3cret"]
    assert given_value["a"][0] == "$res:u/dan/db", "the value that was given stays as it was"


def test_plain_values_are_no_secrets(people: People) -> None:
    variables.create_variable(people.dev, path="u/dan/plain", value="seen", is_secret=False)

    assert references.interpolate("$var:u/dan/plain", caller=people.dev) == ("seen", [])
    assert not AuditEntry.objects.filter(operation="variables.decrypt_secret").exists()


def test_each_secret_is_read_once_and_recorded(people: People) -> None:
    hide(people.dev, "key", "s3cret")

    references.interpolate(["$var:u/dan/key"] * 5, caller=people.dev)

    assert AuditEntry.objects.filter(operation="variables.decrypt_secret", username="dan").count() == 1


def test_what_the_caller_may_not_read_is_missing_even_through_something_they_may(people: People) -> None:
    hide(people.admin, "key", "s3cret")
    put(people.dev, "mine", {"stolen": "$var:u/ann/key"})

    with pytest.raises(NotFound, match=r"u/ann/key.*named by u/dan/mine"):
        references.interpolate("$res:u/dan/mine", caller=people.dev)


def test_circles_are_refused_with_the_way_round(people: People) -> None:
    put(people.dev, "a", {"next": "$res:u/dan/b"})
    put(people.dev, "b", ["$res:u/dan/a"])

    with pytest.raises(BadRequest, match="u/dan/a -> u/dan/b -> u/dan/a"):
        references.interpolate("$res:u/dan/a", caller=people.dev)


def test_a_long_chain_and_a_growing_one_are_refused(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(25):
        put(people.dev, f"r{i}", [f"$res:u/dan/r{i + 1}"])
    with pytest.raises(BadRequest, match="more than 20 deep"):
        references.interpolate("$res:u/dan/r0", caller=people.dev)

    monkeypatch.setattr(references, "MAX_CHARACTERS", 100_000)
    put(people.dev, "b0", "x" * 100)
    for i in range(1, 6):
        put(people.dev, f"b{i}", [f"$res:u/dan/b{i - 1}"] * 10)
    with pytest.raises(BadRequest, match="exceeds"):
        references.interpolate("$res:u/dan/b5", caller=people.dev)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text().filter(lambda text: not text.startswith(("$var:", "$res:"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(json_values)
def test_values_without_references_stay_the_same_and_cost_nothing(value: Any) -> None:
    no_caller: Any = None
    if not references.has_references(value):
        assert references.interpolate(value, caller=no_caller) == (value, [])


def test_the_table_holds_ciphertext_and_each_workspace_has_a_key_of_its_own(people: People) -> None:
    hide(people.dev, "key", "s3cret")

    stored = Variable.objects.get(path="u/dan/key").value
    assert "s3cret" not in stored and secrets.decrypt("acme", stored) == "s3cret"
    assert WorkspaceKey.objects.get(workspace_id="acme").key != ""


def test_another_instance_key_says_what_to_do(people: People) -> None:
    hide(people.dev, "key", "s3cret")

    with (
        override_settings(ENCRYPTION_KEY="another key altogether"),
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(secrets.CannotDecrypt, match="ENCRYPTION_KEY"),
    ):
        patch.setattr(secrets, "_keys", {})
        variables.get_value(people.dev, "u/dan/key")


def test_a_secret_that_becomes_plain_is_decrypted_and_back(people: People) -> None:
    hide(people.dev, "key", "s3cret")

    variables.update_variable(people.dev, "u/dan/key", is_secret=False)
    assert Variable.objects.get(path="u/dan/key").value == "s3cret"
    variables.update_variable(people.dev, "u/dan/key", is_secret=True)
    assert "s3cret" not in Variable.objects.get(path="u/dan/key").value
    assert variables.get_value(people.dev, "u/dan/key") == "s3cret"
