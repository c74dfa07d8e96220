"""The line that brought in what could not be resolved."""

import pytest

from jobs.dependencies.blame import offending_line

UV = "No solution found:\n  Because {} was not found in the package registry and you require it, we conclude that json."


@pytest.mark.parametrize(
    ("language", "code", "log", "line"),
    [
        ("python3", "import json\nimport nopackage\n", UV.format("nopackage"), 2),
        ("python3", "import os, no_package.deep as n\n", UV.format("no-package"), 1),
        ("python3", "import requests\nfrom bs4 import BeautifulSoup\n", UV.format("beautifulsoup4"), 2),
        ("python3", "#requirements:\n# requests\n#pandas==99\n", "there is no version of pandas==99", 3),
        ("python3", 'import a\nx = "requests"\n', "requests is gone", None),
        (
            "bun",
            'import x from "left-pad@99.0.0";\nimport { y } from "@scope/thing/deep";',
            "@scope/thing/deep: 404",
            2,
        ),
        ("bun", 'import x from "left-pad@99.0.0";', "No version matching 99.0.0 for left-pad", 1),
        ("deno", 'import x from "npm:left-pad@99";', "npm package 'left-pad' does not exist", 1),
        ("bun", 'import x from "./left-pad";', "left-pad failed", None),
        (
            "go",
            'import (\n\t"fmt"\n\t"example.com/none/such"\n)',
            "module example.com/none/such: not found",
            3,
        ),
        (
            "php",
            "<?php\n// require:\n// acme/none\n",
            "Could not find a matching version of package acme/none",
            3,
        ),
        ("python3", "import nopackage", "", None),
        ("python3", "import nopackagelonger\nimport nopackage", UV.format("nopackage"), 2),
    ],
)
def test_the_first_package_that_the_log_speaks_of_is_found_in_the_code(
    language: str, code: str, log: str, line: int | None
) -> None:
    assert offending_line(language, code, log) == line
