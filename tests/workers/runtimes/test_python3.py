"""What a Python script may rely on."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.workers.job_runs import Jobs, Log
from workers.runtimes import Imported, Limits
from workers.runtimes.python3 import module_path

REPORT = "f/ops/report"


# --- arguments ---


def test_arguments_are_passed_by_name_and_defaults_apply_to_absent_and_null_ones(jobs: Jobs) -> None:
    code = "def main(a, b=2, c='x', d=4):\n    return [a, b, c, d]"

    assert jobs.python(code, args={"a": 1, "b": None, "d": 0, "unknown": 9}).result == [1, 2, "x", 0]


def test_a_missing_argument_without_default_is_none(jobs: Jobs) -> None:
    assert jobs.python("def main(a):\n    return a is None").result is True


def test_the_text_function_call_stands_for_the_default(jobs: Jobs) -> None:
    assert jobs.python("def main(a=7):\n    return a", args={"a": "<function call>"}).result == 7


def test_kwargs_take_every_argument(jobs: Jobs) -> None:
    code = "def main(a, *rest, b=1, **kwargs):\n    return [a, b, kwargs]"

    assert jobs.python(code, args={"a": 0, "x": 5, "y": None}).result == [0, 1, {"x": 5, "y": None}]


def test_positional_only_arguments_work(jobs: Jobs) -> None:
    assert jobs.python("def main(a, b=3, /, c=4):\n    return [a, b, c]", args={"a": 1, "c": 9}).result == [
        1,
        3,
        9,
    ]


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        ("bytes", "aGVsbG8=", "b'hello'"),
        ("datetime", "2024-12-31T23:59:00", "datetime.datetime(2024, 12, 31, 23, 59)"),
        ("datetime", "2024-12-31T23:59:00Z", None),
        ("date", "2024-12-31", "datetime.date(2024, 12, 31)"),
        ("date", "31-12-2024", "datetime.date(2024, 12, 31)"),
        ("date", "12/31/2024", "datetime.date(2024, 12, 31)"),
        ("date", "31/12/2024", "datetime.date(2024, 12, 31)"),
        ("date", "2024/12/31", "datetime.date(2024, 12, 31)"),
        ("Optional[date]", "2024-12-31", "datetime.date(2024, 12, 31)"),
        ("date | None", "2024-12-31", "datetime.date(2024, 12, 31)"),
        ("list[bytes]", ["aGk="], "[b'hi']"),
        ("str", "2024-12-31", "'2024-12-31'"),
    ],
)
@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_text_becomes_what_the_annotation_asks_for(
    jobs: Jobs, annotation: str, value: Any, expected: str | None, future: str
) -> None:
    code = f"{future}from typing import Optional\nfrom datetime import date, datetime\n"
    code += f"def main(a: {annotation}):\n    return repr(a)"

    result = jobs.python(code, args={"a": value}).result

    assert (
        result == expected
        if expected
        else result.startswith("datetime.datetime(2024, 12, 31, 23, 59, tzinfo")
    )


def test_text_that_is_no_date_is_refused_with_a_sentence(jobs: Jobs) -> None:
    ran = jobs.python("from datetime import date\ndef main(day: date):\n    pass", args={"day": "soon"})

    assert ran.error["message"] == "argument day is 'soon'; expected a date as in 2024-12-31"


def test_another_entrypoint_may_be_named(jobs: Jobs) -> None:
    code = "def main():\n    return 'main'\ndef other(a):\n    return ['other', a]"

    assert jobs.python(code, args={"_ENTRYPOINT_OVERRIDE": "other", "a": 1}).result == ["other", 1]
    assert jobs.python(code, entrypoint="other").result == ["other", None]


def test_the_preprocessor_makes_the_arguments(jobs: Jobs) -> None:
    code = "def preprocessor(event):\n    return {'n': event['n'] * 2}\ndef main(n: int):\n    return n + 1"

    ran = jobs.python(code, args={"event": {"n": 20}}, preprocess=True)

    assert ran.result == 41
    assert ran.outcome is not None and ran.outcome.preprocessed_args_json == '{"n":40}'


def test_a_preprocessor_must_return_arguments(jobs: Jobs) -> None:
    ran = jobs.python("def preprocessor():\n    return 1\ndef main():\n    pass", preprocess=True)

    assert ran.error["message"] == "preprocessor returned 1; it must return a dict with the arguments of main"


def test_args_json_lies_in_the_working_folder(jobs: Jobs) -> None:
    code = "import json\ndef main():\n    return json.load(open('args.json'))"

    assert jobs.python(code, args={"a": ["ä", 1]}).result == {"a": ["ä", 1]}


# --- results ---


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("None", "null"),
        ("{'z': 1, 'a': [1.5, True]}", '{"z":1,"a":[1.5,true]}'),
        ("[float('nan'), float('inf'), 1]", "[null,null,1]"),
        ("b'hello'", '"aGVsbG8="'),
        ("{'data': b'hello'}", '{"data":"aGVsbG8="}'),
        ("'a\\0b'", '"ab"'),
        ("{'k\\0': 'x\\ud800y'}", '{"k":"xy"}'),
        ("'\\\\u0000'", '"\\\\u0000"'),
        ("(1, 2)", "[1,2]"),
        ("{(1, 2): 3}", '{"(1, 2)":3}'),
        ("{1: 2, None: 3}", '{"1":2,"null":3}'),
        ("__import__('datetime').date(2024, 1, 2)", '"2024-01-02"'),
        ("__import__('decimal').Decimal('1.50')", '"1.50"'),
        ("'ünïcode 🙂'", '"ünïcode 🙂"'),
    ],
)
def test_results_become_json_that_can_be_stored(jobs: Jobs, expression: str, expected: str) -> None:
    outcome = jobs.python(f"def main():\n    return {expression}").outcome

    assert outcome is not None and outcome.result_json == expected


def test_data_frames_become_rows(jobs: Jobs) -> None:
    code = """
