"""What a Go script may rely on. The first job of a fresh cache compiles Go's standard library: ten seconds and more."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workers.job_runs import Jobs, Log
from tests.workers.runtimes import go_proxy
from workers.runtimes import Execution, ExecutionFailed, Limits, Registries
from workers.runtimes.go import Go, crash_error
from workers.runtimes.go_builds import GO
from workers.runtimes.tools import find

GREETINGS = go_proxy.module(
    "example.org/greetings",
    "v1.2.0",
    'package greetings\n\nfunc Hello(name string) string { return "hello " + name }\n',
)
USES_GREETINGS = """package inner

import "example.org/greetings"

func main(name string) (string, error) {
	return greetings.Hello(name), nil
}
"""


def returning(kind: str, expression: str, imports: str = "") -> str:
    return f"package inner\n\n{imports}\n\nfunc main() ({kind}, error) {{\n\treturn {expression}, nil\n}}\n"


def test_every_type_of_argument_arrives(jobs: Jobs) -> None:
    code = """package inner

import (
	"fmt"
	"time"
)

type Place struct {
	Name string `json:"name"`
	At   []float64
}

func main(s string, i int, f float64, b bool, l []string, bytes []byte, when time.Time, p Place, m map[string]interface{},
	anything interface{}, pointer *int, missing *int, numbers ...int) (string, error) {
	words := []any{s, i, f, b, l, string(bytes), when.Year(), p, m["k"], anything, *pointer, missing == nil, numbers}
	return fmt.Sprintln(words...), nil
}
"""
    args = {
        "s": "é",
        "i": 3,
        "f": 2.5,
        "b": True,
        "l": ["x", "y"],
        "bytes": "aGk=",
        "when": "2024-05-06T07:08:09.000Z",
        "p": {"name": "home", "At": [1, 2]},
        "m": {"k": [1, None]},
        "anything": "text",
        "pointer": 7,
        "numbers": [1, 2],
    }

    assert jobs("go", code, args=args).result == (
        "é 3 2.5 true [x y] hi 2024 {home [1 2]} [1 <nil>] text 7 true [1 2]\n"
    )


def test_what_is_not_given_has_the_zero_value(jobs: Jobs) -> None:
    code = "package inner\n\nfunc main(s string, n int, _ bool) (any, error) { return []any{s, n}, nil }\n"

    assert jobs("go", code, args={"n": None}).result == ["", 0]


def test_a_wrong_argument_is_named(jobs: Jobs) -> None:
    code = "package inner\n\nfunc main(s string, n int, _ bool) (any, error) { return []any{s, n}, nil }\n"

    assert jobs("go", code, args={"n": "three"}).error == {
        "name": "ArgumentError",
        "message": "The argument n cannot be read as int: json: cannot unmarshal string into Go value of type int",
    }


def test_results_of_every_kind(jobs: Jobs) -> None:
    code = """package inner

type T struct {
	A string `json:"a"`
	B []byte
}

func main(kind string) (any, error) {
	switch kind {
	case "struct":
		return T{"<&>\\u2028é", []byte("hi")}, nil
	case "map":
		return map[string]any{"b": 1, "a": []int{}}, nil
	case "large":
		return int64(9007199254740993), nil
	case "text":
		return "\\xff\\x00", nil
	}
	return nil, nil
}
"""

    def result(kind: str) -> object:
        return jobs("go", code, args={"kind": kind}).result

    assert result("struct") == {"a": "<&>\u2028é", "B": "aGk="}
    assert result("map") == {"a": [], "b": 1}
    assert result("large") == 9007199254740993
    assert result("text") == "\ufffd"
    assert result("") is None


@pytest.mark.parametrize(
    ("signature", "body", "result"),
    [
        ("", "return", None),
        ("error", "return nil", None),
        ("int", "return 3", 3),
        ("(int, string, error)", 'return 3, "x", nil', [3, "x"]),
    ],
)
def test_main_may_return_more_or_less_than_a_value_and_an_error(
    jobs: Jobs, signature: str, body: str, result: object
) -> None:
    assert jobs("go", f"package inner\n\nfunc main() {signature} {{ {body} }}\n").result == result


def test_a_result_that_json_cannot_hold_is_refused_with_the_reason(jobs: Jobs) -> None:
    error = jobs("go", returning("float64", "math.NaN()", 'import "math"')).error

    assert error["name"] == "InvalidResult"
    assert error["message"] == "The result cannot be written as JSON: json: unsupported value: NaN"


def test_a_returned_error_fails_the_job_under_its_type(jobs: Jobs) -> None:
    code = """package inner

import "errors"

type NotFound struct{ what string }

func (e *NotFound) Error() string { return e.what + " is not there" }

