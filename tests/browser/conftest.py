"""Browser tests in Debian's Chromium: a console error fails the test, so a breach of the policy does.

    page               a tab
    assert_accessible  what `page` shows now has no axe finding, light and dark, and does not scroll sideways
    site               the running site (daphne). It has a database of its own, which tests reach through the domain
                       functions and the ORM as usual: everything is committed, nothing is rolled back, so each test
                       works in a workspace of its own
    worker             a running `runworker` of that site
    ada                a superadmin, admin of a fresh workspace (`ada.workspace`, `ada.caller`, `ada.url("runs/")`)
    member             factory of further people of that workspace: member("bob", operator=True)
    sign_in            sign_in(page, person): be that person
    ada_page           a tab signed in as ada

Tests of elements alone use only the first two; the site starts when a test asks for it. Locate by role and name only.
"""

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from playwright.sync_api import Page, expect

from tests import databases
from tests.browser.site import Person, Site, free_port, make_account, stop, wait_until
from workspaces import tokens, workspaces
from workspaces.access import Identity

# Playwright's synchronous interface keeps an event loop in this thread; Django would refuse to query the database in it.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

# As long as a busy machine may need: who waits goes on as soon as what is expected is there.
expect.set_options(timeout=15_000)

# The shell is Chromium without windows: the same pages, for a quarter of the work that a tab of the whole one costs.
CHROMIUM = (
    os.environ.get("CHROMIUM")
    or shutil.which("chromium-headless-shell")
    or shutil.which("chromium")
    or "/usr/bin/chromium"
)
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
AXE_RULES = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
# All that the themes differ in.
AXE_COLOR_RULES = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
# Colors are then at once what they shall be. A style element would be against the policy.
WITHOUT_TRANSITIONS = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("*, ::before, ::after { transition-property: none !important }");
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}"""
WIDTHS = {"wide": 1440, "narrow": 390}


@pytest.hookimpl(trylast=True)  # after pytest itself has put tests together that share parametrized fixtures
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright's event loop, once started, stands in the way of tests that run their own."""
    here = Path(__file__).parent
    items.sort(key=lambda item: here in item.path.parents)


# --- the browser --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    if not Path(CHROMIUM).exists():
        message = (
            "chromium is missing: `apt-get install chromium-headless-shell`, or set CHROMIUM to its path."
        )
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return {"executable_path": CHROMIUM, "args": FLAGS}


@pytest.fixture
def browser_context_args(request: pytest.FixtureRequest) -> dict[str, Any]:
    """1440 wide and light, unless the test is parametrised by `width` (wide, narrow)."""
    asked = request.fixturenames
    width = request.getfixturevalue("width") if "width" in asked else "wide"
    return {
        "viewport": {"width": WIDTHS[width], "height": 900},
        "color_scheme": "light",
        "reduced_motion": "reduce",
        "permissions": ["clipboard-read", "clipboard-write"],
        **({"base_url": request.getfixturevalue("site").url} if "site" in asked else {}),
    }


@pytest.fixture
def page(page: Page) -> Iterator[Page]:
    """A tab. The test fails when it logged an error; answers 4xx are not one: forms and pages give them on purpose."""
    page.set_default_timeout(30_000)
    seen = watch(page)
    yield page
    assert not seen, seen


def watch(page: Page) -> list[str]:
    """Collect what goes wrong in a tab: console errors, exceptions, answers 5xx."""
    seen: list[str] = []

    def on_console(message: Any) -> None:
        is_4xx = message.text.startswith("Failed to load resource: the server responded with a status of 4")
        if message.type == "error" and not is_4xx:
            seen.append(f"{message.text} ({message.location.get('url')})")

    page.on("console", on_console)
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on(
        "response",
        lambda answer: seen.append(f"{answer.status} {answer.url}") if answer.status >= 500 else None,
    )
    return seen


@pytest.fixture(scope="session")
def axe_source() -> str:
    spec = find_spec("axe_playwright_python")
    assert spec is not None and spec.origin is not None
    return next(Path(spec.origin).parent.rglob("axe.min.js")).read_text()


@pytest.fixture
def assert_accessible(page: Page, axe_source: str) -> Callable[[], None]:
    """Call it to check what the page shows now: no axe finding in either theme, and never wider than the screen."""

    def check() -> None:
        page.evaluate(axe_source)
        page.evaluate(WITHOUT_TRANSITIONS)
        found = {"light": findings(page, AXE_RULES)}
        page.emulate_media(color_scheme="dark")
        found["dark"] = findings(page, AXE_COLOR_RULES)
        page.emulate_media(color_scheme="light")
        assert not any(found.values()), found
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "scrolls sideways"

    return check