class DataFrame:
    class values:
        @staticmethod
        def tolist():
            return [[1, float("nan")], [3, "x"]]
DataFrame.__module__ = "pandas.core.frame"
def main():
    return {"rows": DataFrame()}
"""
    assert jobs.python(code).result == {"rows": [[1, None], [3, "x"]]}


def test_postprocessing_can_be_turned_off_but_the_result_stays_storable(jobs: Jobs) -> None:
    code = "#skip_result_postprocessing\ndef main():\n    return {'a': float('nan'), 'b': b'x'}"

    assert jobs.python(code).result == {"a": None, "b": "b'x'"}


def test_a_result_that_contains_itself_is_refused(jobs: Jobs) -> None:
    ran = jobs.python("def main():\n    a = []\n    a.append(a)\n    return a")

    assert ran.error["message"] == "the result contains itself, which JSON cannot express"


def test_a_result_that_is_too_large_is_refused(jobs: Jobs) -> None:
    ran = jobs.python("def main():\n    return 'x' * 5000", limits=Limits(result_bytes=1000))

    assert ran.error["name"] == "ResultTooLarge"
    assert "5,002 bytes; the limit is 1,000" in ran.error["message"]


def test_large_results_and_arguments_arrive_whole(jobs: Jobs) -> None:
    text = "x" * 3_000_000 + "ä"

    assert jobs.python("def main(a):\n    return a + a", args={"a": text}).result == text + text


def test_generators_stream_and_their_values_together_are_the_result(jobs: Jobs) -> None:
    ran = jobs.python("def main():\n    print('log')\n    yield 'a'\n    yield 'b\\nc'")

    assert ran.log.streamed == ["a", "b\nc"]
    assert ran.log.text == "log\n"
    assert ran.result == "ab\nc"


def test_asynchronous_functions_and_generators_work(jobs: Jobs) -> None:
    assert (
        jobs.python(
            "import asyncio\nasync def main(a):\n    await asyncio.sleep(0)\n    return a", args={"a": 3}
        ).result
        == 3
    )

    ran = jobs.python("async def main():\n    yield {'n': 1}\n    yield {'n': 2}")
    assert ran.result == [{"n": 1}, {"n": 2}]
    assert ran.log.streamed == ['{"n":1}', '{"n":2}']


# --- failures ---


def test_an_exception_is_shown_with_the_scripts_own_lines(jobs: Jobs) -> None:
    code = "def helper():\n    raise ValueError('no such thing')\n\ndef main():\n    helper()"

    error = jobs.python(code, script_path=REPORT).error

    assert (error["name"], error["message"]) == ("ValueError", "no such thing")
    assert error["stack"].startswith('  File "f/ops/report.py", line 5, in main\n    helper()')
    assert 'File "f/ops/report.py", line 2, in helper\n    raise ValueError' in error["stack"]
    assert "job_process" not in error["stack"]


def test_causes_are_in_the_stack(jobs: Jobs) -> None:
    code = "def main():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n        raise KeyError('k') from e"

    stack = jobs.python(code).error["stack"]

    assert "ZeroDivisionError: division by zero" in stack and "direct cause" in stack
    assert "job_process" not in stack


def test_attributes_of_an_exception_and_the_flow_step_are_passed_on(jobs: Jobs) -> None:
    code = """
