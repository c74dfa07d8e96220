"""`./windmill check`: what must hold before a commit, one verdict a check. None needs a database."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from windmill_site.data_folder import PROJECT_DIR


@dataclass(frozen=True, kw_only=True)
class Check:
    name: str
    command: list[str]
    fix: str = ""  # what repairs it, where a command does


def _tool(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


# Slowest first: two run at a time.
CHECKS = (
    Check(name="types", command=_tool("mypy")),
    Check(name="templates", command=_tool("windmill_site.checks", "templates")),
    Check(name="markup", command=_tool("djlint", "templates", "--lint", "--quiet")),
    Check(
        name="layers",
        command=[
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as c; c()",
            "--no-logo",
        ],
    ),
    Check(name="django", command=[sys.executable, "manage.py", "check", "--fail-level", "WARNING"]),
    Check(
        name="migrations",
        command=_tool("windmill_site.checks", "migrations"),
        fix="./windmill manage makemigrations",
    ),
    Check(name="lint", command=_tool("ruff", "check", "--quiet", "."), fix=".venv/bin/ruff check --fix ."),
    Check(
        name="format",
        command=_tool("ruff", "format", "--check", "--quiet", "."),
        fix=".venv/bin/ruff format .",
    ),
)


def check_all(names: list[str]) -> int:
    """Run the named checks (all by default), two at a time; 1 when any fails, 2 for an unknown name."""
    unknown = set(names) - {check.name for check in CHECKS}
    if unknown:
        known = ", ".join(check.name for check in CHECKS)
        print(f"There is no check {', '.join(sorted(unknown))}; expected {known}.", file=sys.stderr)
        return 2
    chosen = [check for check in CHECKS if not names or check.name in names]
    environment = {
        **os.environ,
        # Settings want both; no check connects or signs.
        "DATABASE_URL": "postgresql://check@/check?host=/nonexistent",
        "SECRET_KEY": "check-" + "0123456789abcdef" * 4,
    }
    environment.pop("DATABASE_URL_FILE", None)
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = [pool.submit(_run, check, environment) for check in chosen]
        failed = [
            check.name
            for check, result in zip(chosen, results, strict=True)
            if not _report(check, *result.result())
        ]
    print(
        f"{len(chosen) - len(failed)} of {len(chosen)} checks passed"
        + (f"; failed: {', '.join(failed)}" if failed else "")
    )
    return 1 if failed else 0


def _run(check: Check, environment: dict[str, str]) -> tuple[bool, str, float]:
    began = time.monotonic()
    result = subprocess.run(
        check.command,
        cwd=PROJECT_DIR,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return result.returncode == 0, result.stdout.strip(), time.monotonic() - began


def _report(check: Check, has_passed: bool, output: str, duration_s: float) -> bool:
    print(f"{check.name:<12}{'ok' if has_passed else 'FAILED':<8}{duration_s:5.1f} s", flush=True)
    if not has_passed:
        print("\n".join(f"    {line}" for line in output.splitlines()))
        if check.fix:
            print(f"    To repair: {check.fix}")
    return has_passed


def find_missing_migrations() -> list[str]:
    """Apps whose models differ from their migrations.

    `makemigrations --check` asks a database for its history; models and files say enough without one.
    """
    from django.apps import apps
    from django.db.migrations.autodetector import MigrationAutodetector
    from django.db.migrations.loader import MigrationLoader
    from django.db.migrations.state import ProjectState

    loader = MigrationLoader(None, ignore_no_migrations=True)
    conflicts = [
        f"{app}: two latest migrations, {', '.join(names)}"
        for app, names in loader.detect_conflicts().items()
    ]
    detector = MigrationAutodetector(loader.project_state(), ProjectState.from_apps(apps))
    changes = detector.changes(graph=loader.graph)
    return conflicts + [
        f"{app}: {operation.describe()}"
        for app, migrations in changes.items()
        for migration in migrations
        for operation in migration.operations
    ]


def find_broken_templates() -> list[str]:
    """Templates that do not compile, with what is wrong."""
    from django.template import TemplateSyntaxError
    from django.template.loader import get_template

    root = PROJECT_DIR / "templates"
    broken = []
    for path in sorted(root.rglob("*.html")):
        name = path.relative_to(root).as_posix()
        try:
            get_template(name)
        except TemplateSyntaxError as exc:
            broken.append(f"templates/{name}: {exc}")
    return broken


def main(which: str) -> int:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "windmill_site.settings")
    django.setup()
    problems = {"migrations": find_missing_migrations, "templates": find_broken_templates}[which]()
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
