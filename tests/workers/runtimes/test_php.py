"""What a PHP script may rely on."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from jobs.dependencies import WantedFiles
from tests.workers.job_runs import Jobs
from tests.workers.runtimes import go_proxy
from workers.runtimes import ExecutionFailed, Limits
from workers.runtimes.php import script_file

# In CI what is missing fails.
pytestmark = pytest.mark.skipif(
    shutil.which("php") is None and not os.environ.get("CI"), reason="PHP is not installed"
)


def test_every_type_of_argument_arrives(jobs: Jobs) -> None:
    code = """<?php
enum Suit: string { case Hearts = 'h'; case Spades = 's'; }
enum Plain { case A; case B; }
function main(string $s, int $i, float $f, bool $b, array $list, array $map, object $o, stdClass $std, Suit $suit,
    Plain $plain, DateTime $when, DateTimeInterface $day, ?int $none, int|array $either, mixed $any, $untyped,
    &$ref, int ...$rest) {
    $ref = 1;
    return [$s, $i, $f, $b, $list, $map['k']['deep'], $o->k->deep, $std->k, $suit->name, $plain->name,
        $when->format('Y'), $day->format('m'), $none, $either, $any['k'], $untyped['k'], $ref, $rest];
}
"""
    args: dict[str, Any] = {
        "s": "é",
        "i": 3,
        "f": 2,
        "b": True,
        "list": ["x", 1],
        "map": {"k": {"deep": 1}},
        "o": {"k": {"deep": 2}},
        "std": {"k": []},
        "suit": "s",
        "plain": "B",
        "when": "2024-05-06T07:08:09.000Z",
        "day": "2023-11-12",
        "either": {"a": 1},
        "any": {"k": 4},
        "untyped": {"k": 5},
        "ref": 0,
        "rest": [1, 2],
    }

    assert jobs("php", code, args=args).result == [
        *("é", 3, 2.0, True, ["x", 1], 1, 2, [], "Spades", "B", "2024", "11", None, {"a": 1}, 4, 5, 1, [1, 2])
    ]


def test_a_resource_is_an_object_of_its_class_or_of_any(jobs: Jobs) -> None:
    code = """<?php
class Db {
    public string $host;
    public ?Db $replica = null;
    public function __construct(public readonly int $port = 5432) {}
    public function url() { return "$this->host:$this->port"; }
}
function main(Db $db, Postgresql $undeclared) {
    return [$db->url(), $db->replica->url(), $undeclared->host, $undeclared->options['a']];
}
"""
    db = {"host": "a", "port": 1, "unknown": 1, "replica": {"host": "b", "port": 2}}

    ran = jobs("php", code, args={"db": db, "undeclared": {"host": "c", "options": {"a": 3}}})

    assert ran.result == ["a:1", "b:2", "c", 3]


def test_defaults_apply_where_nothing_is_given(jobs: Jobs) -> None:
    code = "<?php function main($a = [1], int $n = 3, $v = PHP_VERSION_ID, ?int $x = 1) { return [$a, $n, $v > 1, $x]; }"

    assert jobs("php", code, args={"n": None, "v": "<function call>"}).result == [[1], 3, True, 1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"s": "x", "n": "three"}, "main(): Argument #2 ($n) must be of type int, string given"),
        ({"s": "x"}, "main(): Argument #2 ($n) must be of type int, null given"),
        ({"s": {}, "n": 1}, "main(): Argument #1 ($s) must be of type string, array given"),
    ],
)
def test_a_wrong_argument_is_named(jobs: Jobs, args: dict[str, Any], message: str) -> None:
    error = jobs(
        "php", "<?php\n\nfunction main(string $s, int $n) {}", args=args, script_path="f/ops/report"
    ).error

    assert (error["name"], error["message"], error["stack"]) == ("TypeError", message, "f/ops/report.php:3")


def test_results_of_every_kind(jobs: Jobs) -> None:
    def result(expression: str) -> object:
        return jobs("php", f"<?php function main() {{ return {expression}; }}").result

    assert result("['b' => 1.0, 'a' => [0.1 + 0.2], 'o' => new stdClass]") == {
        "b": 1.0,
        "a": [0.1 + 0.2],
        "o": {},
    }
    assert result("9007199254740993") == 9007199254740993
    assert result('"a\\xffb\\0/é\\u{2028}"') == "a\ufffdb/é\u2028"
    assert result("[NAN, [INF], 1.5]") == [None, [None], 1.5]
    assert result("new ArrayIterator([1, 2])") == [1, 2]
    assert result("null") is None
    assert jobs("php", "<?php function main() { yield 1; yield 2; }").result == [1, 2]


def test_a_result_that_json_cannot_hold_is_refused_with_the_reason(jobs: Jobs) -> None:
    error = jobs("php", "<?php function main() { $a = []; $a[0] = &$a; return $a; }").error

    assert error["message"].startswith("The result cannot be written as JSON: ")


def test_an_exception_tells_the_authors_lines(jobs: Jobs) -> None:
    code = """<?php