class Refused(Exception):
    def __init__(self):
        super().__init__("refused")
        self.status = 402
        self.body = {"raw": b"x", "n": float("nan")}
async def main():
    raise Refused()
"""
    error = jobs.python(code, env={"WM_FLOW_STEP_ID": "b"}).error

    assert error["extra"] == {"status": 402, "body": {"raw": "eA==", "n": None}}
    assert error["step_id"] == "b"
    assert error["stack"].lstrip().startswith('File "tmp/main.py", line 8, in main')


def test_a_syntax_error_shows_the_line(jobs: Jobs) -> None:
    error = jobs.python("x = 1\ndef main(:\n    pass", script_path=REPORT).error

    assert error["name"] == "SyntaxError"
    assert "(report.py, line 2)" in error["message"]
    assert 'File "f/ops/report.py", line 2\n    def main(:\n             ^' in error["stack"]


def test_a_script_without_main_is_told_so(jobs: Jobs) -> None:
    message = jobs.python("def other():\n    pass", script_path=REPORT).error["message"]

    assert (
        message
        == "f/ops/report.py has no function named main; define it, for example: def main(name: str): ..."
    )


@pytest.mark.parametrize(
    ("leave", "result"), [("sys.exit()", None), ("sys.exit(0)", None), ("exit(0)", None)]
)
def test_a_clean_exit_is_a_success(jobs: Jobs, leave: str, result: Any) -> None:
    assert jobs.python(f"import sys\ndef main():\n    {leave}").result is result


@pytest.mark.parametrize(
    ("leave", "message"),
    [
        ("sys.exit(3)", "The script ended with sys.exit(3)"),
        ("sys.exit('bad input')", "bad input"),
        ("os._exit(5)", "The Python process ended with exit code 5 before main returned; os._exit does that"),
        ("os._exit(0)", "The Python process ended with exit code 0 before main returned; os._exit does that"),
        ("os.kill(os.getpid(), 15)", "Job was killed by signal 15 (SIGTERM)"),
        ("os.abort()", "Job was killed by signal 6 (SIGABRT)"),
        ("ctypes.string_at(0)", "Job was killed by signal 11 (SIGSEGV)"),
    ],
)
def test_other_ways_to_leave_are_failures_with_a_reason(jobs: Jobs, leave: str, message: str) -> None:
    assert jobs.python(f"import ctypes, os, sys\ndef main():\n    {leave}").error["message"] == message


def test_the_memory_limit_is_named(jobs: Jobs) -> None:
    error = jobs.python(
        "def main():\n    return len(bytearray(10**9))", limits=Limits(memory_bytes=200 << 20)
    ).error

    assert re.fullmatch(r"The job asked for more than its 200 MB of memory \(peak \d+ MB\)", error["message"])


def test_an_exception_that_cannot_be_described_is_still_one(jobs: Jobs) -> None:
    code = "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\ndef main():\n    raise Odd"

    assert jobs.python(code).error["name"] == "Odd"


def test_a_recursion_without_end_is_an_ordinary_error(jobs: Jobs) -> None:
    assert jobs.python("def main():\n    return main()").error["name"] == "RecursionError"


def test_a_job_that_writes_rubbish_as_its_result_fails_alone(jobs: Jobs) -> None:
    code = """
import os, socket
def main():
    for name in os.listdir("/proc/self/fd"):
        try:
            channel = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        channel.send(b"R{not json NaN \\\\u0000")
    return "real"