func main(own bool) (int, error) {
	if own {
		return 0, &NotFound{"it"}
	}
	return 0, errors.New("no")
}
"""

    assert jobs("go", code, args={"own": False}).error == {"name": "Error", "message": "no"}
    assert jobs("go", code, args={"own": True}).error == {"name": "NotFound", "message": "it is not there"}


def test_a_panic_tells_the_authors_lines(jobs: Jobs) -> None:
    code = "package inner\n\nfunc at(l []int, i int) int {\n\treturn l[i]\n}\n\nfunc main(i int) (int, error) {\n"
    code += "\treturn at([]int{1}, i), nil\n}\n"

    ran = jobs("go", code, args={"i": 5})

    assert ran.error == {
        "name": "Panic",
        "message": "runtime error: index out of range [5] with length 1",
        "stack": "inner.at\n\tmain.go:4\ninner.main\n\tmain.go:8",
    }
    assert "panic: runtime error" in ran.log.text


def test_a_panic_elsewhere_and_a_deadlock_are_told_too(jobs: Jobs) -> None:
    code = """package inner

func main(panics bool) {
	if panics {
		go func() { panic("in\\nbackground") }()
	}
	<-make(chan int)
}
"""
    panicked = jobs("go", code, args={"panics": True}).error
    stuck = jobs("go", code).error

    assert (panicked["name"], panicked["message"].split()) == ("Panic", ["in", "background"])
    assert panicked["stack"].startswith("inner.main.func1\n\tmain.go:5")
    assert (stuck["name"], stuck["message"]) == ("FatalError", "all goroutines are asleep - deadlock!")
    assert stuck["stack"] == "inner.main\n\tmain.go:7"


def test_only_a_report_of_go_itself_is_taken_for_a_panic() -> None:
    assert crash_error("panic: not really\n\nmore\n") is None
    assert crash_error("panic: mine\npanic: real\n\t[signal SIGSEGV: x]\n\ngoroutine 1 [running]:\n") == {
        "name": "Panic",
        "message": "real\n\t[signal SIGSEGV: x]",
        "stack": "",
    }


def test_leaving_the_program_is_told(jobs: Jobs) -> None:
    code = 'package inner\n\nimport "os"\n\nfunc main(code int) {\n\tprintln("bye")\n\tos.Exit(code)\n}\n'

    assert jobs("go", code, args={"code": 3}).error["message"] == "ExitCode: 3, last log lines:\nbye"
    assert jobs("go", code, args={"code": 0}).error["message"] == (
        "The program ended before main returned; os.Exit does that"
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "package inner\n\nfunc main() {\n\tx := 1\n}\n",
            "The script does not compile:\nmain.go:4:2: declared and not used: x",
        ),
        (
            'package inner\r\n\r\nfunc main() (int, error) {\r\n\treturn "x", nil\r\n}\r\n',
            'The script does not compile:\nmain.go:4:9: cannot use "x" (untyped string constant) as int value in return '
            "statement",
        ),
        (
            'package inner\n\nimport "no/such"\n\nfunc main() { such.F() }\n',
            "The script does not compile:\nmain.go:3:8: package no/such is not in std",
        ),
        (
            'package inner\n\nimport "example.org/x"\n\nfunc main() { x.F() }\n',
            "The script does not compile:\nmain.go:3:8: the lock of the script has no module with package example.org/x",
        ),
        (
            "package inner\n\nfunc helper() {}\n",
            "The script has no function main: write func main(...) (T, error) in it.",
        ),
        (
            "// hello\npackage main\n\nfunc main() {}\n",
            "main.go:2: the script has to begin with package inner: a program is compiled around it, which is package "
            "main.",
        ),
        (
            "package inner\n\nfunc main(x int {\n}\n",
            "The script does not compile:\nmain.go:3:10: '(' was never closed.",
        ),
        ("", "The script has no function main: write func main(...) (T, error) in it."),
    ],
)
def test_what_cannot_be_compiled_is_told_at_the_authors_line(jobs: Jobs, code: str, message: str) -> None:
    assert jobs("go", code).error["message"] == message


def test_windows_line_endings_and_another_entrypoint_are_no_problem(jobs: Jobs) -> None:
    code = "package inner\r\n\r\nfunc main() {}\r\n\r\nfunc Other(n int) (int, error) {\r\n\treturn n + 1, nil\r\n}\r\n"

    assert jobs("go", code, args={"n": 1, "_ENTRYPOINT_OVERRIDE": "Other"}).result == 2
    assert "no function nope" in jobs("go", code, entrypoint="nope").error["message"]
    assert jobs("go", code, entrypoint="main(); func x() {").error["name"] == "MissingEntrypoint"


def test_output_of_any_bytes_is_log_and_not_the_result(jobs: Jobs) -> None:
    code = """package inner

import "os"

func main() (int, error) {
	os.Stdout.Write([]byte("\\xff\\x00{\\"a\\": 1}\\n"))
	os.Chdir("/")
	return 1, nil
}
"""
    ran = jobs("go", code)

    assert ran.result == 1
    assert ran.log.text.endswith('\ufffd{"a": 1}\n')


def test_a_script_is_compiled_once(jobs: Jobs) -> None:
    code = returning("int", "12345")

    assert "compiled in" in jobs("go", code).log.text
    assert jobs("go", code).log.text == ""


def test_time_and_memory_are_limited(jobs: Jobs) -> None:
    code = """package inner

