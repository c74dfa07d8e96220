"""While the database is away requests are answered 503 with a sentence, and who waits for a job waits on."""

import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connections
from django.test import Client

from jobs import following
from jobs.listener import Listener

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def without_database() -> Callable[[Callable[[], Any]], Any]:
    """Do something on a thread for which nobody listens at the database's address."""

    def do(work: Callable[[], Any]) -> Any:
        answers: list[Any] = []

        def run() -> None:
            nowhere = connections["default"].copy()
            nowhere.settings_dict |= {"HOST": "127.0.0.1", "PORT": "1"}
            connections["default"] = nowhere
            answers.append(work())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return answers[0]

    return do


def get(path: str) -> Callable[[], Any]:
    client = Client(raise_request_exception=False, headers={"Authorization": "Bearer some-token"})
    return lambda: client.get(path)


def test_a_route_answers_503_with_a_sentence(without_database: Callable[[Callable[[], Any]], Any]) -> None:
    answer = without_database(get("/api/w/acme/jobs/list"))

    assert answer.status_code == 503
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.content.startswith(b"Unavailable: the database is away")
    assert answer.headers["Retry-After"] == "5"


def test_a_page_says_so_too(without_database: Callable[[Callable[[], Any]], Any]) -> None:
    answer = without_database(get("/w/acme/runs/"))

    assert answer.status_code == 503
    assert b"The database cannot be reached" in answer.content


async def test_who_waits_for_a_result_waits_on(database_url: str) -> None:
    answers: list[Any] = [OperationalError("terminating connection due to administrator command"), None, 42]
    job = uuid4()

    def look() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    listener = Listener(url=database_url)  # which is not started: it polls
    with listener.watch_job(job) as watch:
        assert await following.wait_for(watch, look, timeout_s=30) == 42


async def test_what_is_wrong_for_good_is_not_waited_for(database_url: str) -> None:
    def look() -> Any:
        raise ZeroDivisionError

    with Listener(url=database_url).watch_job(uuid4()) as watch, pytest.raises(ZeroDivisionError):
        await following.wait_for(watch, look, timeout_s=30)
