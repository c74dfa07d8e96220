"""The words of the interface: statuses, durations, sizes, times."""

from datetime import timedelta

import pytest
from django.template import Context, Template
from django.utils import timezone

from windmill_site.templatetags import ui


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (None, ""),
        (8, "8 ms"),
        (1234, "1.2 s"),
        (59_999, "59.9 s"),
        (184_000, "3 min 04 s"),
        (7_500_000, "2 h 05 min"),
        (1e9, "11 d 13 h"),
    ],
)
def test_durations_read_at_every_scale(milliseconds: float | None, words: str) -> None:
    assert ui.duration(milliseconds) == words


@pytest.mark.parametrize(
    ("count", "words"), [(None, ""), (0, "0 B"), (1500, "1.5 KB"), (157_286_400, "150 MB")]
)
def test_sizes_read_at_every_scale(count: int | None, words: str) -> None:
    assert ui.byte_size(count) == words


def test_a_status_is_a_word_an_icon_and_a_colour() -> None:
    chip = ui.status("failure")

    assert 'data-status="failure"' in chip and "circle-x" in chip and ">Failed<" in chip


def test_an_unknown_status_is_shown_as_it_is_and_escaped() -> None:
    assert "&lt;b&gt;" in ui.status("<b>") and "<b>" not in ui.status("<b>")


def test_a_moment_is_relative_with_the_exact_time_beside_it() -> None:
    moment = timezone.now() - timedelta(minutes=4, seconds=10)

    shown = ui.ago(moment)

    assert ">4 min ago</time>" in shown and f'title="{moment:%d %b %Y, %H:%M:%S} UTC"' in shown
    assert ui.ago(None) == "never"


def test_the_tags_need_no_load() -> None:
    page = Template('{% icon "play" %}{{ 1024|bytes }} {{ "ines.martin@acme"|initials }}').render(Context())

    assert "#play" in page and page.endswith("1.0 KB IM")
