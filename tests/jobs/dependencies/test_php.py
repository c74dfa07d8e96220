"""What a PHP script asks for, and how its lock is written."""

import json

import pytest

from jobs.dependencies import WantedFiles
from jobs.dependencies.php import WrongRequirement, join_lock, split_lock, wanted_composer_json

NONE = WantedFiles()
FILES = WantedFiles(
    by_name={"": '{"config": {"x": 1}}', "web": '{"require": {"a/b": "^1"}}', "odd": "[]", "no": "{"}
)


def required(code: str, files: WantedFiles = NONE) -> object:
    return json.loads(wanted_composer_json(code, files))["require"]


def test_packages_are_named_in_comments():
    code = "<?php\n// require:\n// monolog/monolog@3.5.0\n//\n//stripe/stripe-php\n// a/b@>=1.0 <2\n\n// not/this\n"

    assert required(code.replace("\n", "\r\n")) == {
        "monolog/monolog": "3.5.0",
        "stripe/stripe-php": "*",
        "a/b": ">=1.0 <2",
    }


def test_a_script_that_names_none_asks_for_nothing():
    assert wanted_composer_json("<?php\n// monolog/monolog\n", NONE) == ""
    assert wanted_composer_json("<?php\n// // require:\n// // monolog/monolog\n", NONE) == ""
    assert wanted_composer_json("<?php", FILES) == ""


def test_a_file_of_the_workspace_is_added_to():
    assert required("<?php\n// composer_json: web\n", FILES) == {"a/b": "^1"}
    code = "// composer_json: web\n// require:\n// a/b@2\n// c/d\n"
    assert required(code, FILES) == {"a/b": "2", "c/d": "*"}
    assert json.loads(wanted_composer_json("// require:\n// c/d\n", FILES))["config"] == {"x": 1}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("<?php\n// require:\n// monolog\n", "Line 3 names no package: 'monolog'"),
        ("// composer_json: nope\n", r"no dependencies/nope.composer.json, .* it has: no, odd, web\."),
        ("// composer_json: web, odd\n", "names 2 files"),
        ("// composer_json: odd\n", "dependencies/odd.composer.json is not a JSON object"),
        ("// composer_json: no\n", "dependencies/no.composer.json is not valid JSON"),
    ],
)
def test_what_cannot_be_understood_is_told(code, message):
    with pytest.raises(WrongRequirement, match=message):
        wanted_composer_json(code, FILES)


def test_a_lock_is_both_files_or_the_first():
    lock = join_lock('{"a": 1}\n', '{"b": 2}\n')

    assert lock == '{"a": 1}\n//composer.lock\n{"b": 2}\n'
    assert split_lock(lock) == ('{"a": 1}', '{"b": 2}\n')
    assert split_lock('{"a": 1}') == ('{"a": 1}', "")