"""
    assert jobs.python(code).error["name"] == "InvalidResult"
    assert jobs.python("def main():\n    return 1").result == 1


# --- surroundings ---


def test_output_of_the_script_and_its_children_comes_in_order(jobs: Jobs) -> None:
    code = """
import subprocess, sys
def main():
    print("one")
    subprocess.run(["echo", "two"])
    print("three", file=sys.stderr)
    subprocess.run("echo four >&2", shell=True)
    print("five", end="")
"""
    assert jobs.python(code).log.text == "one\ntwo\nthree\nfour\nfive"


def test_output_arrives_while_the_job_runs(jobs: Jobs) -> None:
    import asyncio

    code = "import time\ndef main():\n    print('now', end='')\n    time.sleep(60)"

    async def run() -> None:
        log = Log()
        job = asyncio.create_task(jobs.run("python3", code, log=log))
        await log.wait_for("now")
        job.cancel()
        await asyncio.wait([job])

    jobs.runner.run(run())


def test_the_script_is_a_module_named_by_its_path(jobs: Jobs) -> None:
    code = "import sys\ndef main():\n    return [__name__, __file__, sys.argv, __name__ in sys.modules]"

    assert jobs.python(code, script_path=REPORT).result == [
        "f.ops.report",
        "f/ops/report.py",
        ["f/ops/report.py"],
        True,
    ]
    assert jobs.python(code).result[0] == "tmp.main"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("f/ops/2024-report", "f/ops/_2024_report.py"),
        ("u/alice@example/my script", "u/alice.example/my_script.py"),
        ("f/../../etc/passwd", "f/_/_/etc/passwd.py"),
        (None, "tmp/main.py"),
    ],
)
def test_paths_become_module_files_inside_the_job_folder(path: str | None, expected: str) -> None:
    assert module_path(path) == expected


def test_a_script_can_import_what_it_writes_and_what_the_worker_offers(jobs: Jobs) -> None:
    code = """
def main():
    open("sibling.py", "w").write("x = 41")
    import sibling, company_tools
    return [sibling.x + 1, company_tools.greet("you")]
"""
    assert jobs.python(code).result == [42, "hello you"]


def test_packages_of_the_worker_are_not_importable(jobs: Jobs) -> None:
    assert jobs.python("import django\ndef main():\n    pass").error["name"] == "ModuleNotFoundError"


def test_threads_and_processes_work_and_are_waited_for(jobs: Jobs) -> None:
    code = """
import multiprocessing, threading, time
def double(n):
    return n * 2
def late():
    time.sleep(0.1)
    print("late")
def main():
    threading.Thread(target=late).start()
    with multiprocessing.Pool(2) as pool:
        return pool.map(double, [1, 2, 3])
