"""What a job must not see or reach, tried from Python and from Bash, as root and as an ordinary user."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.workers.job_runs import Jobs

BASICS = {"HOME", "LANG", "PATH", "TZ"}


@pytest.fixture(autouse=True)
def _secret_in_the_workers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_TEST_SECRET", "the-workers-secret")


def search_proc(jobs: Jobs, language: str, secret: str) -> Any:
    """Have a job read everything it can below /proc; answers whether it found `secret` (cut in two, lest it finds
    its own source)."""
    halves = (secret[:5], secret[5:])
    if language == "python3":
        code = f"""
import glob
def main():
    needle = ({halves[0]!r} + {halves[1]!r}).encode()
    seen, found = 0, []
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
        try:
            content = open(path, "rb").read()
        except OSError:
            continue
        seen += 1
        if needle in content:
            found.append(path)
    return {{"seen": seen, "found": found}}
"""
    else:
        code = f"""
needle={halves[0]}
needle+={halves[1]}
all=$(cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' || true)
seen=$(ls -d /proc/[0-9]* | wc -l)
found_list='[]'; [[ $all != *"$needle"* ]] || found_list='["somewhere"]'
echo "{{\\"seen\\": $seen, \\"found\\": $found_list}}" > result.json
"""
    return jobs(language, code).result


@pytest.mark.parametrize("language", ["python3", "bash"])
def test_the_workers_environment_is_out_of_reach(isolated: Jobs, language: str) -> None:
    answer = search_proc(isolated, language, "the-workers-secret")

    assert answer["seen"] > 0
    assert answer["found"] == []


@pytest.mark.parametrize("language", ["python3", "bash"])
def test_only_the_jobs_own_processes_are_visible(isolated: Jobs, language: str) -> None:
    codes = {
        "python3": "import os\ndef main():\n    return sorted(int(n) for n in os.listdir('/proc') if n.isdigit())",
        "bash": 'cd /proc; pids=$(echo [0-9]*); echo "[${pids// /,}]" > /tmp/job/result.json',
    }

    assert set(isolated(language, codes[language]).result) <= {1, 2, 3, 4}


def test_a_python_job_sees_exactly_the_environment_it_was_given(isolated: Jobs) -> None:
    code = "import os\ndef main():\n    return dict(os.environ)"

    environment = isolated.python(code, env={"WM_WORKSPACE": "demo", "EMPTY": ""}).result

    assert environment.keys() == {"WM_WORKSPACE", "EMPTY", *BASICS}
    assert environment["WM_WORKSPACE"] == "demo"


def test_a_bash_job_sees_exactly_the_environment_it_was_given(isolated: Jobs) -> None:
    lines = isolated.bash("env", env={"WM_WORKSPACE": "demo", "PATH": "/usr/bin:/bin"}).log.text.splitlines()

    names = {line.partition("=")[0] for line in lines}
    assert names - {"PWD", "SHLVL", "_"} == {"WM_WORKSPACE", *BASICS}  # Bash sets those three itself
    assert "PATH=/usr/bin:/bin" in lines


@pytest.mark.parametrize("language", ["python3", "bash"])
def test_a_hidden_folder_is_empty_even_inside_a_visible_one(
    isolated: Jobs, language: str, secrets_dir: Path
) -> None:
    codes = {
        "python3": f"""
import os
def main():
    try:
        return os.listdir({str(secrets_dir)!r})
    except OSError as error:
        return [] if error.errno in (2, 13) else str(error)
""",
        "bash": f"cat {secrets_dir}/secret.txt 2>/dev/null || echo '[]' > result.json",
    }

    assert isolated.bash(f"cat {secrets_dir.parent}/visible.txt").result == "visible"
    assert isolated(language, codes[language]).result == []


@pytest.mark.parametrize("language", ["python3", "bash"])
def test_a_socket_in_a_hidden_folder_cannot_be_connected_to(
    isolated: Jobs, language: str, secrets_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(secrets_dir)  # socket paths have a short limit
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(".s.PGSQL.5432")
        os.chmod(".s.PGSQL.5432", 0o777)
        server.listen()
        try:
            connect = f"""
import os, socket
def main():
    try:
        os.chdir({str(secrets_dir)!r})
        socket.socket(socket.AF_UNIX).connect(".s.PGSQL.5432")
    except OSError:
        return "refused"
    return "connected"
"""
            if language == "python3":
                answer = isolated.python(connect).result
            else:
                answer = isolated.bash(
                    f"if [ -S {secrets_dir}/.s.PGSQL.5432 ]; then echo connected; else echo refused; fi"
                ).result
            assert answer == "refused"
        finally:
            os.unlink(".s.PGSQL.5432")


@pytest.mark.parametrize("language", ["python3", "bash"])
def test_signals_do_not_reach_the_worker_or_the_fork_server(isolated: Jobs, language: str) -> None:
    pids = [os.getpid(), isolated.host.fork_server_pid, 1]
    codes = {
        "python3": f"""
import os, signal
def main():
    for pid in {pids}:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return "alive"
""",
        "bash": f"for pid in {' '.join(map(str, pids))}; do kill -9 $pid 2>/dev/null || true; done; echo alive",
    }
    before = isolated.host.fork_server_pid

    assert isolated(language, codes[language]).result == "alive"
    assert isolated(language, codes[language]).result == "alive"
    assert isolated.host.fork_server_pid == before


def test_two_jobs_at_once_do_not_see_each_others_files_or_processes(isolated: Jobs) -> None:
    import asyncio

    from tests.workers.job_runs import Log

    async def both() -> Any:
        log = Log()
        writer = asyncio.create_task(
            isolated.run(
                "bash",
                "echo private > /tmp/shared.txt; touch mine; echo ready; sleep 60",
                log=log,
                timeout_s=30,
            )
        )
        await log.wait_for("ready")
        reader = await isolated.run(
            "bash",
            "test ! -e /tmp/shared.txt; ls -A /tmp/job; ! pgrep sleep >/dev/null 2>&1; grep -lr private /dev/shm || true;"
            " echo alone",
        )
        writer.cancel()
        await asyncio.wait([writer])
        return reader

    reader = isolated.runner.run(both())

    assert reader.result == "alone"
    assert "mine" not in reader.log.text


@pytest.mark.parametrize(
    "path", ["/usr/x", "/etc/x", "/x", "/root/x", "/home/x", "/dev/x", "/proc/sys/kernel/hostname", "/var/x"]
)
def test_the_system_is_read_only(isolated: Jobs, path: str) -> None:
    code = f"if echo x 2>/dev/null > {path}; then echo written; else echo refused; fi 2>/dev/null"

    assert isolated.bash(code).result == "refused"


def test_a_job_holds_no_rights_and_cannot_gain_any(isolated: Jobs) -> None:
    code = """
def main():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return {key: lines[key].split() for key in ("Uid", "Groups", "CapEff", "CapPrm", "CapInh", "NoNewPrivs")}
"""
    status = isolated.python(code).result

    assert "0" not in status["Uid"]
    assert {int(status[key][0], 16) for key in ("CapEff", "CapPrm", "CapInh")} == {0}
    assert status["NoNewPrivs"] == ["1"]
    assert (
        isolated.bash("if mount -t tmpfs x /tmp 2>/dev/null; then echo yes; else echo no; fi").result == "no"
    )


def test_a_job_has_no_descriptors_but_its_own(isolated: Jobs) -> None:
    code = """
import os
def main():
    links = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            links[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue  # the one that lists
    return links
"""
    links = isolated.python(code).result

    own_socket = [fd for fd in links if links[fd].startswith("socket:")]
    assert links["0"] == "/dev/null" and links["1"].startswith("pipe:") and links["1"] == links["2"]
    assert len(own_socket) == 1 and set(links) == {"0", "1", "2", *own_socket}


def test_the_guard_cannot_be_traced_or_inspected(isolated: Jobs) -> None:
    code = """
import os
def main():
    refused = []
    for name in ("environ", "mem", "maps", "fd"):
        try:
            os.listdir("/proc/1/fd") if name == "fd" else open(f"/proc/1/{name}", "rb").read(1)
        except OSError:
            refused.append(name)
    return refused
"""
    assert isolated.python(code).result == ["environ", "mem", "maps", "fd"]


def test_what_shells_expect_of_a_system_is_there(isolated: Jobs) -> None:
    code = """
cat <(echo substituted)
echo to-stderr > /dev/stderr
head -c 4 /dev/urandom | wc -c
mktemp > /dev/null
echo shm > /dev/shm/x && cat /dev/shm/x
getent hosts localhost > /dev/null && echo resolved
id -un
"""
    ran = isolated.bash(code)

    assert ran.log.text.split()[:5] == ["substituted", "to-stderr", "4", "shm", "resolved"]


def test_the_result_of_one_job_cannot_be_forged_by_another(isolated: Jobs) -> None:
    first = isolated.python("def main():\n    open('result.json', 'w').write('1')\n    return 'mine'")
    second = isolated.bash("cat result.json 2>/dev/null || echo nothing-here")

    assert (first.result, second.result) == ("mine", "nothing-here")


def test_isolation_is_refused_with_a_reason_when_none_is_to_be_had(tmp_path: Path) -> None:
    import asyncio

    from workers.sandbox import IsolationRefused, JobHost

    host = JobHost(base_dir=tmp_path / "base", allowed=["none"], policy="refuse")

    with pytest.raises(IsolationRefused, match="accept jobs without isolation with the policy warn"):
        asyncio.run(host.start())


def test_without_isolation_jobs_run_and_the_host_says_so(tmp_path: Path) -> None:
    from tests.workers.job_runs import started

    with started(base_dir=tmp_path / "base", allowed=["none"], policy="warn") as jobs:
        assert jobs.host.isolation == "none"
        assert "not isolated" in jobs.host.isolation_reason
        assert jobs.python("def main():\n    return 1").result == 1
        assert jobs.bash("echo $PPID").result.isdigit()
        assert json.loads("[]") == os.listdir(tmp_path / "base") or _only_prepared(tmp_path / "base")


def _only_prepared(base: Path) -> bool:
    """What lies there belongs to sandboxes that are prepared or go away: no job has written into it."""
    found = {path.name for path in base.glob("*/job/*")}
    return found <= {"rehearsal"}
