"""Log lines: one event, one line that begins with its time; what people wrote cannot pass for another."""

import logging

import pytest

from windmill_site.logs import TextFormatter


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("f/ops/report", "f/ops/report"),
        ("größe 😀", "größe 😀"),
        ("x\n2026-01-01 ERROR forged", "x\n    | 2026-01-01 ERROR forged"),
        ("x\rERROR\x1b[2J", "x\\rERROR\\x1b[2J"),
        ("\u2028ERROR\x85", "\\u2028ERROR\\x85"),
    ],
)
def test_text_from_people_stays_inside_its_line(written: str, shown: str) -> None:
    record = logging.LogRecord("jobs.queue", logging.INFO, "", 0, "queued path=%s", (written,), None)

    assert TextFormatter("%(levelname)s %(message)s").format(record) == f"INFO queued path={shown}"


def test_the_console_uses_it() -> None:
    (handler,) = [
        handler for handler in logging.getLogger().handlers if type(handler) is logging.StreamHandler
    ]

    assert isinstance(handler.formatter, TextFormatter)
