"""Settings: every variable is documented, a wrong value stops the start with a sentence."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = (ROOT / "windmill_site" / "settings.py").read_text()
DOCUMENTED = (ROOT / "docs" / "configuration.md").read_text()


def load_settings(**environment: str) -> subprocess.CompletedProcess[str]:
    """Import the settings in a process of its own, with nothing but these variables."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import windmill_site.settings as s; print(s.NUM_WORKERS, s.SLEEP_QUEUE, s.MODE)",
        ],
        env={
            "PATH": os.environ["PATH"],
            "SECRET_KEY": "k" * 32,
            "DATABASE_URL": "postgres://u:p@h/d",
            **environment,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_variable_that_is_read_is_documented() -> None:
    read = set(re.findall(r"(?:env\.\w+|_bool|_positive|_list)\(\s*\"([A-Z_]+)\"", SETTINGS))

    assert len(read) > 40
    assert {name for name in read if f"`{name}`" not in DOCUMENTED} == set()


def test_defaults_need_nothing_but_a_database_and_a_key() -> None:
    assert load_settings().stdout.split() == ["None", "50", "standalone"]


def test_the_poll_interval_grows_with_the_number_of_slots() -> None:
    assert load_settings(NUM_WORKERS="4").stdout.split()[:2] == ["4", "200"]


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"NUM_WORKERS": "many"}, "NUM_WORKERS is 'many'; expected a whole number."),
        ({"NUM_WORKERS": "0"}, "NUM_WORKERS is 0; expected between 1 and 1000."),
        ({"MODE": "agentt"}, "MODE is 'agentt'; expected standalone, server or worker."),
        ({"RESTART_ZOMBIE_JOBS": "flase"}, "RESTART_ZOMBIE_JOBS is 'flase'; expected true or false."),
        ({"BASE_URL": "windmill.example.com"}, "expected an address that starts with http:// or https://"),
        ({"DATABASE_URL": "mysql://x/y"}, "DATABASE_URL must start with postgres:// or postgresql://"),
        ({"DATABASE_URL_FILE": "/nowhere/at/all"}, "cannot be read: No such file or directory"),
        ({"DATABASE_URL": ""}, "DATABASE_URL is not set."),
        ({"SECRET_KEY": ""}, "SECRET_KEY is not set."),
        ({"SUPERADMIN_SECRET": "short"}, "SUPERADMIN_SECRET is shorter than 16 characters"),
        ({"ZOMBIE_JOB_TIMEOUT": "6"}, "the timeout must be at least twice the heartbeat"),
        ({"JOB_BLOCKED_NETWORKS": "10.0.0.0/8, metadata"}, "JOB_BLOCKED_NETWORKS: 'metadata' is no network"),
        ({"JOB_CPU_LIMIT": "-1"}, "JOB_CPU_LIMIT is -1.0; expected 0 (no limit) or a number from 0.01"),
        ({"JOB_ISOLATION": "maybe"}, "JOB_ISOLATION is 'maybe'; expected refuse"),
    ],
)
def test_a_wrong_value_stops_the_start_with_a_sentence(variables: dict[str, str], sentence: str) -> None:
    loaded = load_settings(**variables)

    assert loaded.returncode != 0
    assert sentence in loaded.stderr
