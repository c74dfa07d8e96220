"""Limits and network as instance, worker group and script ask for them, through a worker to the job."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.limits import NOTHING, AskedLimits
from jobs.models import CompletedJob, LogChunk, WorkerPing
from workers.groups.schema import GroupConfig
from workers.job_limits import limits_of, without_network_namespaces
from workers.pg_runtimes import PgRuntimeStore
from workers.runtimes import Available, ExecutionFailed, Limits, look_around
from workers.sandbox_runner import SandboxRunner
from workspaces.job_limits import limits_from_json
from workspaces.models import InstanceSetting

MB = 1 << 20
ULIMITS = "echo $(ulimit -n) $(stat -f -c '%b*%S' /tmp)"


@pytest.fixture(scope="module")
def available() -> Available:
    return look_around()


@pytest.fixture
def start(start_worker: Callable[..., Any], tmp_path: Path, available: Available) -> Callable[..., Any]:
    def start(*, group: GroupConfig | None = None, tags: list[str] | None = None, **given: Any) -> Any:
        options = {"policy": "warn", "limits": Limits(disk_bytes=64 * MB), "warm": 1, **given}
        runner = SandboxRunner(
            folder=tmp_path / "jobs",
            cache_dir=tmp_path / "cache",
            cache_max_bytes=1 << 30,
            available=available,
            store=PgRuntimeStore({}),
            hidden_paths=[],
            **options,
        )
        return start_worker(runner=runner, tags=tags or ["bash"], config=group or GroupConfig())

    return start


@pytest.fixture
def run(make_job: Callable[..., Any], wait_until: Callable[..., Any]) -> Callable[..., CompletedJob]:
    def run(code: str, *, language: str = "bash") -> CompletedJob:
        job = make_job(raw_code=code, language=language, tag=language)
        return wait_until(lambda: CompletedJob.objects.filter(pk=job).first(), timeout_s=30)

    return run


def test_a_script_says_its_limits_in_comments(start: Any, run: Any) -> None:
    start()

    job = run(f"# limits: open_files=99 disk=4MB\n{ULIMITS}")

    assert job.result == "99 1024*4096"


def test_the_smallest_of_instance_group_and_script_counts(
    start: Any, run: Any, transactional_db: None
) -> None:
    InstanceSetting.objects.create(name="job_limits", value={"open_files": 300, "disk_mb": 8})
    start(group=GroupConfig(job_limits=limits_from_json({"open_files": 200, "disk_mb": 16})))

    alone = run(ULIMITS)
    less = run(f"# limits: open_files=100 disk=2MB\n{ULIMITS}")
    more = run(f"# limits: open_files=1000 disk=1GB\n{ULIMITS}")

    assert [job.result for job in (alone, less, more)] == ["200 2048*4096", "100 512*4096", "200 2048*4096"]


def test_a_line_that_cannot_be_understood_fails_the_job_before_it_runs(start: Any, run: Any) -> None:
    start()

    job = run("#!/bin/bash\n# limits: ram=1GB\necho unreached")

    assert job.result["error"]["name"] == "WrongHeader"
    assert "line 2, limits: there is no limit 'ram'; known are memory, cpus" in job.result["error"]["message"]


@pytest.mark.parametrize("asks", ["script", "group"])
def test_a_job_without_network_has_its_own_loopback_only(start: Any, run: Any, asks: str) -> None:
    start(group=GroupConfig(network="none" if asks == "group" else ""))
    code = "# network: none\n" if asks == "script" else ""

    job = run(code + "echo $(ls /proc/self/net/dev_snmp6) $(tail -n +3 /proc/net/dev | cut -d: -f1)")

    assert job.result == "lo lo"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-- network: none", "line 1: network: none cannot be kept for postgresql"),
        ("-- limits: memory=64MB", "line 1: limits"),
    ],
)
def test_what_the_worker_itself_sends_to_a_server_cannot_be_limited(
    start: Any, run: Any, line: str, told: str
) -> None:
    start(tags=["postgresql"])

    job = run(f"{line}\nSELECT 1", language="postgresql")

    assert job.result["error"]["message"].startswith(told)


def test_sql_in_a_group_without_network_is_told_so(start: Any, run: Any) -> None:
    start(tags=["postgresql"], group=GroupConfig(network="none"))

    job = run("SELECT 1", language="postgresql")

    assert job.result["error"]["message"].startswith("Jobs of this worker group have no network")


def test_an_ai_agent_in_a_group_without_network_is_told_so(
    start: Any, make_job: Any, wait_until: Any
) -> None:
    start(tags=["aiagent"], group=GroupConfig(network="none"))

    agent = make_job(kind="aiagent", language=None, raw_code=None, tag="aiagent")

    job = wait_until(lambda: CompletedJob.objects.filter(pk=agent).first(), timeout_s=30)
    assert "an AI agent is nothing without" in job.result["error"]["message"]


def test_where_the_network_cannot_be_taken_away_the_policy_decides() -> None:
    assert "it has the machine's" in without_network_namespaces("warn")
    with pytest.raises(ExecutionFailed, match="this machine cannot take it away"):
        without_network_namespaces("refuse")


ASKED = st.builds(
    AskedLimits,
    memory_bytes=st.none() | st.integers(1, 1 << 40),
    cpus=st.none() | st.floats(0.01, 64),
    open_files=st.none() | st.integers(16, 5000),
    output_bytes=st.none() | st.integers(1024, 1 << 30),
)


@given(st.lists(ASKED, max_size=4))
def test_nobody_can_ask_for_more_than_the_worker_gives(asked: list[AskedLimits]) -> None:
    base = Limits(memory_bytes=1 << 30)

    limits = limits_of(base, asked)

    for name in ("memory_bytes", "open_files", "output_bytes"):
        said = [value for one in asked if (value := getattr(one, name)) is not None]
        assert getattr(limits, name) == min([getattr(base, name), *said])
    assert limits.cpus == min([one.cpus for one in asked if one.cpus is not None], default=None)
    assert limits_of(base, [NOTHING]) is base
    assert replace(limits, memory_bytes=0, cpus=None, open_files=0, output_bytes=0) == replace(
        base, memory_bytes=0, cpus=None, open_files=0, output_bytes=0
    )


def test_a_worker_holds_jobs_to_its_variables_and_leaves_no_control_group(
    start_process: Any, run: Any, transactional_db: None
) -> None:
    process = start_process(
        JOB_MEMORY_LIMIT_MB="64", JOB_CPU_LIMIT="1", JOB_OPEN_FILES_LIMIT="77", JOB_DISK_LIMIT_MB="16"
    )
    note = WorkerPing.objects.get(state="running").isolation_note

    fat = run("x=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 60")
    told = run(ULIMITS)

    assert fat.result["error"]["message"].startswith("Job used more than its 64 MB of memory (peak ")
    assert told.result == "77 4096*4096"
    assert "Memory is " in note
    log = "".join(LogChunk.objects.filter(job_id=told.pk).values_list("logs", flat=True))
    assert (", cpu)" in note) is not ("the limit of 1 CPUs is not kept" in log)

    made = _control_groups_of(process.pid)
    assert bool(made) is ("control groups (version" in note)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert not any(folder.exists() for folder in made)


def _control_groups_of(worker: int) -> set[Path]:
    """Those that it has made, on which it holds locks."""
    opened = (os.readlink(one) for one in Path(f"/proc/{worker}/fd").iterdir())
    return {Path(path) for path in opened if "/windmill-jobs-" in path}
