"""The vendored files are what their manifest says, under licences that we may ship, and lack no icon."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

from windmill_site.templatetags import ui

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "static" / "vendor"
MANIFEST = json.loads((VENDOR / "MANIFEST.json").read_text())
LICENCES = {"MIT", "BSD-3-Clause", "BSD-0-Clause", "0BSD", "ISC", "OFL-1.1"}
OWN_PAGES = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "static" / "js").rglob("*.js")]


def gzipped(*files: str) -> int:
    return sum(len(gzip.compress((ROOT / "static" / file).read_bytes(), 9)) for file in files)


def test_every_vendored_file_is_listed_and_unchanged() -> None:
    found = {
        str(path.relative_to(VENDOR)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.name != "MANIFEST.json"
    }

    assert found == {name: entry["sha256"] for name, entry in MANIFEST["files"].items()}


@pytest.mark.parametrize("package", MANIFEST["packages"])
def test_every_vendored_package_may_be_shipped(package: str) -> None:
    assert MANIFEST["packages"][package]["licence"] in LICENCES
    assert (VENDOR / "licences" / f"{package.replace('/', '__')}.txt").read_text().strip()


def test_the_pinned_versions_are_the_ones_that_were_built() -> None:
    pinned = json.loads((ROOT / "deploy" / "vendor" / "package.json").read_text())["devDependencies"]

    for package, entry in MANIFEST["packages"].items():
        assert pinned.get(package, entry["version"]) == entry["version"]


def test_every_icon_that_a_page_names_is_in_the_sprite() -> None:
    sprite = set(re.findall(r'<symbol id="([^"]+)"', (VENDOR / "icons.svg").read_text()))
    named: set[str] = set()
    for page in OWN_PAGES:
        text = page.read_text()
        named |= set(re.findall(r'{% icon "([^"]+)"(?!\|)', text))
        named |= set(re.findall(r'\b(?:ico|icon|iconHref|button)\("([a-z0-9-]+)"', text))
    named |= {icon for icon, _label in (*ui.STATUSES.values(), *ui.LANGUAGES.values())}

    assert len(named) > 40
    assert named - sprite == set()


def test_imports_can_be_rewritten_to_hashed_names() -> None:
    """Django's storage finds `from "./x.js";` only with the semicolon, `import("./x.js")` if literal."""
    for script in (ROOT / "static" / "js").rglob("*.js"):
        for line in script.read_text().splitlines():
            if re.match(r"(import|export)\b.*\bfrom\b", line) or line.startswith('import "'):
                assert line.endswith(";"), f"{script.name}: {line}"
            for argument in re.findall(r"\bimport\(([^)]*)\)", line):
                assert re.fullmatch(r'"\.{1,2}/[^"]+"', argument), f"{script.name}: {line}"


def test_pages_stay_within_their_budget() -> None:
    """Gzip bytes of what every page loads, then of what run and form pages add (fonts, editor apart)."""
    css = ["css/tokens.css", "css/base.css", "css/components.css"]
    shell = ["vendor/htmx.min.js", "js/app.js", "js/dom.js", "js/format.js"]
    elements = ["vendor/lit.js", "js/css.js", "js/schema.js", "js/ansi.js", "js/job-socket.js"]
    elements += [
        f"js/elements/{name}.js" for name in ("logs", "live", "json", "table", "result", "schema-form")
    ]

    assert gzipped(*css) <= 10 * 1024
    assert gzipped(*css, "css/elements.css") <= 12 * 1024
    assert gzipped(*shell) <= 45 * 1024
    assert gzipped(*shell, *elements) <= 60 * 1024
