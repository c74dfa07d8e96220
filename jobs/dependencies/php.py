"""What PHP scripts depend on: packages for Composer, named in comments or in a composer.json of the workspace.

    // require:
    // monolog/monolog@3.5.0
    // stripe/stripe-php

    // composer_json: web         the workspace's dependencies/web.composer.json, to which the lines above are added

A lock is the composer.json, then a line `//composer.lock`, then the composer.lock. A composer.json alone is a lock, too.
"""

import json
import re
from typing import Any

from jobs.dependencies.files import files_read
from jobs.dependencies.wanted import WantedFiles

_SPLIT = "\n//composer.lock\n"
_REQUIRE = re.compile(r"^[ \t]*//[ \t]*require:[ \t]*$\n(?P<lines>(?:^[ \t]*//.*$\n?)*)", re.MULTILINE)
_PACKAGE = re.compile(
    r"(?P<name>[a-z0-9](?:[_.-]?[a-z0-9]+)*/[a-z0-9](?:[_.-]*[a-z0-9]+)*)(?:@(?P<version>\S.*))?"
)


class WrongRequirement(ValueError):
    """What a script asks for cannot be understood; a sentence for its author."""


def wanted_composer_json(code: str, files: WantedFiles) -> str:
    """The composer.json that the script asks for; "" when it asks for nothing. Raises WrongRequirement."""
    code = code.replace("\r\n", "\n")
    project = _file(code, files)
    required = _required(code)
    if required:
        before = project.get("require")
        project["require"] = {**(before if isinstance(before, dict) else {}), **required}
    return json.dumps(project, indent=4, ensure_ascii=False) if project.get("require") else ""


def join_lock(composer_json: str, composer_lock: str) -> str:
    return f"{composer_json.strip()}{_SPLIT}{composer_lock}"


def split_lock(lock: str) -> tuple[str, str]:
    """The composer.json and the composer.lock of a lock; the latter is "" when it has none."""
    composer_json, _, composer_lock = lock.replace("\r\n", "\n").partition(_SPLIT)
    return composer_json, composer_lock


def _required(code: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for block in _REQUIRE.finditer(code):
        first = code.count("\n", 0, block.start("lines")) + 1
        for number, line in enumerate(block["lines"].splitlines(), start=first):
            text = line.strip().removeprefix("//").strip()
            if not text:
                continue
            package = _PACKAGE.fullmatch(text)
            if package is None:
                raise WrongRequirement(
                    f"Line {number} names no package: {text[:100]!r}; expected vendor/package or vendor/package@version."
                )
            found[package["name"]] = (package["version"] or "*").strip()
    return found


def _file(code: str, files: WantedFiles) -> dict[str, Any]:
    names = files_read("php", code)
    if len(names) > 1:
        raise WrongRequirement(
            f"// composer_json: names {len(names)} files ({', '.join(names)}); a PHP script has one composer.json."
        )
    [name] = names or [""]
    if name and name not in files.by_name:
        known = ", ".join(sorted(one for one in files.by_name if one)) or "none"
        raise WrongRequirement(
            f"The workspace has no dependencies/{name}.composer.json, which // composer_json: names; it has: {known}."
        )
    place = f"dependencies/{name}.composer.json" if name else "dependencies/composer.json"
    try:
        project = json.loads(files.by_name.get(name, "{}"))
    except ValueError as error:
        raise WrongRequirement(f"The workspace's {place} is not valid JSON: {error}.") from None
    if not isinstance(project, dict):
        raise WrongRequirement(f"The workspace's {place} is not a JSON object.")
    return project