def findings(page: Page, rules: dict[str, Any]) -> list[Any]:
    """What axe says once the page looks as it shall."""
    found: list[Any] = page.evaluate(
        """async (rules) => {
             await new Promise(requestAnimationFrame);
             const { violations } = await axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
             return violations.map(v => [v.id, v.nodes.map(n => `${n.target.join(' ')}: ${n.failureSummary}`)]);
           }""",
        rules,
    )
    return found


# --- the site -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def browser_database(django_db_blocker: Any) -> Iterator[str]:
    """An empty database of the site's own: its processes commit to it, other tests never see that."""
    name = f"browser_{uuid.uuid4().hex[:12]}"
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    yield name
    with django_db_blocker.unblock():
        connection.close()
        with connection._nodb_cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def _running_site(browser_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DJANGO_"))
    }
    environment = {
        **inherited,
        "DATABASE_URL": databases.address(browser_database),
        "SECRET_KEY": settings.SECRET_KEY,
        "ENCRYPTION_KEY": settings.ENCRYPTION_KEY,
        "DATA_DIR": str(folder / "data"),
        "STATIC_ROOT": str(folder / "static"),
        "WORKER_DIR": str(folder / "jobs"),
        "PORT": str(port),
        "BASE_URL": url,
        "BASE_INTERNAL_URL": url,
        "DATABASE_CONNECTIONS": "10",
        "NUM_WORKERS": "2",
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": "windmill_site.settings",
    }
    for name in ("DATABASE_DIRECT_URL", "DATABASE_URL_FILE"):
        environment.pop(name, None)
    site = Site(url=url, environment=environment, folder=folder)
    for step in ("migrate", "bootstrap"):
        if site.start(step, "manage.py", step).wait():
            pytest.fail(f"manage.py {step} failed:\n{site.log(step)}")
    server = site.start(
        "server", "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "windmill_site.asgi:application"
    )

    def answers() -> bool:
        if server.poll() is not None:
            pytest.fail(f"the server ended at once:\n{site.log('server')}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(answers, "the server")
        yield site
    finally:
        stop(server)


@pytest.fixture
def site(_running_site: Site, browser_database: str, django_db_blocker: Any) -> Iterator[Site]:
    """The running site; during the test, the ORM in this process speaks to its database."""
    usual = connection.settings_dict["NAME"]
    with django_db_blocker.unblock():
        connection.close()
        connection.settings_dict["NAME"] = browser_database
        try:
            yield _running_site
        finally:
            connection.close()
            connection.settings_dict["NAME"] = usual


@pytest.fixture(scope="session")
def _running_worker(_running_site: Site) -> Iterator["subprocess.Popen[bytes]"]:
    process = _running_site.start("worker", "manage.py", "runworker")
    yield process
    stop(process)


@pytest.fixture
def worker(site: Site, _running_worker: "subprocess.Popen[bytes]") -> str:
    """Name of a running worker of the site."""
    from jobs.models import WorkerPing

    def ready() -> str | None:
        if _running_worker.poll() is not None:
            pytest.fail(f"the worker ended:\n{site.log('worker')}")
        return WorkerPing.objects.filter(state="running").values_list("worker", flat=True).first()

    return str(wait_until(ready, "a running worker"))


# --- people -------------------------------------------------------------------------------------------------------


@pytest.fixture
def ada(site: Site) -> Person:
    """A superadmin, admin of a workspace of their own."""
    account = make_account("ada", super_admin=True)
    identity = Identity(email=account.email, super_admin=True, account=account)
    workspace = workspaces.create_workspace(
        identity, id=f"acme-{uuid.uuid4().hex[:8]}", name="Acme production", username="ada"
    )
    return Person(account=account, workspace=workspace, site=site)


@pytest.fixture
def member(ada: Person) -> Callable[..., Person]:
    """member("bob", operator=True): another member of ada's workspace."""

    def make(name: str = "bob", *, is_admin: bool = False, operator: bool = False, **fields: Any) -> Person:
        account = make_account(name, **fields)
        workspaces.add_member(
            ada.caller, email=account.email, username=name, is_admin=is_admin, operator=operator
        )
        return Person(account=account, workspace=ada.workspace, site=ada.site)

    return make


@pytest.fixture
def sign_in() -> Callable[[Page, Person], None]:
    """sign_in(page, person): the browser of this page is signed in as that person."""

    def be(page: Page, person: Person) -> None:
        token = tokens.create_session(person.account)
        cookie = {
            "name": "token",
            "value": token,
            "url": person.site.url,
            "httpOnly": True,
            "sameSite": "Lax",
        }
        page.context.add_cookies([cookie])  # type: ignore[list-item]

    return be


@pytest.fixture
def ada_page(page: Page, ada: Person, sign_in: Callable[[Page, Person], None]) -> Page:
    """A tab signed in as ada."""
    sign_in(page, ada)
    return page
