"""How a change of a group's configuration is told to people."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.groups import schema
from workers.groups.changes import TITLES, shown
from workers.groups.configs import audited
from workers.groups.schema import FIELDS

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def test_every_field_has_a_title() -> None:
    assert not FIELDS.keys() - TITLES.keys()


def test_of_a_list_what_came_and_went_is_told() -> None:
    change = shown("worker_tags", ["gpu", "big"], ["gpu", "fast"], "live")

    assert (change.title, change.added, change.removed) == ("Tags", ("fast",), ("big",))
    assert change.effect_words == "At once; running jobs go on"


def test_another_order_of_the_same_is_told() -> None:
    change = shown("worker_tags", ["gpu", "big"], ["big", "gpu"], "live")

    assert (change.before, change.after) == ("gpu, big", "big, gpu")


def test_of_names_with_values_each_is_told() -> None:
    change = shown("priority_tags", {"gpu": 1, "big": 2}, {"gpu": 5, "fast": 3}, "live")

    assert (change.added, change.removed, change.changed) == (("fast: 3",), ("big: 2",), ("gpu: 1 → 5",))


def test_of_variables_only_the_names_are_told() -> None:
    before, after = {"A": "s1", "B": "s2", "C": "same"}, {"A": "s3", "C": "same", "D": "s4"}

    change = shown("env_vars_static", before, after, "next job")

    assert (change.added, change.removed, change.changed) == (("D",), ("B",), ("A",))
    assert not [secret for secret in ("s1", "s2", "s3", "s4") if secret in str(change)]


def test_the_history_tells_of_variables_what_the_review_told() -> None:
    before, after = {"A": "s1", "B": "s2", "C": "same"}, {"A": "s3", "C": "same", "D": "s4"}
    (found,) = schema.difference({"env_vars_static": before}, {"env_vars_static": after})
    kept = audited(found)

    assert shown(kept["field"], kept["before"], kept["after"], kept["effect"]) == shown(*found)


def test_of_a_script_the_lines_that_differ_are_told() -> None:
    change = shown("init_bash", "set -e\napt-get update\n", "set -e\necho hi\n", "restart")

    assert change.lines == ((" ", "set -e"), ("-", "apt-get update"), ("+", "echo hi"))


def test_lines_that_look_like_marks_of_a_difference_are_told_as_they_are() -> None:
    change = shown("init_bash", "a\n-- x\n", "a\n++ y\n@@ z", "restart")

    assert change.lines == ((" ", "a"), ("-", "-- x"), ("+", "++ y"), ("+", "@@ z"))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [(None, True, ("not set", "yes")), (True, None, ("yes", "not set")), (60, 90, ("60", "90"))],
)
def test_other_values_are_told_before_and_after(before: Any, after: Any, told: tuple[str, str]) -> None:
    change = shown("native_mode", before, after, "restart")

    assert (change.before, change.after) == told


@given(st.sampled_from([*FIELDS, "a_field_of_tomorrow"]), JSON, JSON)
def test_whatever_somebody_stored_can_be_told(field: str, before: Any, after: Any) -> None:
    assert shown(field, before, after, "none").field == field
