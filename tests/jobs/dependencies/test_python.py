"""What a Python script needs, told from its text."""

import ast
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.dependencies import WantedFiles
from jobs.dependencies.python import (
    PythonRequirements,
    WrongRequirement,
    modules_of,
    needs_nothing,
    requirements_of,
)
from jobs.dependencies.python_comments import python_specifier, requirements_in

REPORT = "f/ops/report"


def needs(code: str, imports: Mapping[str, str] | None = None, **files: str) -> PythonRequirements:
    """`files` are dependency files by name; `default` stands for the one without."""
    by_name = {"" if name == "default" else name: text for name, text in files.items()}
    return requirements_of(code, REPORT, imports=imports or {}, wanted_files=WantedFiles(by_name=by_name))


def packages(code: str, imports: Mapping[str, str] | None = None, **files: str) -> list[str]:
    return needs(code, imports, **files).requirements


def refusal(code: str, imports: Mapping[str, str] | None = None, **files: str) -> str:
    with pytest.raises(WrongRequirement) as refused:
        needs(code, imports, **files)
    return str(refused.value)


# --- imports ---


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import requests", ["requests"]),
        ("import requests as r, pandas.core.frame", ["pandas", "requests"]),
        ("from pandas import DataFrame", ["pandas"]),
        ("import os.path, json, __future__, tomllib", []),
        ("import compression.zstd", []),  # in Python since 3.14
        ("import PIL.Image", ["Pillow"]),
        ("import yaml", ["PyYAML"]),
        ("from sklearn.svm import SVC", ["scikit-learn"]),
        ("from bs4 import BeautifulSoup", ["beautifulsoup4"]),
        ("import dotenv, dateutil.parser, jwt", ["PyJWT", "python-dateutil", "python-dotenv"]),
        (
            "from google.cloud import storage, bigquery as bq",
            ["google-cloud-bigquery", "google-cloud-storage"],
        ),
        ("import google.cloud.secretmanager_v1", ["google-cloud-secretmanager-v1"]),
        ("from google.protobuf.message import Message", ["protobuf"]),
        ("from google.oauth2.service_account import Credentials", ["google-auth"]),
        ("from google import genai", ["google-genai"]),
        ("import google", []),
        ("from azure.storage.blob import BlobServiceClient", ["azure-storage-blob"]),
        ("from azure.identity import DefaultAzureCredential", ["azure-identity"]),
        ("from opentelemetry.sdk import trace", ["opentelemetry-sdk"]),
        ("import some_tool_of_mine", ["some_tool_of_mine"]),
        ("import wmill", ["wmill"]),
        (
            "from f.ops.lib import x\nimport u.alice.tool\nfrom .near import y\nfrom ..far.z import w\nfrom . import v",
            [],
        ),
        ("from numpy import *", ["numpy"]),
    ],
)
def test_an_import_tells_its_package(line: str, expected: list[str]) -> None:
    assert packages(line) == expected


@pytest.mark.parametrize(
    "block",
    [
        "if True:\n    import requests",
        "if x:\n    pass\nelif y:\n    import requests",
        "try:\n    import requests\nexcept ImportError:\n    import absent_fallback",
        "try:\n    pass\nfinally:\n    import requests",
        "with open('x') as file:\n    import requests",
        "for x in y:\n    import requests",
    ],
)
def test_imports_count_wherever_the_module_runs_when_it_is_loaded(block: str) -> None:
    assert packages(block) == ["requests"]


@pytest.mark.parametrize(
    "block",
    [
        "def main():\n    import requests",
        "class A:\n    import requests",
        "import typing\nif typing.TYPE_CHECKING:\n    import requests",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import requests",
        "try:\n    pass\nexcept ImportError:\n    import requests",
        "'import requests'",
    ],
)
def test_imports_that_may_never_run_are_optional(block: str) -> None:
    assert packages(block) == []


@pytest.mark.parametrize("code", ["import requests\ndef main(:", "x = '", "\0", "(" * 5000])
def test_code_that_cannot_be_parsed_needs_nothing(code: str) -> None:
    assert packages(code) == []
    assert needs_nothing(code)


def test_what_imported_scripts_need_is_needed_too() -> None:
    imports = {
        "f/ops/lib": "import yaml\nfrom .deep import x",
        "f/ops/deep": "import numpy  # pin: numpy==1.26.4\nfrom f.ops.report import back",
        "f/ops/elsewhere": "import never_reached",
    }

    assert packages("import requests\nfrom .lib import x", imports) == ["PyYAML", "numpy==1.26.4", "requests"]


# --- comments ---


def test_requirements_replace_what_imports_tell_also_those_of_imported_scripts() -> None:
    code = "#requirements:\n#requests==2.32.3\n# pandas[excel] >= 2   # the sheets\n\n#numpy\n"
    code += "import yaml\nfrom .lib import x"

    assert packages(code, {"f/ops/lib": "import polars"}) == ["pandas[excel] >= 2", "requests==2.32.3"]


