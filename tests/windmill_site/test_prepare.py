"""Servers that start together on a new database."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests import databases

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def empty_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The name of a database without tables."""
    name = f"prepare_{uuid.uuid4().hex[:12]}"
    with django_db_blocker.unblock():
        with connection._nodb_cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}"')
        yield name
        with connection._nodb_cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_one_of_them_migrates_indexes_made_concurrently_included_and_the_other_waits(
    empty_database: str,
) -> None:
    servers = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "windmill_site.prepare", "migrate"],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(PROJECT),
                "DATABASE_URL": databases.address(empty_database),
                "SECRET_KEY": "two-servers-at-once",
            },
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        reports = [json.loads(server.communicate(timeout=120)[0].splitlines()[-1]) for server in servers]
    finally:
        for server in servers:
            server.kill()

    first, second = sorted(report["applied"] for report in reports)
    assert first == 0
    assert second > 0
