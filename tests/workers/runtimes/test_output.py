"""A job's output on its way to the log."""

import itertools
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.job_runs import Jobs, Log
from workers.runtimes import Limits
from workers.runtimes.output import OutputPump


def pumped(*pieces: bytes, limits: Limits | None = None) -> tuple[Log, OutputPump]:
    log = Log()
    pump = OutputPump(log, limits or Limits())
    for piece in pieces:
        pump.feed(piece)
    pump.close()
    return log, pump


def test_a_character_cut_in_two_arrives_whole() -> None:
    euro = "€".encode()

    assert pumped(b"a" + euro[:1], euro[1:] + b"b")[0].text == "a€b"


def test_binary_rubbish_is_replaced_and_nul_left_out() -> None:
    assert pumped(b"\xff\xfea\0b\xc3")[0].text == "\ufffd\ufffdab\ufffd"


def test_text_is_passed_on_at_once_unless_it_may_begin_a_stream_line() -> None:
    log = Log()
    pump = OutputPump(log, Limits())

    pump.feed(b"progress 10%")
    assert log.text == "progress 10%"
    pump.feed(b"\nWM_ST")
    assert log.text == "progress 10%\n"
    pump.feed(b"ARTED\n")
    assert log.text == "progress 10%\nWM_STARTED\n"


def test_the_log_ends_at_its_limit_with_one_line_and_the_last_line_is_still_known() -> None:
    log, pump = pumped(*[b"0123456789\n"] * 1000, b"the end\n", limits=Limits(output_bytes=100))

    assert log.text.startswith("0123456789\n" * 9)
    assert log.text.count("reached its limit of 100 bytes") == 1
    assert len(log.text) < 250
    assert pump.last_line == "the end"


def test_output_of_exactly_the_limit_is_complete_without_a_note() -> None:
    assert pumped(b"x" * 100, limits=Limits(output_bytes=100))[0].text == "x" * 100


def test_a_line_of_a_hundred_megabytes_costs_no_memory() -> None:
    class Nowhere:
        def write(self, text: str) -> None: ...

        def stream(self, text: str) -> None: ...

    pump = OutputPump(Nowhere(), Limits(output_bytes=1 << 30))
    piece = b"x" * 65_536
    tracemalloc.start()
    for _ in range(1600):
        pump.feed(piece)
    pump.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 4 << 20


@given(
    st.lists(
        st.sampled_from(
            ["WM_STREAM: a", "WM_STREAM:", "W", "x", "", "WM_STREAM: b\\nc", "é", " WM_STREAM: z"]
        ),
        max_size=8,
    ),
    st.lists(st.integers(0, 120), max_size=8),
    st.booleans(),
)
def test_streams_are_found_however_the_output_is_cut(lines: list[str], cuts: list[int], ends: bool) -> None:
    data = ("\n".join(lines) + ("\n" if ends and lines else "")).encode()
    marks = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
    log, _ = pumped(*[data[a:b] for a, b in itertools.pairwise(marks)])

    streams = [line for line in lines if line.startswith("WM_STREAM: ")]
    assert log.streamed == [line.removeprefix("WM_STREAM: ").replace("\\n", "\n") for line in streams]
    others = [line for line in lines if not line.startswith("WM_STREAM: ")]
    assert log.text.split("\n")[: len(others)] == others or log.text.rstrip("\n") == "\n".join(others).rstrip(
        "\n"
    )


@pytest.mark.parametrize("language", ["python3", "bash"])
def test_a_job_that_floods_its_log_ends_well(jobs: Jobs, language: str) -> None:
    codes = {
        "python3": "def main():\n    for _ in range(40):\n        print('x' * 1_000_000)\n    return 'done'",
        "bash": "head -c 40000000 /dev/zero | tr '\\0' 'x'; echo; echo done",
    }

    ran = jobs(language, codes[language], limits=Limits(output_bytes=10_000))

    assert ran.result == "done"
    assert len(ran.log.text) < 10_300


@pytest.mark.parametrize("text", ["W\n" * 30_000, "\nWM_STREAM" * 6000, "WM_STREAM:" * 6000, "\n" * 60_000])
def test_output_that_looks_like_streams_costs_no_more_than_other_output(text: str) -> None:
    steps = 0

    def count(frame: object, event: str, argument: object) -> object:
        nonlocal steps
        steps += 1
        return count

    pump = OutputPump(Log(), Limits())
    before = sys.gettrace()
    sys.settrace(count)
    try:
        pump.feed(text.encode())
    finally:
        sys.settrace(before)

    assert steps < 200  # lines of Python, not one or more for each line of the text