@pytest.mark.parametrize(
    "line", ["# py: 3.12", "#extra_requirements:", "# no_cache", "# sandbox", "#", "x = 1", ""]
)
def test_a_list_ends_with_what_is_none_of_its_lines(line: str) -> None:
    assert packages(f"#requirements:\n#requests\n{line}\n\n#numpy") == ["requests"]


def test_requirements_of_an_imported_script_count_for_that_one() -> None:
    imports = {"f/ops/lib": "#requirements:\n#polars==1.0\nimport numpy"}

    assert packages("import yaml\nfrom .lib import x", imports) == ["PyYAML", "polars==1.0"]


def test_requirements_that_are_empty_say_that_there_are_none() -> None:
    assert packages("#requirements:\n\nimport yaml", default="numpy") == []


def test_extra_requirements_add_and_set_versions() -> None:
    code = "#extra_requirements:\n#Requests==2.31\n#lxml\nimport requests, yaml"

    assert packages(code) == ["PyYAML", "Requests==2.31", "lxml"]


def test_addresses_of_packages_are_requirements() -> None:
    code = "#requirements:\n#a@git+https://example.com/a.git\n#git+https://example.com/b.git@v1\n#c @ https://example.com/c.whl"

    assert packages(code) == [
        "a@git+https://example.com/a.git",
        "c @ https://example.com/c.whl",
        "git+https://example.com/b.git@v1",
    ]


def test_a_pin_says_what_brings_an_import() -> None:
    code = "import telegram # pin: python-telegram-bot[job-queue]>=20\nfrom telegram.ext import (\n  A, # pin: httpx<1\n)"

    assert packages(code) == ["httpx<1", "python-telegram-bot[job-queue]>=20"]


def test_pins_of_an_import_hold_together_until_a_repin_overrides_them() -> None:
    lib = {"f/ops/lib": "import numpy # pin: numpy<2"}

    assert packages("import numpy # pin: numpy>1\nfrom .lib import x", lib) == ["numpy<2", "numpy>1"]
    assert packages("import numpy # repin: numpy==2.1\nfrom .lib import x", lib) == ["numpy==2.1"]


def test_pins_of_a_shared_namespace_count_for_one_package_each() -> None:
    code = (
        "from google.cloud import storage # pin: google-cloud-storage==2.0\nfrom google.cloud import bigquery"
    )

    assert packages(code) == ["google-cloud-bigquery", "google-cloud-storage==2.0"]


def test_a_block_of_script_metadata_counts() -> None:
    code = '# /// script\n# requires-python = ">=3.12"\n# dependencies = [\n#   "requests<3",\n#   "rich",\n# ]\n# ///\n'
    code += "import yaml"

    assert needs(code) == PythonRequirements(requirements=["requests<3", "rich"], python=">=3.12")


def test_a_block_without_dependencies_leaves_them_to_the_imports() -> None:
    assert packages('# /// script\n# requires-python = ">=3.12"\n# ///\nimport yaml') == ["PyYAML"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# py: >=3.12", ">=3.12"),
        ("#py: 3.12", "==3.12.*"),
        ("# py: 3.12.1", "==3.12.1"),
        ("# py: ==3.11.*", "==3.11.*"),
        ("# py310", "==3.10.*"),
        ("#py314", "==3.14.*"),
        ("# py: >=3.11\n# py: <3.13", "<3.13,>=3.11"),
        ("# pyramids are old", None),
        ("x = '''\n# py: 3.12\n'''", None),
    ],
)
def test_a_comment_says_which_python(line: str, expected: str | None) -> None:
    assert needs(line).python == expected
    assert python_specifier(line) == expected


def test_the_newest_python_may_be_asked_for() -> None:
    assert needs("# py_select_latest").latest


