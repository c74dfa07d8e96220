"""A warm Python process: what its calls share, what they do not, and what each is told when it goes wrong."""

import asyncio
import json
from pathlib import Path

import pytest
import wmill

from tests.workers.dedicated.warm_processes import Heard, Warm, call
from tests.workers.job_runs import Log
from workers.runtimes import Limits, SandboxUnavailable


def test_a_script_is_loaded_once_and_what_it_keeps_stays(python_anywhere: Warm) -> None:
    code = "import os\nseen = []\ndef main(x):\n    seen.append(x)\n    return [os.getpid(), *seen]"

    heard = python_anywhere.calls(code, call("a", {"x": 1}), call("b", {"x": 2}), call("c", {"x": 3}))

    pid = heard.result("a")[0]
    assert [heard.result(job) for job in "abc"] == [[pid, 1], [pid, 1, 2], [pid, 1, 2, 3]]
    assert heard.order == ["a", "b", "c"]


def test_each_call_has_its_own_variables_and_none_of_earlier_ones(python: Warm) -> None:
    code = (
        "import os\ndef main():\n    return {k: os.environ.get(k) for k in ('WM_JOB_ID', 'ONLY_A', 'BASE')}"
    )
    first = call("a", env={"WM_JOB_ID": "a", "ONLY_A": "1", "BASE": "changed"})

    heard = python.calls(code, first, call("b", env={"WM_JOB_ID": "b"}), env={"BASE": "own"})

    assert heard.result("a") == {"WM_JOB_ID": "a", "ONLY_A": "1", "BASE": "changed"}
    assert heard.result("b") == {"WM_JOB_ID": "b", "ONLY_A": None, "BASE": "own"}


def test_what_a_call_prints_goes_to_its_job_though_many_were_sent_at_once(python: Warm) -> None:
    code = (
        "import os, subprocess, sys\n"
        "def main(x):\n"
        "    print('print', x)\n"
        "    print('error', x, file=sys.stderr)\n"
        "    os.write(1, f'raw {x}\\n'.encode())\n"
        "    subprocess.run(['echo', 'child', str(x)])\n"
        "    print('no end', x, end='')\n"
    )

    heard = python.calls(code, *(call(str(x), {"x": x}) for x in range(50)))

    for x in range(50):
        expected = f"print {x}\nerror {x}\nraw {x}\nchild {x}\nno end {x}"
        assert heard.log_at_answer[str(x)] == heard.logs[str(x)] == expected


def test_binary_output_and_nul_characters_confuse_nobody(python: Warm) -> None:
    code = (
        "import os\ndef main(x):\n    os.write(1, b'\\0\\xff' + bytes(range(256)) * x + b'\\0')\n    return x"
    )

    heard = python.calls(code, call("a", {"x": 1}), call("b", {"x": 3000}), call("c", {"x": 0}))

    assert [heard.result(job) for job in "abc"] == [1, 3000, 0]
    assert heard.logs["b"].count("ABCDEFG") == 3000
    assert heard.logs["c"] == "\N{REPLACEMENT CHARACTER}"


def test_what_is_printed_while_no_job_runs_goes_to_none(python: Warm) -> None:
    code = (
        "import os, threading\n"
        "go, done = threading.Event(), threading.Event()\n"
        "def late():\n    go.wait()\n    print('between jobs')\n    done.set()\n"
        "threading.Thread(target=late, daemon=True).start()\n"
        "def main(x):\n    print('job', x)\n    return go.is_set()\n"
        "def release():\n    threading.Timer(0.05, go.set).start()\n"
        "def wait():\n    done.wait()\n"
    )

    async def act() -> Heard:
        process, heard = await python.start(code), Heard()
        process.send([call("a", {"x": 1}), call("b", entrypoint="release")], heard)
        await heard.until("a", "b")
        process.send([call("c", entrypoint="wait")], heard)
        await heard.until("c")
        await process.close()
        return heard

    heard = python.run(act())

    assert heard.logs["a"] == "job 1\n"
    assert "b" not in heard.logs