"""
    ran = jobs.python(code, script_path=REPORT)

    assert ran.result == [2, 4, 6]
    assert ran.log.text == "late\n"


def test_every_job_draws_other_random_numbers(jobs: Jobs) -> None:
    code = "import random, uuid\ndef main():\n    return [random.random(), str(uuid.uuid4())]"

    assert len({json.dumps(jobs.python(code).result) for _ in range(4)}) == 4


def test_a_timezone_in_the_environment_counts(jobs: Jobs) -> None:
    code = "import time\ndef main():\n    return time.strftime('%H', time.localtime(0))"

    assert jobs.python(code, env={"TZ": "Asia/Tokyo"}).result == "09"
    assert jobs.python(code).result == "00"


def scripts(**code_by_path: str) -> dict[str, Imported]:
    """Scripts that came with the job; `f__ops__lib` stands for f/ops/lib."""
    by_path = {path.replace("__", "/"): code for path, code in code_by_path.items()}
    return {path: Imported(path=path, language="python3", content=code) for path, code in by_path.items()}


@pytest.mark.parametrize(
    "statement",
    [
        "from f.ops.lib import x",
        "from .lib import x",
        "from ..ops.lib import x",
        "from f.ops import lib\nx = lib.x",
        "from . import lib\nx = lib.x",
        "import f.ops.lib as s\nx = s.x",
        "import f.ops.lib\nx = f.ops.lib.x",
    ],
)
def test_scripts_that_came_with_the_job_are_imported_without_a_server(jobs: Jobs, statement: str) -> None:
    imports = scripts(f__ops__lib="from u.alice.deep.more import y\nx = y + 1", u__alice__deep__more="y = 41")

    ran = jobs.python(f"{statement}\ndef main():\n    return x", script_path=REPORT, imports=imports)

    assert ran.result == 42


def test_imported_scripts_may_lie_in_folders_whose_names_are_no_python_names(jobs: Jobs) -> None:
    imports = {"f/my-team/lib": Imported(path="f/my-team/lib", language="python3", content="x = 1")}
    code = (
        "from .lib import x\nfrom f.my_team.lib import x as same\ndef main():\n    return [x, same, __name__]"
    )

    assert jobs.python(code, script_path="f/my-team/2-report", imports=imports).result == [
        1,
        1,
        "f.my_team._2_report",
    ]


def test_an_error_in_an_imported_script_is_shown_with_its_own_file_and_line(jobs: Jobs) -> None:
    imports = scripts(f__ops__lib="def fail():\n    raise ValueError('in lib')\n")

    error = jobs.python(
        "from .lib import fail\ndef main():\n    fail()", script_path=REPORT, imports=imports
    ).error

    assert error["stack"] == (
        '  File "f/ops/report.py", line 3, in main\n    fail()\n\n'
        "  File \"f/ops/lib.py\", line 2, in fail\n    raise ValueError('in lib')\n"
    )


def test_a_syntax_error_in_an_imported_script_names_its_file(jobs: Jobs) -> None:
    error = jobs.python(
        "from .lib import x\ndef main(): ...", script_path=REPORT, imports=scripts(f__ops__lib="x = (\n")
    ).error

    assert error["name"] == "SyntaxError"
    assert 'File "f/ops/lib.py", line 1' in error["stack"]


def test_scripts_of_other_languages_are_no_modules(jobs: Jobs) -> None:
    imports = {"f/ops/lib": Imported(path="f/ops/lib", language="bun", content="export const x = 1")}

    ran = jobs.python("from .lib import x\ndef main(): ...", script_path=REPORT, imports=imports)

    assert "cannot import f/ops/lib" in ran.error["message"]


def test_other_scripts_of_the_workspace_are_imported_through_the_api(jobs: Jobs) -> None:
    asked: list[tuple[str, str]] = []
    scripts = {
        "f/ops/shared": "from f.ops.deep.more import y\nx = y + 1\n\ndef fail():\n    raise ValueError('in shared')",
        "f/ops/deep/more": "y = 41",
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            name = self.path.removeprefix("/api/w/demo/scripts/raw/p/").removesuffix(".py")
            self.send_response(200 if name in scripts else 404)
            self.end_headers()
            self.wfile.write(scripts.get(name, "Not found").encode())

        def log_message(self, *args: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = {
            "BASE_INTERNAL_URL": f"http://127.0.0.1:{server.server_port}",
            "WM_TOKEN": "t",
            "WM_WORKSPACE": "demo",
        }
        good = jobs.python("from .shared import x\ndef main():\n    return x", script_path=REPORT, env=env)
        elsewhere = jobs.python(
            "from f.ops.shared import x\ndef main():\n    return x", script_path="u/al/x", env=env
        )
        failing = jobs.python(
            "from f.ops.shared import fail\ndef main():\n    fail()", script_path=REPORT, env=env
        )
        missing = jobs.python(
            "from f.ops.absent import x\ndef main():\n    pass", script_path=REPORT, env=env
        )
        server.shutdown()

    assert (good.result, elsewhere.result) == (42, 42)
    assert ("/api/w/demo/scripts/raw/p/f/ops/shared.py", "Bearer t") in asked
    assert 'File "f/ops/shared.py", line 5, in fail' in failing.error["stack"]
    assert missing.error["message"] == "no script f/ops/absent in this workspace, or no right to read it"


def test_a_job_without_a_server_cannot_import_scripts_and_says_why(jobs: Jobs) -> None:
    message = jobs.python("from f.ops.shared import x\ndef main():\n    pass", script_path=REPORT).error[
        "message"
    ]

    assert "this job has no server to ask" in message
