"""Which requests get Django's session, form tokens and messages: pages; and how the API does without."""

import asyncio

import pytest
from django.http import HttpResponse
from django.test import AsyncRequestFactory
from django.urls import get_resolver
from django.urls.resolvers import URLPattern, URLResolver

from windmill_site.pages_only import PageCsrf, PageMessages, PageSession


async def answer(request):
    return HttpResponse("ok")


async def test_the_api_is_answered_without_session_or_change_of_thread(monkeypatch):
    def no_threads(*args):
        raise AssertionError("changed thread")

    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", no_threads)
    request = AsyncRequestFactory().get("/api/version")

    response = await PageSession(PageCsrf(PageMessages(answer)))(request)

    assert response.content == b"ok"
    assert not hasattr(request, "session")


async def test_pages_have_session_form_token_and_messages():
    request = AsyncRequestFactory().get("/w/acme/home")

    response = await PageSession(PageCsrf(PageMessages(answer)))(request)

    assert response.content == b"ok"
    assert hasattr(request, "session")
    assert hasattr(request, "_messages")


@pytest.mark.parametrize("path", ["/w/acme/scripts", "/api/forgotten"])
async def test_a_post_without_form_token_is_refused_unless_the_view_is_exempt(path):
    request = AsyncRequestFactory().post(path, {})

    refused = await PageCsrf(answer).process_view(request, answer, (), {})

    assert refused is not None
    assert refused.status_code == 403


def test_every_view_of_the_api_is_exempt_from_form_tokens():
    views = list(views_below(get_resolver().url_patterns[0]))

    assert len(views) > 100
    assert [view for view in views if not getattr(view, "csrf_exempt", False)] == []


def views_below(place: URLResolver | URLPattern):
    if isinstance(place, URLPattern):
        yield place.callback
        return
    for inner in place.url_patterns:
        yield from views_below(inner)
