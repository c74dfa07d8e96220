"""Browser tests run in Debian's Chromium. A console error fails the test, so a breach of the policy does."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    if not Path(CHROMIUM).exists():
        message = "chromium is missing: `apt-get install chromium`, or set CHROMIUM to its path."
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return {"executable_path": CHROMIUM, "args": FLAGS}


@pytest.fixture
def page(page: Page) -> Iterator[Page]:
    """A page that fails its test on any console error or exception."""
    seen: list[str] = []
    page.on(
        "console", lambda m: seen.append(f"{m.text} ({m.location.get('url')})") if m.type == "error" else None
    )
    page.on("pageerror", lambda error: seen.append(str(error)))
    yield page
    assert not seen, seen


@pytest.fixture(scope="session")
def axe_source() -> str:
    spec = find_spec("axe_playwright_python")
    assert spec is not None and spec.origin is not None
    return next(Path(spec.origin).parent.rglob("axe.min.js")).read_text()


@pytest.fixture
def assert_accessible(page: Page, axe_source: str) -> Any:
    """Call it to check what the page shows now: no axe finding, and never wider than the screen."""

    def check() -> None:
        page.evaluate(axe_source)
        found = page.evaluate(
            """async (rules) => (await axe.run(document, {runOnly: rules})).violations.map(
                 v => [v.id, v.nodes.map(n => `${n.target.join(' ')}: ${n.failureSummary}`)])""",
            AXE_RULES,
        )
        assert not found, found
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "scrolls sideways"

    return check
