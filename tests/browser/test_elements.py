"""What the custom elements and the page shell promise, seen in a browser without the rest of the product."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from playwright.sync_api import Page, expect

from tests.browser.elements.gallery import Gallery, running_gallery

pytestmark = pytest.mark.browser

CODE = "def main(name: str, times: int = 2):\n    print(name)\n    return name * times\n"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "order": ["customer", "amount", "currency"],
    "required": ["customer", "amount"],
    "properties": {
        "customer": {
            "type": "string",
            "title": "Customer",
            "pattern": "^cus_",
            "description": "Starts with cus_",
        },
        "amount": {"type": "integer", "minimum": 1, "maximum": 500},
        "currency": {"type": "string", "enum": ["EUR", "USD"], "default": "EUR"},
        "dry_run": {"type": "boolean", "default": False},
        "gateway": {"type": "object", "format": "resource-stripe"},
        "day": {"type": "string", "format": "date"},
        "table": {"type": "string", "contentEncoding": "base64"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "points": {"type": "array", "items": {"type": "number"}},
        "sizes": {"type": "array", "items": {"type": "string", "enum": ["S", "M"]}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "how": {
            "type": "object",
            "oneOf": [
                {
                    "type": "object",
                    "title": name,
                    "properties": {"label": {"type": "string", "enum": [name]}, field: {"type": "string"}},
                }
                for name, field in (("Card", "number"), ("Bank", "iban"))
            ],
        },
        "anything": {},
    },
}
FORM = (
    '<form class="stack"><wm-schema-form name="args" data-schema="schema" data-value="args"></wm-schema-form>'
)
FORM += '<button class="btn primary">Run</button></form>'
ROWS = [{"id": n, "name": f"row {n}", "odd": n % 2 == 1} for n in range(250)]
ERROR = {
    "error": {
        "name": "ValueError",
        "message": "no such customer",
        "stack": 'File "/tmp/x/charge.py", line 3, in main\n  File "/venv/site-packages/a.py", line 9, in b',
    }
}


@pytest.fixture(scope="module")
def gallery() -> Iterator[Gallery]:
    with running_gallery() as running:
        yield running


def form_value(page: Page) -> Any:
    return json.loads(page.evaluate("new FormData(document.querySelector('main form')).get('args')"))


# --- looks ---


@pytest.mark.parametrize("width", ["wide", "narrow"])
@pytest.mark.parametrize("name", ["components", "editors", "form", "results", "log", "missing"])
def test_everything_is_accessible_and_fits_the_screen(
    gallery: Gallery, page: Page, assert_accessible: Any, width: str, name: str
) -> None:
    code = '<div class="code-frame"><wm-code data-src="a" language="python3" label="Script"></wm-code></div>'
    code += '<wm-diff data-before="a" data-after="b" language="python3"></wm-diff>'
    shown = {
        "table": ROWS,
        "error": ERROR,
        "tree": SCHEMA,
        "text": "a\nb",
        "image": {"svg": "<svg xmlns='http://www.w3.org/2000/svg'/>"},
    }
    results = (
        '<div class="stack">'
        + "".join(f'<wm-result data-src="{key}" lines></wm-result>' for key in shown)
        + "</div>"
    )
    log = "".join(
        f"\x1b[3{n % 8}m{n}\x1b[0m \x1b[9{n % 8}mline {n}\x1b[0m \x1b[2mfaint\x1b[0m\n" for n in range(99)
    )
    address = {
        "components": lambda: gallery.page(name, "components.html"),
        "editors": lambda: gallery.elements(name, ["code", "diff"], code, a=CODE, b=CODE.replace("2", "3")),
        "form": lambda: gallery.elements(
            name, ["schema-form"], FORM, schema=SCHEMA, args={"points": [1], "amount": 0}
        ),
        "results": lambda: gallery.elements(name, ["result", "table"], results, **shown),
        "log": lambda: gallery.elements(name, ["logs"], '<wm-logs data-src="log"></wm-logs>', log=log),
        "missing": lambda: gallery.page(name, "errors/404.html", near=[{"url": "#a", "path": "f/a/b"}]),
    }[name]()

    page.goto(address)
    if name == "editors":
        expect(page.locator("wm-code[ready]")).to_have_count(1)
        expect(page.locator("wm-diff[ready]")).to_have_count(1)
    if name == "results":
        expect(page.get_by_role("cell", name="row 3", exact=True)).to_be_visible()

    assert_accessible()


# --- shell ---


def test_the_palette_finds_and_keys_navigate(gallery: Gallery, page: Page) -> None:
    page.goto(gallery.page("shell", "components.html"))

    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("charge")
    found = page.get_by_role("listbox", name="Results").get_by_role("option")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("Charge saved card")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/shell#runs")
    page.keyboard.press("/")
    expect(page.get_by_label("Filter runs")).to_be_focused()
    page.keyboard.type("g?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("Filter runs")).to_have_value("g?")
    page.get_by_role("tab", name="Result").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("The log panel")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def test_a_dangerous_button_asks_first(gallery: Gallery, page: Page) -> None:
    page.goto(gallery.page("confirm", "components.html"))
    page.evaluate(
        """document.addEventListener('click', e => {
             if (e.target.closest('[data-confirm]')) window.hits = (window.hits || 0) + 1 })"""
    )

    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Keep", exact=True).first.click()
    assert page.evaluate("window.hits") is None
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the run").click()

    page.wait_for_function("() => window.hits === 1")


def test_the_theme_is_kept_in_a_cookie_that_the_server_reads(gallery: Gallery, page: Page) -> None:
    page.goto(gallery.page("theme", "components.html"))

    page.get_by_role("radio", name="Dark theme").click()

    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    assert {"name": "theme", "value": "dark"} in [
        {"name": cookie["name"], "value": cookie["value"]} for cookie in page.context.cookies()
    ]


# --- wm-code, wm-diff ---


def test_the_editor_submits_its_text_and_speaks_by_events(gallery: Gallery, page: Page) -> None:
    markup = '<form><wm-code name="content" data-src="code" language="python3" label="Script"></wm-code>'
    markup += "<button>Deploy</button></form>"
    page.goto(gallery.elements("code", ["code"], markup, code=CODE))
    page.evaluate(
        """window.heard = []; for (const name of ['wm-change', 'wm-run', 'wm-save'])
             document.addEventListener(name, () => heard.push(name))"""
    )
    editor = page.get_by_role("textbox", name="Script")

    editor.click()
    page.keyboard.press("Control+Home")
    page.keyboard.type("x")
    page.keyboard.press("Control+s")
    page.keyboard.press("Control+Enter")

    assert page.evaluate("new FormData(document.querySelector('main form')).get('content')") == "x" + CODE
    assert page.evaluate("heard") == ["wm-change", "wm-save", "wm-run"]
    page.evaluate(
        "document.querySelector('wm-code').diagnostics = [{line: 1, message: 'name is not defined'}]"
    )
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)
    page.keyboard.press("Escape")  # closes the suggestions
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Deploy")).to_be_focused()


def test_code_is_readable_before_the_editor_arrives(gallery: Gallery, page: Page) -> None:
    page.route("**/vendor/cm/**", lambda route: None)  # the editor never comes

    page.goto(
        gallery.elements("slow", ["code"], '<wm-code data-src="code"></wm-code>', code=CODE),
        wait_until="commit",
    )

    expect(page.locator("wm-code pre")).to_contain_text("return name * times")


def test_a_diff_counts_lines_and_switches_layout(gallery: Gallery, page: Page) -> None:
    markup = '<wm-diff data-before="a" data-after="b" language="python3"></wm-diff>'
    page.goto(gallery.elements("diff", ["diff"], markup, a=CODE, b=CODE.replace("= 2", "= 3") + "\n# end\n"))

    expect(page.locator(".df-count")).to_have_text("+3 −1")
    page.get_by_role("button", name="Unified").click()

    expect(page.locator(".cm-deletedChunk").first).to_contain_text("times: int = 2")


# --- wm-schema-form ---


def test_the_form_refuses_then_submits_one_json_value(gallery: Gallery, page: Page) -> None:
    page.goto(gallery.elements("form", ["schema-form"], FORM, schema=SCHEMA, args={}))
    page.evaluate(
        """document.querySelector('main form').addEventListener('submit', e => {
             e.preventDefault(); window.sent = true })"""
    )

    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("This is required")).to_have_count(2)
    expect(page.get_by_label("Customer")).to_be_focused()
    page.get_by_label("Customer").fill("cus_1")
    page.get_by_label("amount").fill("900")
    expect(page.get_by_text("Must be 500 or less")).to_be_visible()
    page.get_by_label("amount").fill("5")
    page.get_by_label("labels").fill("new")
    page.keyboard.press("Enter")
    page.get_by_role("group", name="points").get_by_role("button", name="Add").click()
    page.get_by_role("textbox", name="points 1").fill("2.5")
    page.get_by_label("M", exact=True).check()
    page.get_by_label("how: which").select_option("Bank")
    page.get_by_label("iban").fill("FR76")
    page.get_by_label("city").fill("Lyon")
    page.get_by_label("day").fill("2026-01-31")
    page.get_by_label("table").set_input_files({"name": "a.csv", "mimeType": "text/csv", "buffer": b"a,b"})
    page.get_by_label("anything").fill('{"deep": [1]}')
    expect(page.get_by_text("3 B held")).to_be_visible()
    page.get_by_role("button", name="Run").click()

    page.wait_for_function("() => window.sent")
    assert form_value(page) == {
        "customer": "cus_1",
        "amount": 5,
        "currency": "EUR",
        "dry_run": False,
        "labels": ["new"],
        "points": [2.5],
        "sizes": ["M"],
        "how": {"label": "Bank", "iban": "FR76"},
        "address": {"city": "Lyon"},
        "day": "2026-01-31",
        "table": "YSxi",
        "anything": {"deep": [1]},
    }


def test_typed_values_survive_a_changed_signature(gallery: Gallery, page: Page) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "n": {"type": "integer", "default": 1}},
    }
    page.goto(gallery.elements("infer", ["schema-form"], FORM, schema=schema, args={}))
    change = (
        "properties => { document.querySelector('wm-schema-form').schema = {type: 'object', properties} }"
    )

    page.get_by_role("textbox", name="a", exact=True).fill("7")
    page.evaluate(change, {"b": {"type": "string"}})
    expect(page.get_by_role("textbox", name="b", exact=True)).to_be_visible()
    page.evaluate(change, {"a": {"type": "integer"}, "n": {"type": "integer", "default": 2}})

    expect(page.get_by_role("textbox", name="a", exact=True)).to_have_value("7")
    assert form_value(page) == {"a": 7, "n": 2}  # fits the new type; the untouched default follows the code


def test_arguments_can_be_edited_as_json(gallery: Gallery, page: Page) -> None:
    page.goto(gallery.elements("json", ["schema-form"], FORM, schema=SCHEMA, args={"customer": "cus_1"}))

    page.get_by_role("button", name="JSON").click()
    text = page.get_by_label("Arguments as JSON")
    text.fill('{"customer": "cus_2", ')
    expect(page.get_by_text("Not valid JSON")).to_be_visible()
    assert form_value(page)["customer"] == "cus_1"
    text.fill('{"customer": "cus_2", "amount": 3}')
    page.get_by_role("button", name="Form", exact=True).click()

    expect(page.get_by_label("Customer")).to_have_value("cus_2")


def test_a_resource_is_picked_by_its_path(gallery: Gallery, page: Page) -> None:
    gallery.pages["/resources"] = ("application/json", json.dumps([{"path": "f/billing/stripe_live"}]))
    markup = FORM.replace("data-schema", f'resources-url="{gallery.url}/resources?type=" data-schema')
    schema = {"type": "object", "properties": {"gateway": {"type": "object", "format": "resource-stripe"}}}
    page.goto(gallery.elements("resource", ["schema-form"], markup, schema=schema, args={}))

    page.get_by_label("gateway").select_option("f/billing/stripe_live")

    assert form_value(page) == {"gateway": "$res:f/billing/stripe_live"}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "integer", "minimum": 2, "exclusiveMaximum": 5}, [1, 2, 4, 5, 2.5, "2", True]),
        ({"type": "number", "multipleOf": 0.5}, [1.5, 0.25, 7, "x"]),
        (
            {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^a"},
            ["a", "ab", "abcd", "bb", "a🎈", 3],
        ),
        ({"type": "string", "enum": ["x", "y"]}, ["x", "z", 1]),
        ({"type": "string", "format": "date"}, ["2026-01-31", "31/01/2026", "2026-13-01"]),
        (
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "uniqueItems": True},
            [[], [1], [1, 1], ["a"], 4],
        ),
        (
            {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]},
            [{}, {"b": True}, {"b": 1}, []],
        ),
    ],
    ids=["integer", "number", "string", "enum", "date", "array", "object"],
)
def test_the_form_judges_like_the_servers_validator(
    gallery: Gallery, page: Page, schema: dict[str, Any], values: list[Any]
) -> None:
    page.goto(gallery.elements("judge", [], ""))
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    server = Draft202012Validator(whole, format_checker=FormatChecker())

    judged = page.evaluate(
        """async ([schema, values]) => { const { check } = await import('/static/js/schema.js');
           return values.map(v => Object.keys(check(schema, {v})).length === 0) }""",
        [whole, values],
    )

    assert dict(zip(map(repr, values), judged, strict=True)) == {
        repr(value): server.is_valid({"v": value}) for value in values
    }


# --- wm-logs, wm-live ---


def test_a_log_is_live_and_resumes_without_loss_or_doubles(gallery: Gallery, page: Page) -> None:
    gallery.log("j1", "first 🎈 line\nsec")
    markup = '<wm-live src="/ws/w/acme/jobs/j1"></wm-live><b id="n"></b>'
    markup += '<wm-logs src="/ws/w/acme/jobs/j1" count-into="n"></wm-logs>'
    page.goto(gallery.elements("live", ["logs", "live"], markup))
    log = page.get_by_role("log")
    expect(log).to_contain_text("sec")

    gallery.log("j1", "ond line\n")
    expect(log).to_contain_text("second line")
    gallery.cut()
    expect(page.get_by_text("Reconnecting")).to_be_visible()
    gallery.log("j1", "third line\n", done=True)

    expect(page.get_by_text("Complete, 3 lines")).to_be_visible(timeout=8000)
    assert page.evaluate("document.querySelector('wm-logs').text") == "first 🎈 line\nsecond line\nthird line"
    assert gallery.offsets[0] == 0 and gallery.offsets[-1] == len("first 🎈 line\nsecond line\n")
    expect(page.locator("#n")).to_have_text("3")


def test_status_events_follow_the_job(gallery: Gallery, page: Page) -> None:
    gallery.log("j2", "x\n")
    page.goto(gallery.elements("status", ["live"], '<div id="box"></div>'))
    page.evaluate(
        """window.heard = []; document.addEventListener('wm-status', e => heard.push(e.detail.status));
           document.addEventListener('wm-done', () => heard.push('done'));
           document.getElementById('box').innerHTML = '<wm-live src="/ws/w/acme/jobs/j2"></wm-live>'"""
    )
    page.wait_for_function("() => heard.length === 1")

    gallery.log("j2", "y\n", done=True)

    page.wait_for_function("() => heard.at(-1) === 'done'")
    assert page.evaluate("heard") == ["running", "success", "done"]


def test_a_refused_socket_is_not_tried_again(gallery: Gallery, page: Page) -> None:
    gallery.refuse["j3"] = 4403
    page.goto(gallery.elements("refused", ["logs"], '<wm-logs src="/ws/w/acme/jobs/j3"></wm-logs>'))

    expect(page.get_by_text("not available to you")).to_be_visible()
    assert not gallery.offsets or gallery.offsets[-1] != 3


def test_a_hundred_thousand_lines_are_a_few_rows_and_are_searched(gallery: Gallery, page: Page) -> None:
    page.goto(gallery.elements("long", ["logs"], "<wm-logs></wm-logs>"))
    text = "".join(f"\x1b[32mINFO\x1b[0m charged customer {n}\n" for n in range(100_000))

    page.evaluate("text => document.querySelector('wm-logs').append(text)", text)
    expect(page.get_by_role("log")).to_contain_text("customer 99999")
    assert page.locator(".lg-row").count() < 80
    page.get_by_label("Find in logs").fill("customer 4242")
    expect(page.get_by_text("1 of 11 lines")).to_be_visible()
    expect(page.locator(".lg-row.now")).to_contain_text("customer 4242")
    page.keyboard.press("Enter")
    expect(page.locator(".lg-row.now")).to_contain_text("customer 42420")
    page.get_by_role("button", name="Follow the end").click()

    expect(page.get_by_role("log")).to_contain_text("customer 99999")


def test_colours_span_lines_and_control_characters_do_not_show(gallery: Gallery, page: Page) -> None:
    log = "\x1b[31mred\nstill red\x1b[0m\n10%\r20%\rdone\n\x1b]8;;https://x\x07link\x1b]8;;\x07\n"
    page.goto(gallery.elements("ansi", ["logs"], '<wm-logs data-src="log"></wm-logs>', log=log))

    expect(page.locator(".lg-row").nth(1).locator(".a-31")).to_have_text("still red")
    expect(page.locator(".lg-t").nth(2)).to_have_text("done")
    expect(page.locator(".lg-t").nth(3)).to_have_text("link")
    page.get_by_role("button", name="Wrap long lines").click()
    expect(page.locator(".lg-t").nth(3)).to_have_text("link")


# --- results ---


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        ("text", "text"),
        (42, "scalar"),
        ([{"a": 1}], "rows"),
        ([1, 2], "json"),
        ([], "json"),
        ({"a": 1}, "json"),
        ({"table-col": {"a": [1, 2]}}, "table"),
        ({"table-row": [["a"], [1]]}, "table"),
        ({"table-row-object": [["b", "a"], {"a": 1, "b": 2}]}, "table"),
        ({"table-row": 5}, "json"),
        ({"html": "<b>x</b>"}, "html"),
        ({"md": "# x"}, "markdown"),
        ({"png": "iVBORw0KGgo="}, "image"),
        ({"svg": {"content": "<svg/>"}}, "image"),
        ({"file": {"content": "eA==", "filename": "x"}}, "file"),
        ({"pdf": "JVBERg=="}, "pdf"),
        ({"map": {"lat": 1, "lon": 2}}, "map"),
        ({"error": {"name": "E", "message": "m"}}, "error"),
        ({"error": "plain"}, "json"),
        ({"resume": "http://x/r", "cancel": "http://x/c", "approvalPage": "http://x/a"}, "approval"),
        ({"s3": "a/b.csv"}, "s3object"),
        ({"render_all": [1]}, "render_all"),
        ({"html": "x", "other": 1}, "json"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_a_result_chooses_its_viewer(gallery: Gallery, result_kinds: Any, value: Any, kind: str) -> None:
    assert result_kinds(value) == kind


@pytest.fixture(scope="module")
def result_kinds(gallery: Gallery, browser: Any) -> Iterator[Any]:
    page = browser.new_page()
    page.goto(gallery.elements("kinds", [], ""))
    yield lambda value: page.evaluate(
        "async v => (await import('/static/js/elements/result.js')).kindOf(v)", value
    )
    page.close()


def test_html_results_run_in_a_frame_that_cannot_script(gallery: Gallery, page: Page) -> None:
    gallery.pages["/run/result.html"] = ("text/html", "<h1>Report</h1><p style='color: red'>styled</p>")
    markup = f'<wm-result data-src="value" frame="{gallery.url}/run/result.html"></wm-result>'

    page.goto(
        gallery.elements("frame", ["result"], markup, value={"render_all": [{"html": "<h1>Report</h1>"}]})
    )

    frame = page.get_by_title("HTML result")
    assert frame.get_attribute("sandbox") == ""
    assert "at=0" in (frame.get_attribute("src") or "")
    expect(page.frame_locator("iframe").get_by_role("heading", name="Report")).to_be_visible()


def test_an_error_names_the_line_of_the_script(gallery: Gallery, page: Page) -> None:
    page.goto(
        gallery.elements("error", ["result"], '<wm-result data-src="value" lines></wm-result>', value=ERROR)
    )
    page.evaluate("document.addEventListener('wm-goto-line', e => { window.line = e.detail.line })")

    expect(page.get_by_role("alert")).to_contain_text("ValueError: no such customer")
    page.get_by_role("button", name="Show line 3").click()

    assert page.evaluate("window.line") == 3


def test_a_table_sorts_filters_pages_and_downloads(gallery: Gallery, page: Page) -> None:
    page.goto(
        gallery.elements(
            "table", ["table"], '<wm-table data-src="rows" file-name="rows"></wm-table>', rows=ROWS
        )
    )

    assert page.locator("tbody tr").count() == 100
    page.get_by_role("button", name="id", exact=True).click()
    page.get_by_role("button", name="id", exact=True).click()
    expect(page.locator("tbody tr").first).to_contain_text("row 249")
    page.get_by_label("Filter rows").fill("row 24")
    expect(page.get_by_text("11 of 250 rows")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()

    lines = saved.value.path().read_text().splitlines()
    assert saved.value.suggested_filename == "rows.csv"
    assert lines[:2] == ["id,name,odd", "249,row 249,true"]


def test_a_big_tree_is_built_in_pages_and_walked_by_keyboard(gallery: Gallery, page: Page) -> None:
    value = {"list": [{"n": n} for n in range(5000)], "odd key": "x"}
    page.goto(gallery.elements("tree", ["json"], '<wm-json data-src="value"></wm-json>', value=value))

    page.get_by_role("treeitem").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("treeitem")).to_have_count(204)
    page.get_by_text("Show 200 more of 4800").click()
    expect(page.get_by_role("treeitem")).to_have_count(404)
    page.get_by_text("odd key").click()

    expect(page.locator(".js-bar code")).to_have_text('["odd key"]')


def test_a_large_result_waits_until_it_is_asked_for(gallery: Gallery, page: Page) -> None:
    gallery.pages["/big.json"] = ("application/json", json.dumps({"rows": 1}))
    markup = f'<wm-result src="{gallery.url}/big.json" size="5000000"></wm-result>'
    page.goto(gallery.elements("big", ["result"], markup))

    expect(page.get_by_text("The result is 4.8 MB")).to_be_visible()
    page.get_by_role("button", name="Show it").click()

    expect(page.get_by_role("treeitem", name="rows: 1")).to_be_visible()