def test_an_error_names_the_lines_of_the_script_and_the_next_call_works(python: Warm) -> None:
    code = "def main(x):\n    return 1 / x\n"

    heard = python.calls(code, call("a", {"x": 0}), call("b", {"x": 2}), script_path="f/ops/divide")

    error = heard.error("a")
    assert (error["name"], error["message"]) == ("ZeroDivisionError", "division by zero")
    assert 'File "f/ops/divide.py", line 2, in main' in error["stack"]
    assert "serving" not in error["stack"]
    assert heard.result("b") == 0.5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sys.exit(3)", "sys.exit(3)"),
        ("sys.exit('because')", "because"),
        ("raise KeyboardInterrupt('stop')", "stop"),
        ("raise BaseException('all')", "all"),
        ("f()", "recursion"),
    ],
)
def test_no_exception_ends_the_process(python: Warm, line: str, message: str) -> None:
    code = f"import sys\ndef f(): f()\ndef main(bad):\n    if bad:\n        {line}\n    return 'fine'\n"

    heard = python.calls(code, call("a", {"bad": True}), call("b", {"bad": False}))

    assert message in heard.error("a")["message"]
    assert heard.result("b") == "fine"


def test_sys_exit_without_a_code_is_a_result_of_null(python: Warm) -> None:
    heard = python.calls("import sys\ndef main():\n    sys.exit()", call("a"), call("b"))

    assert [heard.result(job) for job in "ab"] == [None, None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("os._exit(7)", "exit code 7"),
        ("os.kill(os.getpid(), 9)", "signal 9"),
        ("os.closerange(3, 4096)", "closed the descriptor"),
        ("[os.close(n) for n in answers()]; time.sleep(60)", "closed the descriptor"),
        ("[os.write(n, b'12 nonsense\\n') for n in answers()]", "wrote to the descriptor"),
        ("[os.write(n, b'no line') for n in answers()]", "wrote to the descriptor"),
        ("[os.write(n, b'9 R 1\\n') for n in answers()]", "wrote to the descriptor"),
        ("[os.write(n, b'0 L null\\n') for n in answers()]", "wrote to the descriptor"),
    ],
)
def test_a_call_that_destroys_its_process_fails_alone(python: Warm, line: str, message: str) -> None:
    code = (
        "import os, stat, time\n"
        "def answers():\n"
        "    for fd in range(3, 256):\n"
        "        try:\n"
        "            path = os.readlink(f'/proc/self/fd/{fd}')\n"
        "        except OSError:\n"
        "            continue\n"
        "        if path.startswith('pipe:') and not os.path.sameopenfile(fd, 1):\n"
        "            if os.get_inheritable(fd) is False and 'w' in mode(fd):\n"
        "                yield fd\n"
        "def mode(fd):\n"
        "    flags = int(open(f'/proc/self/fdinfo/{fd}').read().split('flags:')[1].split()[0], 8)\n"
        "    return 'w' if flags & 3 == os.O_WRONLY else 'r'\n"
        "def main(bad):\n"
        "    if bad:\n"
        "        print('about to')\n"
        f"        {line}\n"
        "    return 'fine'\n"
    )

    heard = python.calls(code, call("a", {"bad": False}), call("b", {"bad": True}), call("c"), call("d"))

    assert heard.result("a") == "fine"
    assert "about to" in heard.logs["b"]
    assert message in heard.message
    assert (heard.begun, heard.not_begun) == ("b", ["c", "d"])


def test_an_answer_that_was_given_survives_the_crash_of_the_next_call(python: Warm) -> None:
    code = "import os\ndef main(x):\n    if x == 99:\n        os._exit(1)\n    return x"

    heard = python.calls(code, *(call(str(x), {"x": x}) for x in range(120)))

    assert [heard.result(str(x)) for x in range(99)] == list(range(99))
    assert (heard.begun, heard.not_begun) == ("99", [str(x) for x in range(100, 120)])


