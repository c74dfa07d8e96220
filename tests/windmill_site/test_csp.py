"""The policy middleware, in the sync and in the async chain."""

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse

from windmill_site.csp import POLICY, RESULT_FRAME_POLICY, ContentSecurityPolicy


def test_a_sync_answer_gets_the_policy() -> None:
    answer = ContentSecurityPolicy(lambda request: HttpResponse("x"))(HttpRequest())

    assert answer.headers["Content-Security-Policy"] == POLICY  # type: ignore[union-attr]
    assert answer.headers["X-Frame-Options"] == "DENY"  # type: ignore[union-attr]


async def test_an_async_answer_gets_the_policy() -> None:
    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("x")

    middleware = ContentSecurityPolicy(view)

    assert iscoroutinefunction(middleware)
    assert (await middleware(HttpRequest())).headers["Content-Security-Policy"] == POLICY  # type: ignore[misc]


def test_a_view_keeps_its_own_policy_and_may_be_framed_by_us() -> None:
    own = HttpResponse("<h1>result</h1>", headers={"Content-Security-Policy": RESULT_FRAME_POLICY})

    answer = ContentSecurityPolicy(lambda request: own)(HttpRequest())

    assert answer.headers["Content-Security-Policy"] == RESULT_FRAME_POLICY  # type: ignore[union-attr]
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"  # type: ignore[union-attr]


def test_nothing_inline_and_no_eval_is_allowed() -> None:
    assert "unsafe" not in POLICY
    assert "unsafe-eval" not in RESULT_FRAME_POLICY and "script-src" not in RESULT_FRAME_POLICY
