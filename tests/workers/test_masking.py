"""Secrets do not show in output, however it is cut into pieces."""

import itertools
import string

from hypothesis import example, given
from hypothesis import strategies as st

from workers.masking import MASK, Masker

LETTERS = st.text(alphabet="abc\n", max_size=40)
SECRETS = st.lists(
    st.text(alphabet="abc\n", min_size=4, max_size=8).map(str.strip).filter(lambda s: len(s) >= 4), max_size=4
)


def mask_in_pieces(secrets: list[str], pieces: list[str]) -> str:
    masker = Masker(secrets)
    return "".join([masker.feed(piece) for piece in pieces]) + masker.end()


@given(secrets=SECRETS, pieces=st.lists(LETTERS, max_size=6))
@example(secrets=["caaa", "aabbb"], pieces=["caaa", "c"])
def test_a_cut_makes_no_difference(secrets: list[str], pieces: list[str]) -> None:
    assert mask_in_pieces(secrets, pieces) == Masker(secrets).mask("".join(pieces))


@given(secrets=SECRETS, before=LETTERS, after=LETTERS, cut=st.integers(min_value=0, max_value=90))
def test_a_secret_never_shows(secrets: list[str], before: str, after: str, cut: int) -> None:
    for secret in secrets:
        text = before + secret + after

        shown = mask_in_pieces(secrets, [text[:cut], text[cut:]])

        assert MASK in shown
        assert not any(other in piece for other in secrets for piece in shown.split(MASK))


def test_harmless_output_is_shown_at_once() -> None:
    masker = Masker(["hunter2"])

    assert masker.feed("progress 50%\n") == "progress 50%\n"
    assert masker.feed("hunt") == ""
    assert masker.feed("ing season\n") == "hunting season\n"


def test_a_secret_is_also_masked_as_json_shows_it() -> None:
    assert Masker(['pa"ss\nword']).mask('{"key": "pa\\"ss\\nword"}') == f'{{"key": "{MASK}"}}'


def test_each_long_line_of_a_key_is_masked() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nab\n-----END KEY-----\n"

    assert Masker([key]).mask("line: MIIEvQIBADANBg, ab") == f"line: {MASK}, ab"


def test_very_short_values_are_left_alone() -> None:
    assert Masker(["a", "no "]).mask("a banana, no less") == "a banana, no less"


LONG = st.text(alphabet="ab", min_size=20, max_size=60)


@given(
    secret=LONG, before=LONG, after=LONG, cuts=st.lists(st.integers(min_value=0, max_value=180), max_size=4)
)
def test_a_long_secret_never_shows_in_text_that_looks_like_it(
    secret: str, before: str, after: str, cuts: list[int]
) -> None:
    text = before + secret + after
    places = [0, *sorted(cuts), len(text)]

    shown = mask_in_pieces([secret], [text[a:b] for a, b in itertools.pairwise(places)])

    assert shown == Masker([secret]).mask(text)
    assert MASK in shown and secret not in shown


def test_secrets_that_overlap_are_hidden_both() -> None:
    assert Masker(["hunter2-and", "and-more"]).mask("is hunter2-and-more") == f"is {MASK}"


class Counted(str):
    """A text that counts how often somebody looks into it: time that no other process can make longer."""

    looks = 0

    def __getitem__(self, where: object) -> str:
        Counted.looks += 1
        return str.__getitem__(self, where)  # type: ignore[index]


def test_secrets_and_text_made_for_it_do_not_keep_the_worker_busy() -> None:
    secrets = ["a" * 4000 + "b" + "a" * 5000 + letter for letter in string.ascii_uppercase]
    masker = Masker(secrets)
    Counted.looks = 0

    masker._possible_beginning(Counted("a" * 65_536))

    assert Counted.looks < 200 * len(
        secrets
    )  # once for each place that looks like the beginning: 4000 times that