def test_a_call_that_takes_too_long_is_killed_and_those_behind_it_are_given_back(python: Warm) -> None:
    code = "import itertools\ndef main(x):\n    for _ in itertools.count():\n        if x: return x"

    heard = python.calls(
        code, call("a", {"x": 1}), call("b", {"x": 0}, timeout_s=0.2), call("c", {"x": 1}, timeout_s=100.0)
    )

    assert heard.result("a") == 1
    assert heard.message == "Job timed out after (>0.2s)"
    assert (heard.begun, heard.not_begun) == ("b", ["c"])


def test_the_time_of_a_call_begins_when_it_begins_to_run(python: Warm) -> None:
    code = "import time\ndef main():\n    time.sleep(0.15)\n    return 'slept'"

    heard = python.calls(code, *(call(str(n), timeout_s=1.0) for n in range(10)))

    assert [heard.result(str(n)) for n in range(10)] == ["slept"] * 10


def test_generators_stream_preprocessors_prepare_and_async_functions_are_awaited(python: Warm) -> None:
    code = (
        "from datetime import datetime\n"
        "def preprocessor(raw):\n    return {'when': raw}\n"
        "async def main(when: datetime):\n    return when.year\n"
        "def numbers():\n    yield 'a'\n    yield 'b'\n"
    )

    heard = python.calls(
        code,
        call("a", {"raw": "2024-12-31T00:00:00"}, preprocess=True),
        call("b", entrypoint="numbers"),
        call("c", {"when": "no date"}),
        call("d", {"_ENTRYPOINT_OVERRIDE": "numbers"}),
        call("e", entrypoint="missing"),
    )

    assert heard.result("a") == 2024
    assert json.loads(heard.answers["a"].preprocessed_args_json or "") == {"when": "2024-12-31T00:00:00"}
    assert heard.answers["b"].preprocessed_args_json is None
    assert heard.result("b") == heard.result("d") == "ab"
    assert heard.logs["b"] == "WM_STREAM: a\nWM_STREAM: b\n"
    assert "argument when is 'no date'" in heard.error("c")["message"]
    assert heard.error("e")["name"] == "MissingEntrypoint"


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        ("def main(:\n    pass", "SyntaxError", "invalid syntax"),
        ("import not_there", "ModuleNotFoundError", "not_there"),
        ("x = 1\ny = x / 0", "ZeroDivisionError", "division"),
        ("import sys\nsys.exit()", "NotLoaded", "ended itself"),
        ("import os\nos._exit(4)", "ExecutionErr", "exit code 4 before it was loaded"),
        ("while True: pass", "ExecutionErr", "timed out"),
    ],
)
def test_a_script_that_does_not_load_says_why(python: Warm, code: str, name: str, message: str) -> None:
    log = Log()

    error = python.fails_to_load(f"print('loading')\n{code}", log=log, timeout_s=2.0)

    assert error["name"] == name
    assert message in error["message"]
    assert "loading" in log.text or name == "SyntaxError"


def test_large_results_keep_their_place_and_too_large_ones_are_refused(python: Warm) -> None:
    code = "def main(size):\n    return 'x' * size"
    sizes = [1, 3_000_000, 2, 1_500_000, 5_000_000, 3]

    heard = python.calls(
        code,
        *(call(str(at), {"size": size}) for at, size in enumerate(sizes)),
        limits=Limits(result_bytes=4_000_000),
    )

    assert heard.order == ["0", "1", "2", "3", "4", "5"]
    assert [len(heard.result(str(at))) for at in (0, 1, 2, 3, 5)] == [1, 3_000_000, 2, 1_500_000, 3]
    assert heard.error("4")["name"] == "ResultTooLarge"


def test_arguments_of_megabytes_arrive(python: Warm) -> None:
    heard = python.calls(
        "def main(x, y=0):\n    return [len(x), y]",
        call("a", {"x": "é" * 3_000_000}),
        call("b", {"x": "", "y": 1}),
    )

    assert heard.result("a") == [3_000_000, 0]
    assert heard.result("b") == [0, 1]


