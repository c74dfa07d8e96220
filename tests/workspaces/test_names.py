"""What names and paths may look like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces import names
from workspaces.errors import BadRequest


@pytest.mark.parametrize(
    "path", ["u/alice/report", "f/billing/2024/charge-all", "g/team/x.y", "u/a@b.org/x", "f/A_1/x"]
)
def test_well_formed_paths_are_taken_apart(path: str) -> None:
    kind, owner, name = names.parse_path(path)

    assert f"{kind}/{owner}/{name}" == path


@pytest.mark.parametrize(
    "path",
    ["", "u", "u/alice", "x/alice/y", "u//y", "u/alice/", "u/alice/../x", "u/alice/..", "f/a-b/x", "f/a/x y", "/u/a/b",
     "f/a/x\n", "f/a/é", "f/a/x\x00", "f/a/" + "x" * 255, "u/alice/x/edit", "f/a/run", "f/а/x"],
)  # fmt: skip
def test_other_paths_are_refused_with_an_example_of_a_good_one(path: str) -> None:
    with pytest.raises(BadRequest, match="f/billing/charge"):
        names.check_path(path)


@given(st.text(max_size=300))
def test_whatever_passes_as_a_path_is_plain_and_stays_inside_its_folder(text: str) -> None:
    try:
        names.check_path(text)
    except BadRequest as refused:
        assert refused.message.isprintable()
        return
    assert text.isascii() and ".." not in text.split("/") and "//" not in text and len(text) <= 255


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (
            names.check_workspace_id,
            ["acme", "a-b-c", "x_1"],
            ["", "-a", "a-", "a--b", "a b", "a/b", "é", "x" * 51, "a\n"],
        ),
        (names.check_username, ["alice", "_a-1"], ["", "1a", "a.b", "a@b", "-a", "x" * 51, "a\n"]),
        (names.check_folder_name, ["billing", "A_1"], ["", "a-b", "a/b", "a.b", "x" * 51]),
        (names.check_resource_type_name, ["postgresql", "c_my-type"], ["", "a b", "a/b", "a.b"]),
        (names.check_owner, ["u/alice", "g/team"], ["alice", "f/x", "u/", "u/a/b", "g/ x"]),
        (
            names.check_email,
            ["a@b.org", "a+b@c"],
            ["", "a", "a@", "@b", "a b@c", "a@b/c", "a\x00@b", "x" * 255 + "@b"],
        ),
    ],
)
def test_names_of_each_kind(check: object, good: list[str], bad: list[str]) -> None:
    for name in good:
        assert check(name) == name  # type: ignore[operator]
    for name in [*bad, None, 1, ["a"]]:
        with pytest.raises(BadRequest):
            check(name)  # type: ignore[operator]


def test_emails_are_compared_in_lower_case() -> None:
    assert names.check_email("Ada@Example.ORG") == "ada@example.org"
