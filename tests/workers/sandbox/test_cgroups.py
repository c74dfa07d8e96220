"""Control groups: where a process is, what is made below it, and that nothing of it stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers.job_runs import Jobs
from workers.sandbox.cgroups import Group, GroupLimits, Groups, NoGroups, Place, find_place, own_place

MB = 1 << 20
LIMITS = GroupLimits(memory_bytes=256 * MB, processes=50, cpus=1.5)


@pytest.fixture
def place() -> Place:
    """Where the tests themselves are, if it is of use."""
    try:
        found = own_place()
        Groups(found, LIMITS).close()
    except NoGroups as no_groups:
        pytest.skip(str(no_groups))
    return found


def made_by_us(place: Place) -> set[str]:
    return {path.name for folder in place.folders.values() for path in folder.glob("windmill-jobs-*")}


# --- finding them; texts as kernels write them ---


def folders(tmp_path: Path, *names: str) -> None:
    for name in names:
        (tmp_path / name).mkdir(parents=True)


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    folders(tmp_path, "memory/work", "cpu/a", "pids")
    mountinfo = (
        f"30 24 0:26 / {tmp_path}/memory rw,nosuid - cgroup cgroup rw,memory\n"
        f"31 24 0:27 / {tmp_path}/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        f"32 24 0:28 / {tmp_path}/pids rw - cgroup cgroup rw,pids\n"
        "33 24 0:29 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
    )

    place = find_place(mountinfo, "5:pids:/\n4:memory:/work\n2:cpu,cpuacct:/a\n1:freezer:/\n0::/\n")

    assert place.version == 1
    assert place.folders == {
        "memory": tmp_path / "memory/work",
        "pids": tmp_path / "pids",
        "cpu": tmp_path / "cpu/a",
    }


def test_version_2_counts_when_it_has_the_memory_controller(tmp_path: Path) -> None:
    folders(tmp_path, "unified/user", "memory")
    mountinfo = (
        f"30 24 0:26 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n"
        f"31 24 0:27 / {tmp_path}/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
    )
    own = "4:memory:/\n0::/user\n"

    (tmp_path / "unified/user/cgroup.controllers").write_text("cpu\n")
    assert find_place(mountinfo, own).version == 1
    (tmp_path / "unified/user/cgroup.controllers").write_text("cpu memory pids\n")
    assert find_place(mountinfo, own).version == 2


def test_in_a_container_the_path_begins_where_the_mount_does(tmp_path: Path) -> None:
    folders(tmp_path, "odd name/inner")
    escaped = str(tmp_path / "odd name").replace(" ", "\\040")
    mountinfo = f"30 24 0:26 /docker/abc {escaped} rw - cgroup cgroup rw,memory\n"

    place = find_place(mountinfo, "4:memory:/docker/abc/inner\n")

    assert place.folders == {"memory": tmp_path / "odd name/inner"}


@pytest.mark.parametrize(
    "own", ["4:memory:/docker/other\n", "4:memory:/../outside\n", "4:memory:/docker/abc/gone\n"]
)
def test_a_group_that_cannot_be_seen_is_none(tmp_path: Path, own: str) -> None:
    mountinfo = f"30 24 0:26 /docker/abc {tmp_path} rw - cgroup cgroup rw,memory\n"

    with pytest.raises(NoGroups):
        find_place(mountinfo, own)


def test_it_is_told_why_there_are_none() -> None:
    with pytest.raises(NoGroups, match="no memory controller is mounted"):
        find_place("30 24 0:26 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n", "1:freezer:/\n")
    with pytest.raises(NoGroups, match="/proc/1/nowhere is read-only to this worker"):
        find_place("30 24 0:26 / /proc/1/nowhere rw - cgroup cgroup rw,memory\n", "1:memory:/\n")


# --- version 2, on a tree of ordinary files: what is written where ---


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A group of version 2 that holds this process, as far as files can say so."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    (tmp_path / "cgroup.procs").write_text("")
    return tmp_path


def job_folder(folder: Path) -> Path:
    folder.mkdir()
    for name in (
        "cgroup.procs",
        "memory.max",
        "memory.swap.max",
        "memory.oom.group",
        "memory.events",
        "pids.max",
        "cpu.max",
    ):
        (folder / name).write_text("")
    return folder


def test_a_group_of_version_2_is_limited_as_a_whole(tree: Path) -> None:
    folder = job_folder(tree / "job-1")

    group = Group(2, dict.fromkeys(("memory", "pids", "cpu"), folder), LIMITS)

    said = {
        name: (folder / name).read_text() for name in ("memory.max", "memory.swap.max", "memory.oom.group")
    }
    assert said == {"memory.max": str(256 * MB), "memory.swap.max": "0", "memory.oom.group": "1"}
    assert (folder / "pids.max").read_text() == "50"
    assert (folder / "cpu.max").read_text() == "150000 100000"
    with group.opened() as fds:
        assert [Path(os.readlink(f"/proc/self/fd/{fd}")).name for fd in fds] == [
            "cgroup.procs",
            "memory.events",
        ]


def test_only_what_changes_is_written_again(tree: Path) -> None:
    folder = job_folder(tree / "job-1")
    group = Group(2, dict.fromkeys(("memory", "pids", "cpu"), folder), LIMITS)
    (folder / "pids.max").write_text("untouched")

    group.hold_to(GroupLimits(memory_bytes=64 * MB, processes=50, cpus=None))

    assert (folder / "memory.max").read_text().startswith(str(64 * MB))
    assert (folder / "cpu.max").read_text().startswith("max 100000")
    assert (folder / "pids.max").read_text() == "untouched"


def test_version_2_is_left_alone_where_nobody_delegated_it(tree: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("what is ours is delegated to us")
    place = Place(2, {"memory": tree}, is_root=False)

    with pytest.raises(NoGroups, match="is not delegated to this worker"):
        Groups(place, LIMITS)

    assert (tree / "cgroup.subtree_control").read_text() == ""
    assert not (tree / "windmill-processes").exists()


# --- the real ones ---


def test_nothing_stays_of_groups_that_are_closed(place: Place) -> None:
    groups = Groups(place, LIMITS)
    taken = [groups.take() for _ in range(3)]
    made = set(groups._top.values())
    assert all((folder / "job-3").is_dir() for folder in made)

    for group in taken:
        groups.give_back(group)
    groups.close()

    assert not any(folder.exists() for folder in made)


def test_a_group_is_used_again(place: Place) -> None:
    groups = Groups(place, LIMITS)
    first = groups.take()

    groups.give_back(first)

    assert groups.take() is first
    groups.give_back(first)
    groups.close()


def test_a_group_in_which_something_lives_is_not_used_again_and_goes_later(place: Place) -> None:
    groups = Groups(place, LIMITS)
    group = groups.take()
    with subprocess.Popen(["sleep", "60"]) as process:
        join(group, process)

        groups.give_back(group)
        assert groups.take() is not group

        process.kill()
    groups.close()
    assert not any(folder.exists() for folder in group._folders.values())


def test_what_a_worker_that_was_killed_left_is_removed_by_the_next(place: Place) -> None:
    code = """