def test_a_log_beyond_its_limit_is_cut_for_that_job_only(python: Warm) -> None:
    code = "def main(n):\n    print('x' * n)"

    heard = python.calls(
        code, call("a", {"n": 10_000}), call("b", {"n": 10}), limits=Limits(output_bytes=1000)
    )

    assert "reached its limit" in heard.logs["a"]
    assert len(heard.logs["a"]) < 1300
    assert heard.logs["b"] == "x" * 10 + "\n"


def test_a_thread_that_prints_without_end_keeps_no_job_from_its_answer(python: Warm) -> None:
    code = (
        "import os, threading\n"
        "def flood():\n    while True: os.write(1, b'x' * 4096)\n"
        "threading.Thread(target=flood, daemon=True).start()\n"
        "def main(x):\n    return x\n"
    )

    heard = python.calls(
        code, *(call(str(x), {"x": x}) for x in range(20)), limits=Limits(output_bytes=10_000)
    )

    assert [heard.result(str(x)) for x in range(20)] == list(range(20))


def test_too_much_memory_ends_the_process_and_fails_the_call_that_ran(python: Warm) -> None:
    code = (
        "import time\n"
        "def main(mb):\n"
        "    kept = b'x' * (mb << 20)\n"
        "    if mb:\n"
        "        with open('/tmp/large', 'wb') as file:\n"
        "            for _ in range(mb):\n                file.write(bytes(1 << 20))\n"
        "        time.sleep(60)\n"
        "    return 'fine'\n"
    )

    heard = python.calls(
        code, call("a", {"mb": 0}), call("b", {"mb": 120}), call("c"), limits=Limits(memory_bytes=200 << 20)
    )

    assert heard.result("a") == "fine"
    assert "memory" in heard.message
    assert (heard.begun, heard.not_begun) == ("b", ["c"])


def test_a_process_that_has_grown_too_large_answers_what_it_has_and_gets_no_more(python: Warm) -> None:
    code = (
        "import time\nkept = []\n"
        "def main(mb):\n    kept.append(bytearray(mb << 20))\n    return len(kept)\n"
        "def wait():\n    time.sleep(0.6)\n"  # until the guard has looked
    )

    async def act() -> tuple[Heard, bool]:
        process, heard = await python.start(code, limits=Limits(memory_bytes=100 << 20)), Heard()
        assert process.is_open
        process.send([call("a", {"mb": 84}), call("b", entrypoint="wait"), call("c", {"mb": 0})], heard)
        await heard.until("a", "b", "c")
        is_open = process.is_open
        process.send([call("d", {"mb": 0})], heard)
        await heard.until_end()
        await process.close()
        return heard, is_open

    heard, is_open = python.run(act())

    assert [heard.result(job) for job in "ac"] == [1, 2]
    assert not is_open
    assert (heard.begun, heard.not_begun) == (None, ["d"])
    assert heard.answers["c"].peak_kb > 80_000


def test_killing_the_call_that_runs_gives_back_those_behind_it(python: Warm) -> None:
    code = "import time\ndef main():\n    print('runs', flush=True)\n    time.sleep(60)"

    async def act() -> Heard:
        process, heard = await python.start(code), Heard()
        process.send([call("a"), call("b"), call("c")], heard)
        await heard.until_printed("a", "runs")
        await process.kill("c")
        assert heard.reason is None
        await process.kill("a")
        return heard

    heard = python.run(act())

    assert isinstance(heard.reason, SandboxUnavailable)
    assert (heard.begun, heard.not_begun) == (None, ["b"])


def test_a_call_that_is_killed_while_it_waits_never_answers(python: Warm) -> None:
    code = "import time\ndef main(x=0):\n    print('runs', flush=True)\n    time.sleep(x)\n    return x"

    async def act() -> Heard:
        process, heard = await python.start(code), Heard()
        process.send([call("a", {"x": 0.3}), call("b", {"x": 60}), call("c")], heard)
        await heard.until_printed("a", "runs")
        await process.kill("b")
        await heard.until_end()
        return heard

    heard = python.run(act())

    assert heard.result("a") == 0.3
    assert (heard.begun, heard.not_begun) == (None, ["c"])


