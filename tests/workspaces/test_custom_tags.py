"""Custom tags: how they are written, and where each may be asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces import custom_tags
from workspaces.custom_tags import CustomTag, parse
from workspaces.errors import BadRequest

NAMES = st.from_regex(r"[\w-]{1,50}", fullmatch=True).filter(str.isascii)


@given(NAMES, st.lists(NAMES, unique=True, max_size=5), st.booleans())
def test_what_is_written_is_read_again(name: str, workspaces: list[str], is_excluding: bool) -> None:
    tag = CustomTag(name=name, workspaces=tuple(workspaces), is_excluding=is_excluding and bool(workspaces))

    assert parse(tag.text) == tag


@given(st.text(max_size=80))
def test_any_text_is_a_tag_or_is_refused_with_the_forms(text: str) -> None:
    try:
        tag = parse(text)
    except BadRequest as exc:
        assert "gpu(acme+umbra)" in exc.message or "longer than 50" in exc.message
    else:
        assert tag.text == text or tag.workspaces, "a workspace named twice is kept once"


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("gpu", {"acme", "umbra", "other"}),
        ("gpu(acme+umbra)", {"acme", "umbra"}),
        ("gpu(acme)", {"acme"}),
        ("gpu(^acme^umbra)", {"other"}),
        ("team-$workspace", {"acme", "umbra", "other"}),
        ("$args[machine.kind]", {"acme", "umbra", "other"}),
        ("acme:f/billing/charge", {"acme", "umbra", "other"}),
    ],
)
def test_a_restriction_says_where_a_tag_may_be_asked_for(text: str, admitted: set[str]) -> None:
    assert {name for name in ("acme", "umbra", "other") if parse(text).admits(name)} == admitted


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "two words",
        "gpu,big",
        "gpu()",
        "gpu(acme",
        "gpu(acme,umbra)",
        "gpu(acme+)",
        "gpu(^)",
        "gpu(acme^umbra)",
        "gpu(^acme+umbra)",
        "$wrkspace",
        "$args[]",
        "$args[a(acme)",
        "x-$args[a](acme)",
        "g" * 51,
        "gpu\n",
    ],
)
def test_a_pattern_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="custom tag"):
        parse(text)


@pytest.mark.parametrize("value", ["gpu", {"gpu": []}, [1], ["gpu", None], 3])
def test_the_setting_is_a_list_of_texts(value: object) -> None:
    with pytest.raises(BadRequest, match="must be a list of texts"):
        custom_tags.parse_all(value)


def test_a_tag_has_one_entry() -> None:
    with pytest.raises(BadRequest, match="gpu is given twice"):
        custom_tags.parse_all(["gpu(acme)", "gpu(umbra)"])


def test_a_restriction_that_cannot_be_read_admits_nobody() -> None:
    tags = custom_tags.parse_known(["big(acme umbra)", "gpu", 7])

    assert [(tag.name, tag.admits("acme")) for tag in tags] == [("big", False), ("gpu", True)]
