"""Tricks with the files in which languages leave their result: nothing comes out that the job could not read itself."""

from typing import Any

import pytest

from tests.hostile.conftest import Place
from workers.runtimes import Limits

# By language: how a job of it runs a line of shell in its folder and then ends without a result of its own.
TRICKS = {
    "bash": "{line}",
    "bun": (
        'import {{ spawnSync }} from "node:child_process";\n'
        'export function main() {{ spawnSync("sh", ["-c", {line!r}]); process.exit(0); }}'
    ),
    "deno": (
        'export function main() {{ new Deno.Command("sh", {{ args: ["-c", {line!r}] }}).outputSync(); Deno.exit(0); }}'
    ),
    "php": "<?php\nfunction main() {{ shell_exec({line!r}); exit(0); }}",
}
LINKS = {
    "a symbolic link to a file of the system": "ln -sf /etc/passwd {file}",
    "a symbolic link to the guard's environment": "ln -sf /proc/1/environ {file}",
    "a symbolic link to the guard's standard input": "ln -sf /proc/1/fd/0 {file}",
    "a symbolic link to itself": "ln -sf {file} {file}",
    "a pipe": "mkfifo {file}",
    "a folder": "mkdir {file}",
}
FILES = {"bash": "result.json", "bun": ".result.json"}


def trick(language: str, line: str) -> str:
    return TRICKS[language].format(line=line)


@pytest.mark.parametrize("what", LINKS)
@pytest.mark.parametrize("language", TRICKS)
def test_what_is_no_plain_file_is_no_result(place: Place, language: str, what: str) -> None:
    if language not in place.jobs.executors:
        pytest.skip(f"{language} is not installed")
    files = ["result.json", "result.out", ".result.json", ".error.json", ".preprocessed.json"]
    line = "; ".join(f"rm -rf {file}; {LINKS[what].format(file=file)}" for file in files)

    # A wrapper that writes into a pipe waits for somebody to read it.
    ran = place.run(language, trick(language, line), timeout_s=2)

    seen: Any = ran.error or ran.result
    assert "root:" not in str(seen) and "PATH=" not in str(seen)
    assert ran.error or ran.result in (None, "")


def test_a_hard_link_to_a_file_of_the_system_cannot_be_made(place: Place) -> None:
    ran = place.run("bash", "ln /etc/passwd result.json 2>/dev/null || echo refused")

    assert ran.result == "refused"


def test_a_result_file_of_any_length_costs_no_more_than_results_may(place: Place) -> None:
    limits = Limits(result_bytes=1 << 20)

    for line in ("truncate -s 4G result.json", "head -c 3M /dev/zero | tr '\\0' 1 > result.json"):
        ran = place.run("bash", line, limits=limits)

        assert ran.error["name"] == "ResultTooLarge"


@pytest.mark.parametrize(
    "content",
    [
        "[" * 200_000,
        '{"a":' * 100_000,
        "1e999999",
        '"\\ud800"',
        '"\\u0000"',
        "NaN",
        "{",
        '{"wm_labels": 7}',
        '"' + "x" * 500_000,
    ],
    ids=[
        "deep list",
        "deep object",
        "huge number",
        "lone surrogate",
        "NUL",
        "NaN",
        "cut off",
        "labels",
        "endless text",
    ],
)
@pytest.mark.parametrize("language", ["bash", "bun"])
def test_no_content_upsets_the_worker(place: Place, language: str, content: str) -> None:
    name = FILES[language]
    if language == "bash":
        code = f"cat > {name} <<'END'\n{content}\nEND"
    else:
        code = (
            'import { writeFileSync } from "node:fs";\nexport function main() {\n'
            f"  writeFileSync({name!r}, String.raw`{content}`);\n  process.exit(0);\n}}"
        )

    ran = place.run(language, code)

    assert ran.error.get("name") in (None, "InvalidResult", "ExecutionErr"), ran.error


def test_arguments_that_a_job_rewrites_are_its_own(place: Place) -> None:
    code = "rm args.json; ln -s /etc/passwd args.json; echo changed > main.sh; echo 'echo never' >> main.sh; echo done"

    assert place.run("bash", code, args={"x": 1}).result in ("done", "never")
    assert place.run("bash", "cat args.json", args={"x": 2}).result == '{"x": 2}'
