"""What the editors offer: every language with a starter that makes a form, and which ones no worker can run."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import languages
from jobs.models import Language, WorkerPing
from jobs.signatures import infer_schema
from jobs.starters import starters

PHP = {"missing": "PHP", "install": "Debian, Ubuntu: apt install php-cli"}


def worker(name: str, runtimes: dict[str, Any], **fields: Any) -> None:
    WorkerPing.objects.create(worker=name, worker_instance="host", runtimes=runtimes, **fields)


def problem(language: str) -> str:
    return next(one.problem for one in languages.offered() if one.id == language)


def test_every_language_is_offered_once() -> None:
    assert sorted(one.id for one in languages.offered([])) == sorted(Language.values)


@pytest.mark.parametrize("language", Language.values)
def test_every_starter_makes_a_form_of_typed_fields_with_defaults_where_the_language_has_them(
    language: str,
) -> None:
    found = infer_schema(language, starters()[language])

    assert found.problem is None
    typed = [arg for arg in found.args if not isinstance(arg.typ, dict) or "resource" not in arg.typ]
    assert typed
    assert all(arg.typ != "unknown" for arg in typed)
    assert language == "go" or all(arg.has_default for arg in typed)


@pytest.mark.django_db
def test_a_language_that_no_live_worker_can_run_names_the_tool_and_how_to_get_it() -> None:
    worker("w1", {"bash": {"version": "5.2"}, "php": PHP})
    worker("w2", {"php": PHP})

    assert problem("php") == (
        "No live worker can run PHP: PHP is missing. To install it: Debian, Ubuntu: apt install php-cli."
    )
    assert problem("bash") == ""
    assert problem("go") == "No live worker can run Go."


@pytest.mark.django_db
def test_one_worker_that_has_the_tool_is_enough() -> None:
    worker("w1", {"php": PHP})
    worker("w2", {"php": {"version": "8.2"}})

    assert problem("php") == ""


@pytest.mark.django_db
@pytest.mark.parametrize(
    "fields", [{"state": "failed"}, {"state": "draining"}, {"ping_at": Now() - timedelta(minutes=5)}]
)
def test_workers_that_take_no_jobs_do_not_count(fields: dict[str, Any]) -> None:
    worker("w1", {"php": PHP})
    worker("w2", {"php": {"version": "8.2"}}, **fields)

    assert problem("php") != ""


@pytest.mark.django_db
def test_without_any_worker_no_language_is_blamed_and_a_note_says_so() -> None:
    offered = languages.for_page()

    assert [one["problem"] for one in offered["languages"] if one["problem"]] == []
    assert offered["note"] == languages.NO_WORKER
