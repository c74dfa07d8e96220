"""What a Bash script may rely on."""

from typing import Any

import pytest

from tests.workers.job_runs import Jobs
from workers.runtimes import Limits
from workers.runtimes.bash import positional_args, positional_order


def test_arguments_come_by_position_and_defaults_apply(jobs: Jobs) -> None:
    code = 'name="$1"\ngreeting="${2:-hello}"\nlast="$3"\necho "$greeting $name/$last"'

    assert jobs.bash(code, args={"last": "z", "name": "you"}).result == "hello you/z"


def test_values_that_are_not_text_come_as_json(jobs: Jobs) -> None:
    code = 'a="$1"\nb="$2"\nc="$3"\necho "$a $b $c"'

    assert (
        jobs.bash(code, args={"a": 1.5, "b": {"k": [True, None]}, "c": False}).result
        == '1.5 {"k": [true, null]} false'
    )


def test_an_absent_argument_lets_bash_compute_the_default(jobs: Jobs) -> None:
    assert jobs.bash('day="${1:-$(echo today)}"\necho "$day"').result == "today"


def test_windows_line_endings_are_no_problem(jobs: Jobs) -> None:
    assert jobs.bash('name="$1"\r\necho "hi $name"\r\n', args={"name": "you"}).result == "hi you"


def test_the_order_of_arguments_can_be_given(jobs: Jobs) -> None:
    ran = jobs.bash('echo "$1-$2-$3"', args={"b": "B"}, arg_order=[("a", "x"), ("b", None), ("", None)])

    assert ran.result == "x-B-"


@pytest.mark.parametrize(
    ("code", "order"),
    [
        ("echo none", []),
        ('a="$1"\nb="${2:-x y}"', [("a", None), ("b", "x y")]),
        ("b=$2", [("", None), ("b", None)]),
        ("  a=${1}\n", [("a", None)]),
    ],
)
def test_the_order_is_read_from_the_code(code: str, order: list[Any]) -> None:
    assert positional_order(code) == order


def test_arguments_cannot_smuggle_in_commands_or_zero_bytes(jobs: Jobs) -> None:
    assert positional_args([("a", None)], {"a": "$(id); `id`"}) == ["$(id); `id`"]
    assert jobs.bash('a="$1"\necho "$a"', args={"a": "x'; id; $(id)\0y"}).result == "x'; id; $(id)y"


def test_the_last_line_is_the_result(jobs: Jobs) -> None:
    assert jobs.bash("echo one; echo '{\"two\": 2}'").result == '{"two": 2}'
    assert jobs.bash("printf 'no newline'").result == "no newline"
    assert jobs.bash("true").result is None


def test_result_json_wins_over_result_out_and_the_last_line(jobs: Jobs) -> None:
    assert jobs.bash('echo line; echo text > result.out; echo \'{"b":1,"a":[2]}\' > result.json').result == {
        "b": 1,
        "a": [2],
    }
    assert jobs.bash("echo line; printf 'text\\nmore' > ./result.out").result == "text\nmore"


def test_a_result_file_that_is_not_json_is_refused_with_the_reason(jobs: Jobs) -> None:
    error = jobs.bash("echo '{oops' > result.json").error

    assert error["name"] == "InvalidResult"
    assert error["message"].startswith("./result.json is not valid JSON: Expecting property name")


@pytest.mark.parametrize("trick", ["mkfifo result.json", "ln -s /dev/zero result.json", "mkdir result.json"])
def test_only_a_regular_result_file_counts(jobs: Jobs, trick: str) -> None:
    assert jobs.bash(f"{trick}; echo line").result == "line"


def test_a_result_file_that_is_too_large_is_refused(jobs: Jobs) -> None:
    ran = jobs.bash("head -c 5000 /dev/zero | tr '\\0' 1 > result.json", limits=Limits(result_bytes=1000))

    assert ran.error["name"] == "ResultTooLarge"


def test_the_first_failing_command_ends_the_script(jobs: Jobs) -> None:
    ran = jobs.bash("echo before\n(exit 7)\necho after")

    assert ran.error == {"name": "ExecutionErr", "message": "ExitCode: 7, last log lines:\nbefore"}


def test_line_numbers_in_messages_are_the_authors(jobs: Jobs) -> None:
    assert (
        "main.sh: line 2: no-such-command: command not found" in jobs.bash("# one\nno-such-command").log.text
    )


def test_the_last_lines_of_the_log_are_in_the_error(jobs: Jobs) -> None:
    message = jobs.bash("for i in $(seq 30); do echo line $i; done; echo oops >&2; exit 1").error["message"]

    assert message.splitlines()[0] == "ExitCode: 1, last log lines:"
    assert message.splitlines()[1:] == [f"line {n}" for n in range(22, 31)] + ["oops"]


def test_a_signal_is_named(jobs: Jobs) -> None:
    assert jobs.bash("echo x; kill -SEGV $$").error["message"] == (
        "Job was killed by signal 11 (SIGSEGV), last log lines:\nx"
    )


def test_both_outputs_are_one_log_in_order(jobs: Jobs) -> None:
    assert jobs.bash("echo 1; echo 2 >&2; echo 3; echo 4 > /dev/stderr; echo 5").log.text == "1\n2\n3\n4\n5\n"


def test_args_json_lies_in_the_working_folder(jobs: Jobs) -> None:
    assert jobs.bash("cat args.json", args={"a": "ä"}).result == '{"a": "ä"}'


def test_a_broken_pipe_ends_a_command_silently(jobs: Jobs) -> None:
    assert jobs.bash("set +e; yes | head -1").log.text == "y\n"


def test_a_stream_line_goes_to_the_stream(jobs: Jobs) -> None:
    ran = jobs.bash("echo 'WM_STREAM: a\\nb'; echo done")

    assert (ran.log.streamed, ran.log.text, ran.result) == (["a\nb"], "done\n", "done")


def test_a_file_may_not_grow_beyond_its_limit(jobs: Jobs) -> None:
    ran = jobs.bash("exec head -c 2000000 /dev/zero > big", limits=Limits(file_bytes=1 << 20))

    assert "a file grew beyond 1 MB" in ran.error["message"]