func main(eat bool) (int, error) {
	kept := [][]byte{}
	for {
		if eat {
			block := make([]byte, 8<<20)
			for i := range block {
				block[i] = 1
			}
			kept = append(kept, block)
		}
	}
}
"""
    slow = jobs("go", code, timeout_s=1)
    fat = jobs("go", code, args={"eat": True}, limits=Limits(memory_bytes=150 << 20), timeout_s=60)

    assert "timed out" in slow.error["message"]
    assert re.search(r"more than its 150 MB of memory \(peak \d+ MB\)", fat.error["message"])


def test_a_result_that_is_too_large_is_refused(jobs: Jobs) -> None:
    code = returning("string", 'strings.Repeat("x", 5000)', 'import "strings"')

    assert jobs("go", code, limits=Limits(result_bytes=1000)).error["name"] == "ResultTooLarge"


# --- modules ---


def test_a_script_of_the_standard_library_alone_needs_no_lock(jobs: Jobs) -> None:
    assert jobs.lock("go", returning("string", 'strings.ToUpper("x")', 'import "strings"')) == ""


def test_modules_are_locked_and_used(jobs: Jobs) -> None:
    with go_proxy.serving(GREETINGS) as address:
        registries = Registries(go_proxy=address)
        lock = jobs.lock("go", USES_GREETINGS, registries=registries)
        ran = jobs("go", USES_GREETINGS, args={"name": "you"}, lock=lock, registries=registries)

    go_mod, go_sum = lock.split("//go.sum\n")
    assert "require example.org/greetings v1.2.0" in go_mod
    assert go_sum.startswith("example.org/greetings v1.2.0 h1:")
    assert ran.result == "hello you"
    # What was downloaded and compiled stays: a changed script needs no proxy, nor does a lock without checksums.
    changed = USES_GREETINGS.replace("Hello(name)", 'Hello("dear " + name)')
    assert (
        jobs("go", changed, args={"name": "you"}, lock=lock, registries=registries).result == "hello dear you"
    )


def test_a_go_mod_alone_is_a_lock(jobs: Jobs) -> None:
    with go_proxy.serving(GREETINGS) as address:
        lock = "module mymod\n\ngo 1.20\n\nrequire example.org/greetings v1.2.0\n"
        ran = jobs(
            "go", USES_GREETINGS, args={"name": "all"}, lock=lock, registries=Registries(go_proxy=address)
        )

    assert ran.result == "hello all"


def test_a_comment_asks_for_a_version(jobs: Jobs) -> None:
    newer = go_proxy.module(
        "example.org/greetings", "v1.3.0", "package greetings\n\nfunc Hello(n string) string { return n }\n"
    )
    both = {**GREETINGS, **newer, "/example.org/greetings/@v/list": b"v1.2.0\nv1.3.0\n"}
    asking = f"//go_mod:\n//require example.org/greetings v1.2.0\n{USES_GREETINGS}"

    with go_proxy.serving(both) as address:
        latest = jobs.lock("go", USES_GREETINGS, registries=Registries(go_proxy=address))
        asked = jobs.lock("go", asking, registries=Registries(go_proxy=address))

    assert "greetings v1.3.0" in latest
    assert "greetings v1.2.0" in asked


def test_a_module_that_does_not_exist_is_told_with_its_name(jobs: Jobs) -> None:
    with go_proxy.serving({}) as address, pytest.raises(ExecutionFailed) as failed:
        jobs.lock("go", USES_GREETINGS, registries=Registries(go_proxy=address))

    message = failed.value.error["message"]
    assert message.startswith(f"The module proxy {address} does not have a module that the script needs")
    assert "example.org/greetings" in message


def test_a_proxy_that_cannot_be_reached_is_told_without_its_password(jobs: Jobs) -> None:
    with pytest.raises(ExecutionFailed) as failed:
        jobs.lock("go", USES_GREETINGS, registries=Registries(go_proxy="https://me:pa55word@127.0.0.1:1/go"))

    message = failed.value.error["message"]
    assert message.startswith("The module proxy https://127.0.0.1:1/go cannot be reached.")
    assert "pa55word" not in message


def test_a_silent_proxy_does_not_hold_a_job_for_ever(jobs: Jobs, tmp_path: Path) -> None:
    tool = find(GO)
    assert tool is not None
    go = Go(replace(jobs.site, tools={GO.name: tool}, cache_dir=tmp_path), resolve_timeout_s=1)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        execution = Execution(
            job_id="j",
            workspace_id="w",
            language="go",
            code=USES_GREETINGS,
            args={},
            env={},
            registries=Registries(go_proxy=address),
        )
        with pytest.raises(ExecutionFailed) as failed:
            jobs.runner.run(go.resolve(execution, Log()))

    assert failed.value.error["message"] == (
        f"The module proxy {address} has not sent the modules of the imported packages within 1 seconds."
    )


def test_a_source_that_cannot_be_read_has_no_lock(jobs: Jobs) -> None:
    code = 'package inner\n\nimport "example.org/x"\n\nfunc main() {\n\tx := := 3\n}\n'

    with pytest.raises(ExecutionFailed) as failed:
        jobs.lock("go", code, registries=Registries(go_proxy="http://127.0.0.1:1"))

    assert failed.value.error["name"] in ("CompileError", "DependencyError")
