"""What a PowerShell script may rely on. Jobs are run where pwsh is there; the rest is tested everywhere."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tree_sitter_powershell
from tree_sitter import Language

from jobs.signatures.syntax_trees import read_tree
from tests.workers.job_runs import Jobs
from workers.runtimes import Execution, ExecutionFailed, Limits, Runtime, look_around, powershell
from workers.sandbox import Ended

needs_pwsh = pytest.mark.skipif(shutil.which("pwsh") is None, reason="PowerShell is not installed")


def ended(exit_code: int = 0, **values: str) -> Ended:
    return Ended(
        exit_code=exit_code,
        peak_kb=1,
        over_memory=False,
        values={kind: text.encode() for kind, text in values.items()},
        overflowed=frozenset(),
        timings={},
    )


def result_of(end: Ended, last_line: str | None = "last", limits: Limits | None = None) -> Any:
    told = powershell.result_of(end, limits or Limits(), last_line=last_line, last_lines="last lines")
    return json.loads(asyncio.run(told))


def test_a_host_without_pwsh_tells_how_to_get_it() -> None:
    absent = replace(powershell.POWERSHELL, programs=("no-such-pwsh",))

    told = look_around(
        [Runtime(languages=("powershell",), make=powershell.PowerShell, tools=(absent,))]
    ).as_json()

    assert told["powershell"]["missing"] == "PowerShell"
    assert "apt install powershell" in told["powershell"]["install"]


def test_the_wrapper_is_valid_powershell() -> None:
    wrapper = Path(powershell.__file__).with_name("powershell_wrapper.ps1").read_text()

    assert read_tree(Language(tree_sitter_powershell.language()), wrapper).root_node.child_count > 0


def test_arguments_are_passed_as_a_file_and_never_on_the_command_line() -> None:
    execution = Execution(
        job_id="j",
        workspace_id="w",
        language="powershell",
        code="param($a)\r\n$a",
        args={"a": "'; Remove-Item *; $(id) é", "_ENTRYPOINT_OVERRIDE": "x"},
        env={"NO_COLOR": "0", "X": "1"},
        script_path="f/ops/report",
    )

    program = powershell.program(execution, "/usr/bin/pwsh")

    assert program.argv == [
        *(
            "/usr/bin/pwsh",
            "-NoLogo",
            "-NoProfile",
            "-NonInteractive",
            "-File",
            "wrapper.ps1",
            "f/ops/report.ps1",
        )
    ]
    assert json.loads(program.files["args.json"]) == {"a": "'; Remove-Item *; $(id) é"}
    assert program.files["f/ops/report.ps1"] == "param($a)\r\n$a"
    assert (program.env["NO_COLOR"], program.env["X"]) == ("0", "1")


def test_result_files_win_over_the_last_object_and_the_last_line() -> None:
    assert result_of(ended(J='{"b":1}', O="text", W="3")) == {"b": 1}
    assert result_of(ended(O="text\nmore", W="3")) == "text\nmore"
    assert result_of(ended(W="3")) == 3
    assert result_of(ended()) == "last"
    assert result_of(ended(), last_line=None) is None


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (
            ended(1, M='{"name": "X", "message": "m", "stack": "s"}', W="3"),
            {"name": "X", "message": "m", "stack": "s"},
        ),
        (ended(3), {"name": "ExecutionErr", "message": "ExitCode: 3, last log lines:\nlast lines"}),
        (
            ended(-9),
            {
                "name": "ExecutionErr",
                "message": "Job was killed by signal 9 (SIGKILL); most often the machine is out of memory (limit of "
                "this job: 2 GB, peak 0 MB), last log lines:\nlast lines",
            },
        ),
    ],
)
def test_failures_are_told(end: Ended, error: dict[str, str]) -> None:
    with pytest.raises(ExecutionFailed) as failed:
        result_of(end)

    assert failed.value.error == error


def test_a_result_file_that_is_not_json_is_refused_with_the_reason() -> None:
    with pytest.raises(ExecutionFailed, match=r"\./result\.json is not valid JSON"):
        result_of(ended(J="{oops"))


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("f/ops/report", "f/ops/report.ps1"),
        (None, "tmp/main.ps1"),
        ("../../etc/x", "etc/x.ps1"),
        ("/", "main.ps1"),
    ],
)
def test_a_script_lies_at_its_path_in_the_jobs_folder(path: str | None, file: str) -> None:
    assert powershell.script_file(path) == file


# --- with PowerShell ---


@needs_pwsh
def test_every_type_of_argument_arrives(jobs: Jobs) -> None:
    code = """param([string]$s, [int]$i, [double]$f, [bool]$b, [switch]$force, [string[]]$l, [datetime]$when,
    [PSCustomObject]$o, [hashtable]$h, [byte[]]$bytes, $plain, $date, [int]$absent = 7, $computed = (1 + 1))
