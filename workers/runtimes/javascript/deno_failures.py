"""Why what Deno loads from elsewhere cannot be had, in a sentence."""

from __future__ import annotations

import re

from workers.runtimes.base import ExecutionFailed, Registries
from workers.runtimes.javascript.npm_failures import dependency_error, without_secrets

_LAST_LINES = 15
_NO_PACKAGE = re.compile(r"npm package ['\"]?(?P<name>[^'\"\s]+)['\"]? does not exist")
_NO_VERSION = re.compile(
    r"Could not find npm package '(?P<name>[^']+)' matching '(?P<version>[^']+)'"
    r"|Could not find (?:version of|constraint in the list of versions:?)[^\n]*?'(?P<jsr>[^']+)'"
)
_REFUSED = re.compile(r"(?:Bad response: |for package \"(?P<name>[^\"]+)\".*?)(?P<status>40[13])\b", re.S)
_PACKAGE = re.compile(r"for package \"([^\"]+)\"")
_NETWORK = re.compile(
    r"error sending request for url \((?P<url>[^)]*)\)[^\n]*?: (?P<why>[^:\n]+(?:\(os error \d+\))?)\s*$",
    re.MULTILINE,
)
_JSR = re.compile(r"JSR package[^']*'(?P<name>[^']+)'[^\n]*failed to load")
_MODULE = re.compile(
    r"Module not found \"(?P<url>[^\"]+)\"|Import '(?P<failed>[^']+)' failed(?:: (?P<why>[^\n]+))?"
)
_FROZEN = re.compile(r"lockfile is out of date", re.IGNORECASE)


def failed(output: str, registries: Registries) -> ExecutionFailed:
    """The error for the author of a script: what cannot be had, why, and the last lines of `output`."""
    output = without_secrets(output, registries)
    last = "\n".join(output.strip().splitlines()[-_LAST_LINES:])
    return dependency_error(f"{_sentence(output)}\n\n{last}")


def _sentence(output: str) -> str:
    if none := _NO_PACKAGE.search(output):
        return f"There is no package {none['name']} on npm; is its name spelled like that?"
    if version := _NO_VERSION.search(output):
        if version["jsr"]:
            return f"{version['jsr']} cannot be had: there is no such version."
        return f"{version['name']} has no version {version['version']}; look up which ones there are."
    if refused := _REFUSED.search(output):
        name = _PACKAGE.search(output)
        return (
            f"The registry refuses access to {name[1] if name else 'a package'} ({refused['status']}): check the token "
            "or the password for it in the settings of the instance."
        )
    if network := _NETWORK.search(output):
        return f"{network['url']} cannot be reached: {network['why'].strip()}."
    if jsr := _JSR.search(output):
        return f"The package {jsr['name']} cannot be loaded from jsr.io: it does not exist, or jsr.io cannot be reached."
    if module := _MODULE.search(output):
        why = f": {module['why']}" if module["why"] else ""
        return f"{module['url'] or module['failed']} cannot be loaded{why}."
    if _FROZEN.search(output):
        return "The lock of this script does not fit what it imports. Deploy the script again."
    return "What the script imports cannot be loaded."
