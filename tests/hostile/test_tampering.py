"""Jobs that change the code around them, or lie about their result: they deceive nobody but themselves."""

import gc
import resource
from typing import Any

import pytest

from tests.hostile.conftest import Place

FIND_SOCKET = """
import gc, os, socket, stat
def worker():
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                return socket.socket(fileno=os.dup(fd))
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    "change",
    [
        "import builtins; builtins.open = builtins.len = builtins.isinstance = builtins.print = None",
        "import json; json.dumps = json.loads = None; json.encoder.JSONEncoder = None",
        "import os; os._exit = lambda code: None",
        "import os, signal; os._exit = lambda code: signal.pause() or os._exit(code)",
        "import sys; [sys.modules.pop(name) for name in list(sys.modules)]",
        "import sys; sys.stdout = sys.stderr = None; sys.excepthook = None",
        "import sys; sys.setrecursionlimit(50)",
        "import threading; threading._shutdown = lambda: 1 / 0",
        "import atexit, os; atexit.register(os.abort)",
        "import gc, types; [setattr(o, 'send', None) for o in gc.get_objects() if isinstance(o, types.ModuleType) and "
        "o.__name__.endswith('packets')]",
        "import sys; sys.settrace(lambda *given: 1 / 0)",
    ],
)
def test_whatever_a_script_does_to_its_interpreter_the_next_job_has_a_whole_one(
    place: Place, change: str
) -> None:
    place.run(
        "python3", f"def main():\n    {change}\n    return 1", timeout_s=1
    )  # how it ends is its own affair


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b'R"forged"', {"result": "forged"}),  # its own result: it could have returned that
        (b"Rnonsense", {"name": "InvalidResult"}),
        (b"Enonsense", {"name": "InvalidResult"}),
        (b'E{"name": 7}', {"name": "ExecutionErr"}),
        (b"Anonsense", {"name": "InvalidResult"}),
        (b"X{}", {"name": "ExecutionErr"}),  # what only a guard says
        (b"Fit failed", {"name": "ExecutionErr"}),
        (b"\\xff\\x00", {"name": "ExecutionErr"}),
    ],
)
def test_a_forged_message_is_at_most_the_jobs_own_result(
    place: Place, sent: bytes, told: dict[str, Any]
) -> None:
    text = repr(sent).replace("\\\\", "\\")
    ran = place.run("python3", f"{FIND_SOCKET}\ndef main():\n    worker().send({text})\n    os._exit(0)\n")

    if "result" in told:
        assert ran.result == told["result"]
    else:
        assert ran.error["name"] == told["name"]


def test_messages_without_end_cost_the_worker_no_memory(place: Place) -> None:
    code = f"""{FIND_SOCKET}
def main():
    one = worker()
    for kind in range(256):
        for _ in range(40):
            one.send(bytes([kind]) + b"x" * 60_000)
    return "never read"
"""
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    ran = place.run("python3", code)

    assert ran.error["name"] == "InvalidResult"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB; 600 MB were sent


def test_descriptors_sent_to_the_worker_do_not_stay_there(place: Place) -> None:
    code = f"""{FIND_SOCKET}
def main():
    one = worker()
    for _ in range(50):
        socket.send_fds(one, [b"rx"], [0] * 100)
    return "sent"
"""
    assert place.run("python3", code).error or True  # place.run counts the descriptors


def test_a_wrapper_that_is_overwritten_while_it_runs_harms_that_job_only(place: Place) -> None:
    code = """
import { readFileSync, writeFileSync, chmodSync, rmSync } from "node:fs";
export function main() {
  writeFileSync("wrapper.mjs", "process.exit(7)");
  for (const name of ["JSON", "Object", "Array", "Promise"]) globalThis[name] = undefined;
  return 1;
}
"""
    place.run("bun", code)

    assert place.run("bun", "export function main() { return JSON.stringify(1); }").result == "1"


def test_a_prototype_that_is_poisoned_harms_that_job_only(place: Place) -> None:
    code = """
export function main() {
  Object.prototype.toJSON = () => "poisoned";
  Array.prototype.map = () => { throw new Error("poisoned"); };
  return { a: 1 };
}
"""
    place.run("bun", code)

    assert place.run("bun", "export function main() { return { a: [1].map((x) => x) }; }").result == {
        "a": [1]
    }


def test_a_job_cannot_speak_for_the_fork_server_whose_memory_it_inherited(place: Place) -> None:
    code = """
import gc, os, socket, stat
def main():
    found = []
    for one in gc.get_objects():
        if isinstance(one, socket.socket) and one.fileno() >= 0:
            try:
                if stat.S_ISSOCK(os.fstat(one.fileno()).st_mode):
                    found.append(one.fileno())
            except OSError:
                pass  # a number of the fork server's, closed here
        if type(one).__name__ == "ForkServer":
            try:
                one._control.send(b'M{"op": "gone", "id": 1}')
                found.append("spoke for the fork server")
            except (OSError, ValueError):
                pass
    return found
"""
    found = place.run("python3", code).result

    assert len(found) <= 1 and "spoke for the fork server" not in found  # the one for its result


# By language: a script that imports something powerful, or whose language has it, and how to ask for it.
POWERFUL = {
    "python3": (
        "from functools import cache\nfrom subprocess import getoutput\n"
        "def main():\n    return 1\n@cache\ndef other():\n    return 2\n",
        {"_ENTRYPOINT_OVERRIDE": "getoutput", "cmd": "id"},
    ),
    "bun": (
        'import { execSync } from "node:child_process";\n'
        "export function main() { return 1; }\nexport function other() { return 2; }",
        {"_ENTRYPOINT_OVERRIDE": "execSync", "command": "id"},
    ),
    "php": (
        "<?php\nfunction main() { return 1; }\nfunction other() { return 2; }",
        {"_ENTRYPOINT_OVERRIDE": "shell_exec", "command": "id"},
    ),
}


@pytest.mark.parametrize("language", POWERFUL)
def test_who_may_only_run_a_script_gets_nothing_called_but_its_own_functions(
    place: Place, language: str
) -> None:
    if language not in place.jobs.executors:
        pytest.skip(f"{language} is not installed")
    code, args = POWERFUL[language]

    ran = place.run(language, code, args=args)

    assert ran.error["name"] == "MissingEntrypoint" and "uid=" not in str(ran.error)
    assert place.run(language, code, args={"_ENTRYPOINT_OVERRIDE": "other"}).result == 2