def test_a_process_that_leaves_answers_first_and_runs_what_the_script_left_for_its_end(python: Warm) -> None:
    code = "import atexit, time\natexit.register(print, 'farewell')\ndef main():\n    time.sleep(0.1)\n    return 1"

    async def act() -> Heard:
        process, heard = await python.start(code), Heard()
        process.send([call("a"), call("b")], heard)
        process.leave()
        assert not process.is_open
        await heard.until("a", "b")
        process.send([call("c")], heard)
        await heard.until_end()
        await process.close()
        return heard

    heard = python.run(act())

    assert [heard.result(job) for job in "ab"] == [1, 1]
    assert heard.not_begun == ["c"]


def test_clients_that_a_script_keeps_have_the_token_of_the_job_that_runs(python: Warm) -> None:
    code = (
        "import wmill\n"
        "kept = wmill.Windmill()\n"
        "other = wmill.Windmill(token='given')\n"
        "def main():\n"
        "    wmill.get_workspace()\n"
        "    late.append(wmill.Windmill())\n"
        "    used = [kept, wmill.client._client, *late]\n"
        "    tokens = {c.token for c in used} | {c.headers['Authorization'].split()[1] for c in used}\n"
        "    return sorted(tokens | {c.client.headers['Authorization'].split()[1] for c in used}), other.token\n"
        "late = []\n"
    )
    env = {"WM_WORKSPACE": "w", "WM_BASE_URL": "http://127.0.0.1:9", "WM_TOKEN": "t-load"}

    heard = python.calls(
        code,
        *(call(job, env={**env, "WM_TOKEN": f"t-{job}"}) for job in "abc"),
        env=env,
        python_paths=[str(Path(wmill.__file__).parent.parent)],
    )

    assert [heard.result(job) for job in "abc"] == [[[f"t-{job}"], "given"] for job in "abc"]


def test_the_process_is_in_a_sandbox_like_any_job(python: Warm) -> None:
    code = (
        "import os\n"
        "def main():\n"
        "    seen = [p for p in os.listdir('/proc') if p.isdigit()]\n"
        "    return [len(seen), os.getcwd(), os.path.exists(os.path.expanduser('~root/.bashrc')), os.getuid() == 0]\n"
    )
    if python.jobs.host.isolation == "none":
        pytest.skip("this machine has no namespaces")

    heard = python.calls(code, call("a"))

    assert heard.result("a") == [2, "/tmp/job", False, False]


def test_a_script_without_network_has_none_in_a_warm_process_either(python: Warm) -> None:
    if not python.jobs.host.cuts_network:
        pytest.skip("this machine has no network namespaces")
    code = "def main():\n    return [line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]]"

    assert python.calls(code, call("a"), network=False).result("a") == ["lo"]


def test_a_session_whose_job_host_dies_is_nobodys_fault(python_anywhere: Warm) -> None:
    warm = python_anywhere

    async def act() -> Heard:
        process, heard = (
            await warm.start("import time\ndef main():\n    print('runs')\n    time.sleep(60)"),
            Heard(),
        )
        process.send([call("a"), call("b")], heard)
        await heard.until_printed("a", "runs")
        await warm.jobs.host.close()
        await heard.until_end()
        await process.close()
        return heard

    heard = warm.run(act())

    assert isinstance(heard.reason, SandboxUnavailable)
    assert (heard.begun, heard.not_begun) == ("a", ["b"])


def test_closing_a_process_while_it_loads_leaves_nothing(python: Warm) -> None:
    async def act() -> None:
        starting = asyncio.create_task(python.start("print('loading', flush=True)\nwhile True: pass"))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await python.jobs.host.settle()

    python.run(act())
