"""Tools run like jobs: in a sandbox, with a folder of the cache to write, their words in the log of the job."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.workers.job_runs import Jobs, Log
from workers.runtimes import ExecutionFailed, Site
from workers.runtimes.tool_runs import OUTPUT_BYTES, ToolEnded, run_tool
from workers.sandbox import Limits


@dataclass(frozen=True)
class Tools:
    """Runs Bash scripts as tools."""

    jobs: Jobs
    site: Site

    def __call__(self, script: str, **options: Any) -> ToolEnded:
        return self.jobs.runner.run(run_tool(self.site, ["bash", "-c", script], **options))


@pytest.fixture
def tools(jobs: Jobs) -> Tools:
    return Tools(jobs, jobs.site)


def test_a_tool_gets_files_and_hands_back_others(tools: Tools) -> None:
    ended = tools(
        "tr a-z A-Z < in/put.txt > lock; echo told; exit 3",
        files={"in/put.txt": "requirement"},
        result_files={"L": "lock", "M": "missing"},
    )

    assert ended == ToolEnded(exit_code=3, output="told\n", values={"L": b"REQUIREMENT"})


def test_it_fills_a_folder_of_the_cache(tools: Tools) -> None:
    folder = tools.site.cache_dir / "filled"
    folder.mkdir()

    ended = tools(f"echo installed > {folder}/package", writable=[folder])

    assert ended.exit_code == 0
    assert (folder / "package").read_text() == "installed\n"


def test_it_sees_only_the_environment_it_was_given(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_SECRET", "the-workers-secret")

    told = tools("env", env={"UV_INDEX_URL": "https://packages.example"}).output

    assert "UV_INDEX_URL=https://packages.example" in told and "the-workers-secret" not in told


def test_what_it_prints_goes_to_the_log_and_never_to_the_result_stream(tools: Tools) -> None:
    log = Log()

    ended = tools("echo one; echo 'WM_STREAM: two'; echo three >&2", log=log)

    assert log.text == ended.output == "one\nWM_STREAM: two\nthree\n"
    assert log.streamed == []


def test_of_much_output_the_end_is_kept(tools: Tools) -> None:
    ended = tools("head -c 900000 /dev/zero | tr '\\0' x; echo; echo the end")

    assert len(ended.output) == OUTPUT_BYTES and ended.output.endswith("x\nthe end\n")


def test_one_that_takes_too_long_is_stopped_and_named(tools: Tools) -> None:
    with pytest.raises(ExecutionFailed) as failed:
        tools("echo resolving; sleep 60", timeout_s=0.3)

    assert failed.value.error == {
        "name": "ToolTimedOut",
        "message": "bash took longer than 0.3 seconds and was stopped, last log lines:\nresolving",
    }


def test_one_that_is_killed_is_named(tools: Tools) -> None:
    with pytest.raises(
        ExecutionFailed,
        match=r"^bash: Job used more than its 50 MB of memory \(peak \d+ MB\) and was stopped",
    ):
        tools("head -c 200000000 /dev/zero > /tmp/big; sleep 60", limits=Limits(memory_bytes=50 << 20))


def test_a_program_that_is_not_there_is_an_exit_code_with_a_reason(tools: Tools) -> None:
    ended = tools.jobs.runner.run(run_tool(tools.site, [Path("/nowhere/uv"), "pip"]))

    assert (ended.exit_code, ended.output) == (127, "cannot run /nowhere/uv: No such file or directory\n")