function half($n) {
    throw new DomainException("no half of $n");
}

function main() {
    try {
        half(3);
    } catch (DomainException $e) {
        throw new RuntimeException('gave up', 0, $e);
    }
}
"""

    assert jobs("php", code.replace("\n", "\r\n"), script_path="f/ops/report").error == {
        "name": "RuntimeException",
        "message": "gave up",
        "stack": "f/ops/report.php:11\ncaused by DomainException: no half of 3\nf/ops/report.php:4\n"
        "f/ops/report.php:9 half()",
    }


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        (
            "<?php\n\nfunction main() {\n  $x = ;\n}",
            "ParseError",
            'syntax error, unexpected token ";" in tmp/main.php on line 4',
        ),
        (
            "<?php\n\nfunction main() {}\nfunction main() {}",
            "FatalError",
            "Cannot redeclare main() (previously declared in",
        ),
        ("<?php\nfunction main() { return 1 % 0; }", "DivisionByZeroError", "Modulo by zero"),
        ("<?php\nfunction main() { nope(); }", "Error", "Call to undefined function nope()"),
        (
            "<?php\nfunction helper() {}",
            "MissingEntrypoint",
            "The script has no function main: write function main(...) in it.",
        ),
        (
            "<?php function main() { exit(0); }",
            "ExecutionErr",
            "The script ended before main returned; exit and die do that",
        ),
        ("function main() {}", "MissingEntrypoint", "The script has no function main"),
        (
            "<?php trigger_error('enough', E_USER_ERROR); function main() {}",
            "FatalError",
            "enough in tmp/main.php on line 1",
        ),
    ],
)
def test_what_goes_wrong_is_told(jobs: Jobs, code: str, name: str, message: str) -> None:
    error = jobs("php", code).error

    assert error["name"] == name
    assert error["message"].startswith(message)


def test_warnings_go_to_the_log(jobs: Jobs) -> None:
    ran = jobs("php", "<?php\nfunction main() {\n  echo $undefined;\n  return 1;\n}")

    assert ran.result == 1
    assert "Warning: Undefined variable $undefined in " in ran.log.text
    assert "main.php on line 3" in ran.log.text


def test_arguments_are_not_in_a_stack(jobs: Jobs) -> None:
    code = "<?php\nfunction f($secret) { throw new Exception('x'); }\nfunction main($s) { f($s); }"

    assert "pa55word" not in json.dumps(jobs("php", code, args={"s": "pa55word"}).error)


def test_main_is_found_in_a_namespace_and_in_any_case(jobs: Jobs) -> None:
    assert (
        jobs("php", "<?php\nnamespace A\\B;\nfunction Main(int $n) { return $n + 1; }", args={"n": 1}).result
        == 2
    )
    code = "<?php function main() {} function other() { return 'other'; }"
    assert jobs("php", code, args={"_ENTRYPOINT_OVERRIDE": "other"}).result == "other"


def test_a_script_sees_its_own_global_variables(jobs: Jobs) -> None:
    assert jobs("php", "<?php\n$n = 3;\nfunction main() { global $n; return [$n, __FILE__]; }").result == [
        3,
        "/tmp/job/tmp/main.php",
    ]


def test_strict_types_are_the_scripts_own_business(jobs: Jobs) -> None:
    code = "<?php\ndeclare(strict_types=1);\nfunction main(int $n) { return $n; }"

    assert jobs("php", code, args={"n": "4"}).result == 4


def test_output_of_any_bytes_is_log_and_not_the_result(jobs: Jobs) -> None:
    ran = jobs(
        "php",
        "<?php\nfunction main() { echo \"\\xff\\0{}\\n\"; chdir('/'); fwrite(STDERR, 'err'); return 1; }",
    )

    assert (ran.result, ran.log.text) == (1, "\ufffd{}\nerr")


def test_time_memory_and_results_are_limited(jobs: Jobs) -> None:
    slow = jobs("php", "<?php function main() { while (true) { } }", timeout_s=1)
    fat = jobs(
        "php",
        '<?php function main() { $a = []; while (true) { $a[] = str_repeat("x", 1000000); } }',
        limits=Limits(memory_bytes=100 << 20),
    )
    long = jobs(
        "php", '<?php function main() { return str_repeat("x", 5000); }', limits=Limits(result_bytes=1000)
    )

    assert "timed out" in slow.error["message"]
    assert fat.error["message"].startswith("The job asked for more than its 100 MB of memory (peak ")
    assert fat.error["message"].endswith("main.php on line 1")
    assert long.error["name"] == "ResultTooLarge"


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("f/ops/report", "f/ops/report.php"),
        (None, "tmp/main.php"),
        ("../../etc/x", "etc/x.php"),
        ("/", "main.php"),
        ("f/./a b", "f/a b.php"),
    ],
)
def test_a_script_lies_at_its_path_in_the_jobs_folder(path: str | None, file: str) -> None:
    assert script_file(path) == file


# --- packages ---

needs_composer = pytest.mark.skipif(
    (shutil.which("composer") is None or shutil.which("unzip") is None) and not os.environ.get("CI"),
    reason="Composer or unzip is not installed",
)
USES_HELLO = """<?php
// require:
// acme/hello@1.0.0