@{ s = $s; i = $i; f = $f; b = $b; force = $force.IsPresent; l = $l; when = $when.Year; o = $o.k.deep; h = $h['k']
   bytes = [Text.Encoding]::UTF8.GetString($bytes); plain = $plain; date = $date; absent = $absent; computed = $computed }
"""
    args: dict[str, Any] = {
        "s": "é'\"$x",
        "i": 3,
        "f": 2.5,
        "b": True,
        "force": True,
        "l": ["x"],
        "when": "2024-05-06T07:08:09Z",
        "o": {"k": {"deep": 1}},
        "h": {"k": 2},
        "bytes": "aGk=",
        "plain": [1, [2]],
        "date": "2024-05-06T07:08:09Z",
        "absent": None,
        "computed": "<function call>",
        "unknown": 1,
    }

    assert jobs("powershell", code, args=args).result == {
        **{key: args[key] for key in ("s", "i", "f", "b", "force", "l", "plain", "date")},
        **{"when": 2024, "o": 1, "h": 2, "bytes": "hi", "absent": 7, "computed": 2},
    }


@needs_pwsh
@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("'one'; 'two'", "two"),
        ("Write-Output 3", 3),
        ("@{ a = @(1, 2.5, $null) }", {"a": [1, 2.5, None]}),
        ("[pscustomobject]@{ a = 1 }; Write-Host 'later'", {"a": 1}),
        ("Write-Host 'only this'", "only this"),
        ("$null", None),
        ("'x'; '{\"b\": 1}' > result.json", {"b": 1}),
        ("'x'; Set-Content -NoNewline result.out 'text'", "text"),
    ],
)
def test_the_last_output_is_the_result(jobs: Jobs, code: str, result: object) -> None:
    assert jobs("powershell", code).result == result


@needs_pwsh
def test_errors_tell_the_authors_lines(jobs: Jobs) -> None:
    thrown = jobs(
        "powershell", "param($x)\r\n\r\nfunction f { throw 'no' }\r\nf\r\n", script_path="f/ops/report"
    ).error
    wrong = jobs("powershell", "param([int]$n)\n$n", args={"n": "three"}).error
    unparsed = jobs("powershell", "$x = 1\nif ( {\n").error

    assert (thrown["name"], thrown["message"]) == ("RuntimeException", "no")
    assert "f/ops/report.ps1: line 3" in thrown["stack"]
    assert "wrapper.ps1" not in thrown["stack"]
    assert "three" in wrong["message"]
    assert unparsed["name"] == "ParseError"
    assert unparsed["message"].startswith("tmp/main.ps1:2:")


@needs_pwsh
def test_exit_codes_and_limits_count(jobs: Jobs) -> None:
    assert jobs("powershell", "'bye'; exit 3").error["message"] == "ExitCode: 3, last log lines:\nbye"
    assert jobs("powershell", "'done'; exit 0").result == "done"
    assert "timed out" in jobs("powershell", "while ($true) { }", timeout_s=3).error["message"]