import sys, time
from workers.sandbox.cgroups import Groups, GroupLimits, own_place
groups = Groups(own_place(), GroupLimits(memory_bytes=1 << 28))
print(next(iter(groups._top.values())).name, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        name = worker.stdout.readline().strip()
        assert name in made_by_us(place)
        Groups(place, LIMITS).close()
        assert name in made_by_us(place)  # its worker lives

        worker.send_signal(signal.SIGKILL)
    Groups(place, LIMITS).close()

    assert name not in made_by_us(place)


def test_a_group_tells_how_often_the_kernel_killed(place: Place) -> None:
    groups = Groups(place, GroupLimits(memory_bytes=32 * MB))
    group = groups.take()
    code = "import os; [os.write(int(fd), b'0') for fd in os.sys.argv[1:]]; x = bytearray(64 << 20)"
    with group.opened() as (*join, events):
        argv = [sys.executable, "-I", "-S", "-c", code, *map(str, join)]

        ended = subprocess.run(argv, pass_fds=join)

        assert ended.returncode == -signal.SIGKILL
        assert re.search(rb"^oom_kill [1-9]", os.pread(events, 4096, 0), re.MULTILINE)
    groups.give_back(group)
    groups.close()


def test_a_host_leaves_no_group_behind(place: Place, isolated: Jobs) -> None:
    groups = isolated.host._supply.groups
    if groups is None:
        pytest.skip(isolated.host.limits_reason)
    for _ in range(5):
        isolated.bash("sleep 0.01 & sleep 60 & echo")
    isolated.runner.run(isolated.host.settle())

    assert len(groups._free) + len(isolated.host._supply._sandboxes) == groups._count
    assert not groups._doomed


def join(group: Group, process: subprocess.Popen[bytes]) -> None:
    with group.opened() as (*fds, _):
        for fd in fds:
            os.write(fd, str(process.pid).encode())


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_a_delegated_group_of_version_2_is_emptied_for_the_jobs_and_filled_again(
    place: Place, user: str
) -> None:
    if place.version != 2 or os.geteuid() != 0:
        pytest.skip("only root can delegate a group of version 2, and there has to be one")
    service = place.folders["memory"] / "service"
    service.mkdir()
    try:
        if user == "root":
            os.setxattr(service, "trusted.delegate", b"1")  # as systemd does
        else:
            for path in (service, *map(service.joinpath, ("cgroup.procs", "cgroup.subtree_control"))):
                os.chown(path, 65534, 65534)
        code = f"""
import os, pathlib, subprocess
from workers.sandbox.cgroups import Groups, GroupLimits, own_place
service = pathlib.Path({str(service)!r})
below = lambda: sorted(path.name[:13] for path in service.iterdir() if path.is_dir())
here = lambda: pathlib.Path("/proc/self/cgroup").read_text().strip().rpartition("/")[2]
(service / "cgroup.procs").write_text("0")
if {user == "nobody"}:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
other = subprocess.Popen(["sleep", "60"])
first = Groups(own_place(), GroupLimits(memory_bytes=1 << 28, processes=10))
second = Groups(own_place(), GroupLimits(memory_bytes=1 << 28))
print(here(), below())
group = first.take()
with group.opened() as fds:
    join = lambda: os.write(fds[0], b"0")
    joined = subprocess.check_output(["cat", "/proc/self/cgroup"], preexec_fn=join, text=True)
print(joined.strip().rpartition("/")[2])
first.give_back(group)
first.close()
print(here())
second.close()
print(here(), below())
other.kill()
other.wait()
"""
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

        assert ended.stdout.splitlines() == [
            "windmill-processes ['windmill-jobs', 'windmill-jobs', 'windmill-proc']",
            "job-1",
            "windmill-processes",
            "service []",
        ], ended.stderr
    finally:
        for folder in [*service.glob("*/"), service]:
            folder.rmdir()
