"""One run's page, what it loads, and what its buttons do."""

import base64
from uuid import uuid4

import pytest
from django.test import Client

from jobs import queue, runs
from jobs.markup import RESULT_FRAME_POLICY
from jobs.models import Job, QueuedJob
from tests.jobs.pages.test_runs_page import HTMX, queries_of

ERROR = {
    "error": {
        "name": "ValueError",
        "message": "no such customer",
        "stack": '  File "/tmp/job/f/shared/greet.py", line 2, in main\nValueError: no such customer',
    }
}


def url(job_id, word=""):
    return f"/w/acme/runs/{job_id}/{word}"


def test_a_failed_run_says_what_failed_on_its_first_screen(browser_of, finish):
    job_id = finish(result=ERROR, status="failure")

    text = browser_of("alice").get(url(job_id)).content.decode()

    assert "ValueError: no such customer" in text
    assert "Run again" in text
    assert "Open in editor" in text
    assert 'data-status="failure"' in text


def test_the_page_costs_at_most_fifteen_queries(browser_of, finish):
    job_id = finish(result=ERROR, status="failure")
    browser = browser_of("alice")

    assert queries_of(lambda: browser.get(url(job_id))) <= 15


def test_the_result_is_served_as_it_was_recorded(browser_of, finish):
    deep = "[" * 5000 + "]" * 5000
    job_id = finish(text='{"z": 1, "a": "\\u0000", "deep": ' + deep + "}")
    browser = browser_of("alice")

    assert browser.get(url(job_id)).status_code == 200
    answer = browser.get(url(job_id, "result.json"))

    assert answer.content.startswith(b'{"z": 1, "a": "\\u0000", "deep": [[[')
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Content-Disposition" not in answer.headers
    assert browser.get(url(job_id, "result.html")).status_code == 404


def test_the_page_does_not_carry_a_large_result(browser_of, finish):
    job_id = finish(result="x" * 1_000_000)

    page = browser_of("alice").get(url(job_id)).content

    assert len(page) < 60_000
    assert b'size="1000002"' in page


def test_html_of_a_result_is_framed_under_a_policy_of_its_own(browser_of, finish):
    html = "<script>parent.document.title = 'stolen'</script><h1>Report</h1>"
    job_id = finish(result={"html": html})

    answer = browser_of("alice").get(url(job_id, "result.html"))

    assert answer.content.decode() == html
    assert answer.headers["Content-Security-Policy"] == RESULT_FRAME_POLICY
    assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_markdown_of_a_result_is_rendered_without_the_html_in_it(browser_of, finish):
    job_id = finish(
        result={
            "render_all": [
                "text",
                {"md": "# Report\n\n<img src=x onerror=alert(1)>\n\n[x](javascript:alert(1))"},
            ]
        }
    )
    browser = browser_of("alice")

    text = browser.get(url(job_id, "result.html"), {"at": "1"}).content.decode()

    assert "<h1>Report</h1>" in text
    assert "<img" not in text
    assert 'href="javascript:' not in text
    assert browser.get(url(job_id, "result.html"), {"at": "0"}).status_code == 404
    assert browser.get(url(job_id, "result.html"), {"at": "1/0"}).status_code == 404
    assert browser.get(url(job_id, "result.html"), {"at": "99999999"}).status_code == 404


def test_a_file_leaves_as_an_attachment_whose_name_cannot_break_the_header(browser_of, finish):
    content = base64.b64encode(b"<html>").decode()
    job_id = finish(result={"file": {"content": content, "filename": 'r"é\r\nX: 1.html'}})

    answer = browser_of("alice").get(url(job_id, "file"))

    assert answer.content == b"<html>"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    disposition = answer.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="r____X_ 1.html"')
    assert "\n" not in disposition


def test_the_log_downloads_whole(browser_of, finish):
    job_id = finish(log="one\ntwo\n")

    answer = browser_of("alice").get(url(job_id, "log.txt"))

    assert answer.content == b"one\ntwo\n"
    assert "attachment" in answer.headers["Content-Disposition"]


