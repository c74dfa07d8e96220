"""Text that users wrote, made safe to show: Markdown of descriptions, and the frame for html and markdown results."""

from functools import cache
from typing import Any

import nh3
from django.http import HttpResponse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

# The frame that shows what a job returned: no scripts, no network, no forms, and an origin of its own.
RESULT_FRAME_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
MAX_MARKDOWN = 500_000  # characters rendered; more would make a page that nobody can read

_TEXT_TAGS = {
    "a",
    "b",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "hr",
    "i",
    "img",
    "ins",
    "kbd",
    "p",
    "pre",
    "s",
}
_BLOCK_TAGS = {
    "strong",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "li",
    "ol",
    "ul",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
}
_FRAME_STYLE = """
:root { color-scheme: light dark; }
html[data-theme=light] { color-scheme: light; }
html[data-theme=dark] { color-scheme: dark; }
body { margin: 16px; font: 14px/1.6 ui-sans-serif, system-ui, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere;
  color: light-dark(#14171d, #e9ecf2); background: light-dark(#fff, #13161c); }
h1, h2, h3 { line-height: 1.3; }
a { color: light-dark(#2b5bd0, #84aaff); }
img { max-width: 100%; }
code, pre { font: 12.5px/1.6 ui-monospace, monospace; background: light-dark(#f3f5f8, #1a1e26); border-radius: 4px; }
code { padding: 1px 4px; }
pre { padding: 10px 12px; overflow: auto; }
pre code { padding: 0; }
table { border-collapse: collapse; }
th, td { border: 1px solid light-dark(#e2e5eb, #252b36); padding: 4px 10px; text-align: left; }
blockquote { margin-inline: 0; padding-left: 12px; border-left: 3px solid light-dark(#c9ced8, #3a4352); }
"""


def render_markdown(text: str, *, below: int = 0) -> SafeString:
    """HTML of a Markdown text, safe to put into a page: raw HTML in it stays text, links say nothing of us.

    `below` is the level of the heading that the text stands under; its own headings begin one level deeper.
    """
    tokens = _markdown().parse(text[:MAX_MARKDOWN])
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + below)}"
    rendered = _markdown().renderer.render(tokens, _markdown().options, {})
    clean = nh3.clean(
        rendered,
        tags=_TEXT_TAGS | _BLOCK_TAGS,
        attributes={
            "a": {"href", "title"},
            "img": {"src", "alt", "title"},
            "ol": {"start"},
            "th": {"align"},
            "td": {"align"},
        },
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(clean)


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])


def result_document(result: Any, *, at: str = "", theme: str = "auto") -> str | None:
    """The page that a result frame shows: the html or markdown of `result`, or of the part that `at` names.

    `at` is a place inside render_all: "1" or "1/0". None when there is no such part, or it is neither kind.
    """
    value = part_of(result, at)
    if not isinstance(value, dict) or len(value) != 1:
        return None
    (kind, content) = next(iter(value.items()))
    if isinstance(content, dict):
        content = content.get("content")
    if not isinstance(content, str):
        return None
    if kind == "html":
        return content
    if kind in ("markdown", "md"):
        mode = theme if theme in ("light", "dark") else "auto"
        return (
            f'<!doctype html><html lang="en" data-theme="{mode}"><meta charset="utf-8"><title>Result</title>'
            f"<style>{_FRAME_STYLE}</style><body>{render_markdown(content)}</body></html>"
        )
    return None


def part_of(result: Any, at: str) -> Any:
    """The part of a result at a place inside render_all ("1", "1/0"; "" is the whole); None when there is none."""
    value = result
    for step in at.split("/") if at else ():
        parts = value.get("render_all") if isinstance(value, dict) else None
        if not isinstance(parts, list) or not step.isdecimal() or len(step) > 6 or int(step) >= len(parts):
            return None
        value = parts[int(step)]
    return value


def frame_response(document: str) -> HttpResponse:
    """Answer with a document nobody trusts, under its own policy: only our pages may frame it, nothing in it runs."""
    response = HttpResponse(document, content_type="text/html; charset=utf-8")
    response["Content-Security-Policy"] = RESULT_FRAME_POLICY
    response["X-Frame-Options"] = "SAMEORIGIN"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response