function main(string $name) {
    return Acme\\hello($name);
}
"""


def packages(address: str) -> Mapping[str, bytes]:
    """A package repository with acme/hello 1.0.0, which would run something if it were let."""
    composer = {
        "name": "acme/hello",
        "version": "1.0.0",
        "autoload": {"files": ["hello.php"]},
        "scripts": {"post-install-cmd": "touch /tmp/ran"},
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("composer.json", json.dumps(composer))
        archive.writestr("hello.php", '<?php namespace Acme; function hello($n) { return "hello $n"; }')
    dist = {"type": "zip", "url": f"{address}/hello.zip"}
    listed = {"packages": {"acme/hello": {"1.0.0": {**composer, "dist": dist}}}}
    return {"/packages.json": json.dumps(listed).encode(), "/hello.zip": packed.getvalue()}


@pytest.fixture
def repository() -> Iterator[WantedFiles]:
    """The default composer.json of a workspace with a repository of its own."""
    files: dict[str, bytes] = {}
    with go_proxy.serving(files) as address:
        files.update(packages(address))
        project = {
            "repositories": [{"type": "composer", "url": address}, {"packagist.org": False}],
            "config": {"secure-http": False},
        }
        yield WantedFiles(by_name={"": json.dumps(project)})


def test_a_script_without_packages_needs_no_lock(jobs: Jobs, repository: WantedFiles) -> None:
    assert jobs.lock("php", "<?php function main() {}", wanted_files=repository) == ""


@needs_composer
def test_packages_are_locked_and_used(jobs: Jobs, repository: WantedFiles) -> None:
    lock = jobs.lock("php", USES_HELLO, wanted_files=repository)
    first = jobs("php", USES_HELLO, args={"name": "you"}, lock=lock)
    again = jobs("php", USES_HELLO, args={"name": "all"}, lock=lock)

    composer_json, composer_lock = lock.split("\n//composer.lock\n")
    assert json.loads(composer_json)["require"] == {"acme/hello": "1.0.0"}
    assert json.loads(composer_lock)["packages"][0]["version"] == "1.0.0"
    assert "installing packages" in first.log.text
    assert (first.result, again.result, again.log.text) == ("hello you", "hello all", "")


@needs_composer
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("acme/nope", "There is no package acme/nope in the package repositories."),
        ("acme/hello@9.0.0", "There is no version that fits acme/hello 9.0.0 in the package repositories."),
    ],
)
def test_a_package_that_cannot_be_had_is_told(
    jobs: Jobs, repository: WantedFiles, asked: str, message: str
) -> None:
    with pytest.raises(ExecutionFailed) as failed:
        jobs.lock("php", USES_HELLO.replace("acme/hello@1.0.0", asked), wanted_files=repository)

    assert failed.value.error["message"].splitlines()[0] == message


@needs_composer
def test_a_repository_that_cannot_be_reached_is_told_without_its_password(jobs: Jobs) -> None:
    project = {
        "repositories": [
            {"type": "composer", "url": "https://me:pa55word@127.0.0.1:1/"},
            {"packagist.org": False},
        ]
    }
    with pytest.raises(ExecutionFailed) as failed:
        jobs.lock("php", USES_HELLO, wanted_files=WantedFiles(by_name={"": json.dumps(project)}))

    assert failed.value.error["message"].startswith("A package repository cannot be reached.")
    assert "pa55word" not in failed.value.error["message"]


def test_a_comment_that_names_no_package_is_told_with_its_line(jobs: Jobs) -> None:
    with pytest.raises(ExecutionFailed) as failed:
        jobs.lock("php", "<?php\n// require:\n// not a package\n")

    assert failed.value.error["message"].startswith("Line 3 names no package: 'not a package'")