def test_a_queued_run_says_that_no_worker_listens_to_its_tag(browser_of, start):
    job_id = start(tag="gpu")
    browser = browser_of("alice")

    assert "No live worker listens to tag gpu" in browser.get(url(job_id)).content.decode()
    assert (
        "No live worker listens to tag gpu"
        in browser.get(url(job_id), {"part": "why"}, headers=HTMX).content.decode()
    )


def test_a_scheduled_run_can_be_made_due(browser_of, start):
    job_id = start(scheduled_in_s=3600)
    browser = browser_of("alice")
    assert "It runs later" in browser.get(url(job_id)).content.decode()

    browser.post(url(job_id, "now/"), headers=HTMX)

    assert "It runs later" not in browser.get(url(job_id)).content.decode()


def test_canceling_a_queued_run_records_who_and_why(browser_of, start):
    job_id = start()

    answer = browser_of("alice").post(url(job_id, "cancel/"), {"reason": "wrong customer"}, headers=HTMX)

    text = answer.content.decode()
    assert "Job canceled: wrong customer by alice" in text
    assert 'data-status="canceled"' in text


def test_force_is_offered_once_a_running_job_was_asked_to_stop(browser_of, start):
    job_id = start()
    queue.claim_jobs(worker="w1", tags=["python3"], limit=1)
    browser = browser_of("alice")
    assert "Force cancel" not in browser.get(url(job_id)).content.decode()

    asked = browser.post(url(job_id, "cancel/"), headers=HTMX).content.decode()
    browser.post(url(job_id, "cancel/"), {"force": "1"}, headers=HTMX)

    assert "cancel requested by alice" in asked
    assert "Force cancel" in asked
    assert not QueuedJob.objects.filter(pk=job_id).exists()


def test_run_again_queues_the_same_inputs_and_goes_there(browser_of, finish):
    job_id = finish(args={"name": "grace"})

    answer = browser_of("alice").post(url(job_id, "again/"))

    again = Job.objects.exclude(pk=job_id).get()
    assert answer.headers["Location"] == url(again.id)
    assert again.args == {"name": "grace"}


def test_a_run_says_how_often_its_worker_died(browser_of, start):
    job_id = start()
    QueuedJob.objects.filter(pk=job_id).update(restarts=2)

    assert "Restarted 2 times after its worker died" in browser_of("alice").get(url(job_id)).content.decode()


@pytest.mark.parametrize(
    ("isolation", "says"),
    [
        ("namespaces", ">namespaces</a>"),
        ("none", '<span class="tag warn">none</span></a>'),
        (None, "it had no process of its own, or its worker died"),
    ],
)
def test_a_run_says_which_isolation_it_ran_in(browser_of, finish, isolation, says):
    page = browser_of("alice").get(url(finish(isolation=isolation))).content.decode()

    assert says in page.partition("<dt>Isolation</dt>")[2].partition("</dd>")[0]


@pytest.mark.parametrize(
    "word", ["", "result.json", "result.html", "file", "args.json", "log.txt", "state.json"]
)
def test_a_run_that_is_not_yours_to_see_does_not_exist(browser_of, alice, finish, word):
    hidden = runs.run_preview(
        alice, runs.Preview(content="def main(): 1", language="python3"), runs.RunOptions()
    )

    assert browser_of("dave").get(url(hidden, word)).status_code == 404
    assert browser_of("alice").get(url(uuid4(), word)).status_code == 404
    assert Client().get(url(hidden, word)).status_code in (302, 401)


def test_arguments_of_any_text_are_shown_as_text(browser_of, finish):
    job_id = finish(args={"name": "</script><script>alert(1)</script>"})

    text = browser_of("alice").get(url(job_id)).content.decode()

    assert "<script>alert(1)" not in text


@pytest.mark.parametrize("kind", ["flowdependencies", "identity"])
def test_a_job_without_code_shows_none_and_cannot_run_again(browser_of, acme, kind):
    job_id = queue.push_job(
        queue.JobRequest(
            workspace_id="acme",
            kind=kind,
            runnable_id=1,
            runnable_path="f/shared/onboard",
            tag="dependency",
            args={},
            created_by="alice",
            permissioned_as="u/alice",
            permissioned_as_email="alice@example.com",
        )
    )

    text = browser_of("alice").get(f"/w/acme/runs/{job_id}/").content.decode()

    assert 'id="t-code"' not in text
    assert "Run again" not in text
