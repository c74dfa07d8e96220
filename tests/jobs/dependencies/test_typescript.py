import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.dependencies import imported_paths
from jobs.dependencies.typescript import (
    Package,
    header_comments,
    package,
    packages,
    specifiers,
    without_versions,
)


def npm(name: str, version: str | None = None, subpath: str = "") -> Package:
    return Package(registry="npm", name=name, version=version, subpath=subpath)


@pytest.mark.parametrize(
    ("specifier", "expected"),
    [
        ("lodash", npm("lodash")),
        ("lodash@4.17.21", npm("lodash", "4.17.21")),
        ("lodash@^4/fp", npm("lodash", "^4", "/fp")),
        ("@scope/tool", npm("@scope/tool")),
        ("@scope/tool@1.2.3/sub/part.js", npm("@scope/tool", "1.2.3", "/sub/part.js")),
        ("npm:chalk@5", npm("chalk", "5")),
        ("jsr:@std/assert@1", Package(registry="jsr", name="@std/assert", version="1")),
        ("windmill-client", npm("windmill-client")),
    ],
)
def test_a_package_is_told_from_its_version_and_what_of_it_is_imported(
    specifier: str, expected: Package
) -> None:
    assert package(specifier) == expected


@pytest.mark.parametrize(
    "specifier",
    [
        *("./lib", "../g/lib.ts", "/f/g/lib", "f/g/lib", "node:fs", "fs", "fs/promises", "bun:sqlite", "bun"),
        *("https://example.org/x.ts", "data:text/javascript,1", "", "@", "@/alias"),
    ],
)
def test_files_addresses_and_builtins_are_no_packages(specifier: str) -> None:
    assert package(specifier) is None


def test_every_way_to_import_is_found_and_nothing_else() -> None:
    code = """
    import a from "a"
    import { b } from 'b@1'
    import * as c from "c/sub"
    import "side-effect"
    import old = require("old")
    export * from "exported"
    const later = await import(`later`)
    const required = require("required")
    // import no from "commented"
    const text = 'import no from "text"'
    const computed = await import("no" + text)
    other.require("no")
    """

    found = [specifier.text for specifier in specifiers(code)]

    assert found == [
        *("a", "b@1", "c/sub", "side-effect", "old", "exported", "later", "required"),
    ]


def test_a_package_that_only_types_name_is_not_needed() -> None:
    code = "import type { A } from 'only-types'\nexport type { B } from 'more-types'\nimport { c } from 'needed'\n"

    assert [one.name for one in packages([code])] == ["needed"]


def test_leaving_out_versions_moves_nothing_else() -> None:
    code = "import ms from 'ms@2.1.3'; throw new Error(ms)\nimport { a } from \"npm:@s/ü@1.0/x\"\nimport 'plain'\n"

    written = without_versions(code)

    assert written.splitlines()[0] == "import ms from 'ms'      ; throw new Error(ms)"
    assert len(written) == len(code)
    assert [len(line) for line in written.splitlines()] == [len(line) for line in code.splitlines()]


def test_code_with_windows_lines_is_written_with_plain_ones() -> None:
    assert without_versions("import a from 'a@1'\r\nmain()\r\n") == "import a from 'a'  \nmain()\n"


@pytest.mark.parametrize(
    "code", ["import x from 'a@1", "\0import 'a'", "import 'a@\ud800'", "import(" * 3000]
)
def test_code_that_cannot_be_read_is_left_as_it_is(code: str) -> None:
    assert without_versions(code) == code


@given(st.text())
def test_no_text_breaks_the_reading(code: str) -> None:
    specifiers(f"import {code} from '{code}'")
    without_versions(f"import '{code}'")
    header_comments(code)


def test_comments_above_the_code_say_how_to_run_it() -> None:
    code = "//nodejs\n// package_json: web\n\n// an ordinary comment\nimport a from 'a'\n//nobundling\n"

    assert header_comments(code) == {"nodejs": "", "package_json": "web"}


def test_scripts_are_imported_relative_and_from_the_root() -> None:
    code = """
    import { a } from "./a"
    import { b } from "../other/b.ts"
    export { c } from "/f/lib/c"
    import { d } from "/u/bob/d.ts"
    // import { no } from "./commented"
    import "./a"
    import pkg from "pkg"
    """

    assert imported_paths("bun", code, "f/ops/report") == ("f/ops/a", "f/other/b", "f/lib/c", "u/bob/d")
