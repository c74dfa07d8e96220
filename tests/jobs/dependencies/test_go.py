"""What a Go script asks for, and how its lock is written."""

import pytest

from jobs.dependencies import WantedFiles
from jobs.dependencies.go import Modules, WrongGoMod, external_packages, read_lock, wanted_go_mod

NONE = WantedFiles()
FILES = WantedFiles(by_name={"": "module default\n", "web": "module web\n\ngo 1.22\n"})


def test_packages_with_a_host_are_not_of_the_standard_library():
    code = 'package inner\nimport (\n\t"net/http"\n\t"example.org/x/y"\n\t"gopkg.in/yaml.v3"\n)\n'

    assert external_packages(code) == ["example.org/x/y", "gopkg.in/yaml.v3"]


def test_a_lock_is_both_files():
    lock = Modules(go_mod="module m\n\ngo 1.22\n", go_sum="x v1 h1:a=\n").as_lock()

    assert lock == "module m\n\ngo 1.22\n//go.sum\nx v1 h1:a=\n"
    assert read_lock(lock) == Modules(go_mod="module m\n\ngo 1.22\n", go_sum="x v1 h1:a=\n")
    assert read_lock(lock.replace("\n", "\r\n")) == read_lock(lock)


def test_a_go_mod_alone_is_a_lock_and_an_empty_one_too():
    assert read_lock("module m\n") == Modules(go_mod="module m\n", go_sum="")
    assert read_lock("require x.org/y v1.0.0\n").go_mod == "module mymod\n\nrequire x.org/y v1.0.0\n"
    assert read_lock("").path == "mymod"
    assert read_lock('module "example.org/quoted"\n').path == "example.org/quoted"


def test_the_default_file_of_the_workspace_is_read():
    assert wanted_go_mod("package inner\n", FILES) == "module default\n"
    assert wanted_go_mod("package inner\n", NONE) == "module mymod\n\n"


def test_a_comment_names_a_file():
    assert wanted_go_mod("//go_mod: web\r\npackage inner\n", FILES) == "module web\n\ngo 1.22\n"
    assert wanted_go_mod("// go_mod: default\npackage inner\n", FILES) == "module default\n"


def test_a_comment_holds_the_file():
    code = (
        "//go_mod:\r\n//require (\r\n//  x.org/y v1.0.0\r\n// )\r\n\r\n// not any more\r\npackage inner\r\n"
    )

    assert wanted_go_mod(code, FILES) == "module mymod\n\nrequire (\nx.org/y v1.0.0\n)\n"


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("//go_mod: nope", r"The workspace has no dependencies/nope.go.mod, .* it has: web\."),
        ("//go_mod: web, default", "names 2 files"),
    ],
)
def test_a_file_that_cannot_be_had_is_told(comment, message):
    with pytest.raises(WrongGoMod, match=message):
        wanted_go_mod(f"{comment}\npackage inner\n", FILES)