def test_the_python_of_imported_scripts_counts_too() -> None:
    assert needs("# py: >=3.11\nfrom .lib import x", {"f/ops/lib": "# py: <3.13"}).python == "<3.13,>=3.11"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "#requirements:\n#not a requirement",
            "f/ops/report, line 2: 'not a requirement' is not a requirement such as",
        ),
        (
            "#requirements:\n#-r other.txt",
            "'-r other.txt' is an option of pip; only packages can be named here",
        ),
        ("#extra_requirements:\n#--index-url http://x", "is an option of pip"),
        ("#requirements:\n#./wheels/a.whl", "'./wheels/a.whl' is a file of a computer"),
        ("#requirements:\n#file:///etc/passwd", "is a file of a computer"),
        ("#requirements:\n#a @ file:///etc/passwd", "not from 'file:///etc/passwd'"),
        ("#requirements:\n#git+file:///etc", "is not a requirement"),
        ("import x # pin: -e .", "line 1: '-e .' is an option of pip"),
        ("# py: newest", "'newest' is not a version of Python such as 3.12 or >=3.11,<3.14"),
        ("# py: " + "9" * 5000, "is not a version of Python"),
        ("# /// script\n# dependencies = 3\n# ///", "dependencies must be a list of texts"),
        ("# /// script\n# dependencies = [\n# ///", "the block # /// script is not TOML"),
        ("# /// script\n# x = 1\n# ///\n\n# /// script\n# x = 1\n# ///", "is there 2 times; one is allowed"),
        ("#requirements: ml", "this workspace has no dependency file ml for Python; it has: none"),
        ("#requirements: default", "asks for the default dependency file, and this workspace has none"),
        ("#requirements: requests==2", "'requests==2' is not the name of a dependency file of the workspace"),
        ("#requirements:\n#" + "a" * 5000, "it is longer than 2000 characters"),
        ("#requirements:\n#a; " + "(" * 1900, "is not a requirement"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence(line: str, expected: str) -> None:
    assert expected in refusal(line)


# --- dependency files of the workspace ---


def test_named_files_take_the_place_of_imports() -> None:
    files = {"ml": "numpy<3 # numbers\n\ntorch>=2", "api": "requests==2.32.3 \\\n  --hash=sha256:00aa\n"}

    assert packages("# requirements: ml, api\n#extra_one\nimport yaml", None, **files) == [
        "extra_one",
        "numpy<3",
        "requests==2.32.3 --hash=sha256:00aa",
        "torch>=2",
    ]


def test_named_files_may_add_to_imports() -> None:
    assert packages("#extra_requirements: ml\nimport yaml, numpy", ml="numpy<3") == ["PyYAML", "numpy<3"]


def test_the_default_file_is_for_scripts_that_say_nothing() -> None:
    assert packages("import yaml", default="numpy") == ["numpy"]
    assert packages("#requirements: default\nimport yaml", default="numpy") == ["numpy"]
    assert packages("#extra_requirements:\n#lxml\nimport yaml", default="numpy") == ["PyYAML", "lxml"]
    assert packages("#requirements:\n#lxml", default="numpy") == ["lxml"]


def test_a_file_that_cannot_be_read_is_named_with_its_line() -> None:
    assert "the dependency file ml, line 2: '-e ./here' is an option of pip" in refusal(
        "#requirements: ml", ml="numpy\n-e ./here"
    )


def test_indexes_in_files_are_left_to_the_instance() -> None:
    assert requirements_in("--index-url https://x\n--extra-index-url https://y\na==1\n", "the lock") == [
        "a==1"
    ]


# --- all of it ---


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def main():\n    return 1", True),
        ("import os, json\nfrom datetime import date\ndef main(): ...", True),
        ("import requests", False),
        ("from f.ops.lib import x", False),
        ("from . import x", False),
        ("from .x import y", False),
        ("import f.ops.lib as lib", False),
        ("# py: 3.12\nimport os", False),
        ("# py312", False),
        ("#requirements:\n#x", False),
        ("# /// script\n# ///", False),
        ("def main():\n    import requests", True),
        ("def main():\n    from .lib import x", False),
        ("# important: the pins are sharp", True),
    ],
)
def test_code_that_surely_needs_nothing_is_told_quickly(code: str, expected: bool) -> None:
    assert needs_nothing(code) is expected


def test_the_modules_of_packages_that_a_script_loads_are_told() -> None:
    code = "import os, pandas as pd, lxml.etree\nfrom google.cloud import storage\nfrom .lib import x\nimport f.ops.lib\n"
    code += "import pandas\ndef main():\n    import late"

    assert modules_of(code) == ("pandas", "lxml.etree", "google.cloud.storage")
    assert modules_of("def main(:") == ()


PIECES = st.sampled_from(
    [
        "#requirements:", "#extra_requirements: ml", "#requests==2", "# py: 3.12", "# py312", "import yaml # pin: x==1",
        "import numpy", "from .lib import x", "# /// script", '# dependencies = ["a"]', "# ///", "'''", "def f():", "",
        "    import pandas", "if x:", "# repin: y", "#", "-r x", "#-r x", "\0", "\\",
    ]
)  # fmt: skip


@given(st.lists(PIECES | st.text(max_size=20), max_size=12))
@example(["#requirements:", "#requests==2"])
def test_any_text_is_read_or_refused_and_line_ends_do_not_matter(lines: list[str]) -> None:
    def outcome(code: str) -> Any:
        try:
            return needs(code, {"f/ops/lib": code}, ml="torch")
        except WrongRequirement as refused:
            return str(refused)

    lines = [line.replace("\r", "") for line in lines]

    assert outcome("\n".join(lines)) == outcome("\r\n".join(lines))


@given(st.lists(PIECES | st.text(max_size=20), max_size=12))
def test_code_that_needs_nothing_has_no_requirements(lines: list[str]) -> None:
    code = "\n".join(lines)

    if needs_nothing(code):
        assert needs(code, ml="torch") == PythonRequirements(requirements=[])


@given(st.lists(st.sampled_from(sorted(sys.stdlib_module_names)), min_size=1))
def test_modules_of_python_itself_need_no_package(modules: list[str]) -> None:
    code = "import " + ", ".join(modules)
    ast.parse(code)

    assert packages(code) == []
