"""What the picture of a flow promises: no overlap, deterministic, patched and not redrawn, usable by keyboard."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.elements.gallery import Gallery, running_gallery
from tests.browser.flows import EXAMPLE, random_flow, wide_flow
from tests.browser.site import wait_until

pytestmark = pytest.mark.browser

GRAPH = '<div class="card pane"><wm-flow-graph data-src="flow" data-states="states"></wm-flow-graph></div>'
STATES: dict[str, Any] = {
    "a": {"status": "success", "duration_ms": 430},
    "b": {"status": "success", "duration_ms": 12, "branch": 0},
    "c": {
        "status": "failure",
        "duration_ms": 103_000,
        "iterations": {
            "total": 18,
            "done": 12,
            "failed": 1,
            "at": 9,
            "shown": [{"n": n, "status": "failure" if n == 9 else "success"} for n in range(12)],
        },
    },
    "d": {"status": "success", "duration_ms": 640},
    "e": {"status": "failure", "duration_ms": 2100, "retries": 3},
    "i": {"status": "skipped"},
    "j": {"status": "pending"},
}
LAYOUTS = """async (flows) => {
  const { layout, NODE } = await import("/static/js/flow-layout.js");
  const overlap = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
  const report = { overlaps: 0, outside: 0, different: 0, crossed: 0, worst: 0, nodes: 0 };
  for (const flow of flows) for (const roomy of [false, true]) {
    const from = performance.now(), p = layout(flow, { roomy });
    report.worst = Math.max(report.worst, performance.now() - from);
    const things = [
      ...p.nodes.map((n) => ({ ...n, w: NODE.w, h: NODE.h })),
      ...p.pills.map((l) => ({ ...l, x: l.x - l.w / 2 })),
      ...p.strips.map((s) => ({ ...s, h: 16 })),
    ];
    report.nodes += p.nodes.length;
    things.forEach((a, i) => {
      if (a.x < -0.01 || a.y < -0.01 || a.x + a.w > p.w + 0.01 || a.y + a.h > p.h + 0.01) report.outside++;
      for (const b of things.slice(i + 1)) if (overlap(a, b)) report.overlaps++;
    });
    // A frame holds a node whole or not at all.
    for (const b of p.boxes) for (const t of things) {
      const inside = t.x >= b.x && t.y >= b.y && t.x + t.w <= b.x + b.w && t.y + t.h <= b.y + b.h;
      if (overlap(b, t) && !inside) report.crossed++;
    }
    if (JSON.stringify(p) !== JSON.stringify(layout(JSON.parse(JSON.stringify(flow)), { roomy }))) report.different++;
  }
  return report;
}"""


@pytest.fixture(scope="module")
def gallery() -> Iterator[Gallery]:
    with running_gallery() as running:
        yield running


# Nothing moves any more. The browser scrolls to what gets the focus first, then the view follows.
SETTLED = """
(id) => new Promise((done) => {
  const graph = document.querySelector("wm-flow-graph");
  const place = () => JSON.stringify(graph.querySelector(`.fg-node[data-id="${id}"]`).getBoundingClientRect());
  const before = place();
  const isAtRest = () => !graph.scrollTop && !graph.scrollLeft && place() === before;
  requestAnimationFrame(() => requestAnimationFrame(() => done(isAtRest())));
})
"""


def show(gallery: Gallery, page: Page, flow: dict[str, Any], states: dict[str, Any] | None = None) -> None:
    page.set_viewport_size({"width": 1200, "height": 900})
    page.goto(gallery.elements("flow", ["flow-graph"], GRAPH, flow=flow, states=states or {}))
    page.evaluate("document.querySelector('.card.pane').style.height = '620px'")
    expect(page.locator(".fg-node").first).to_be_visible()


def test_random_trees_never_overlap_and_always_look_the_same(gallery: Gallery, page: Page) -> None:
    page.goto(gallery.elements("layout", [], ""))

    report = page.evaluate(LAYOUTS, [random_flow(seed, 10 + seed % 90) for seed in range(150)])

    assert report["nodes"] > 5000
    assert {key: report[key] for key in ("overlaps", "outside", "crossed", "different")} == {
        "overlaps": 0,
        "outside": 0,
        "crossed": 0,
        "different": 0,
    }


def test_malformed_values_are_drawn_as_far_as_they_go(gallery: Gallery, page: Page) -> None:
    odd: list[dict[str, Any]] = [
        {},
        {"modules": None},
        {"modules": [{"id": "a"}]},
        {"modules": [{"id": "a", "value": {"type": "forloopflow"}}]},
        {"modules": [{"id": "a", "value": {"type": "branchall", "branches": []}}]},
        {"modules": [{"id": "a", "value": {"type": "something new"}}]},
    ]
    page.goto(gallery.elements("layout", [], ""))

    report = page.evaluate(LAYOUTS, odd)

    assert report["outside"] == report["overlaps"] == 0


def test_steps_show_their_state_and_iterations(gallery: Gallery, page: Page) -> None:
    show(gallery, page, EXAMPLE, STATES)

    card = page.get_by_role("button", name="Charge saved card")
    expect(card).to_contain_text("2.1 s")
    expect(card).to_contain_text("Failed, step")
    expect(page.get_by_role("button", name="Iteration 10, Failed")).to_have_attribute("aria-pressed", "true")
    everything = page.get_by_role("button", name="All iterations of c: 12 of 18 done, 1 failed")
    expect(everything).to_be_visible()


def test_choosing_a_step_tells_which(gallery: Gallery, page: Page) -> None:
    show(gallery, page, EXAMPLE, STATES)
    page.evaluate("document.addEventListener('wm-select', (e) => { window.chosen = e.detail.id; })")

    page.get_by_role("button", name="Charge saved card").click()

    assert page.evaluate("window.chosen") == "e"
    expect(page.locator(".fg-node[aria-current]")).to_have_attribute("data-id", "e")


def test_a_changed_status_touches_only_its_own_step(gallery: Gallery, page: Page) -> None:
    show(gallery, page, wide_flow(200), {})
    touched = page.evaluate(
        """async () => {
          const graph = document.querySelector("wm-flow-graph"), ids = new Set();
          const watch = new MutationObserver((all) => { for (const m of all) {
            const at = m.target.closest?.(".fg-node") ?? m.target.querySelector?.(".fg-node");
            if (m.target.closest?.(".fg-edges, .fg-map")) continue;
            ids.add(at?.dataset.id ?? "?");
          } });
          const attributeFilter = ["data-status", "tabindex", "class"];
          const all = { subtree: true, childList: true, attributes: true, attributeFilter };
          watch.observe(graph.querySelector(".fg-world"), all);
          graph.patch({ g3_0: { status: "success", duration_ms: 5 } });
          await graph.updateComplete;
          await new Promise(requestAnimationFrame);
          return [...ids];
        }"""
    )

    assert touched == ["g3_0"]


def test_a_big_flow_is_folded_at_first_and_stays_quick(gallery: Gallery, page: Page) -> None:
    show(gallery, page, wide_flow(500))

    folded = page.locator(".fg-node.folded")
    assert folded.count() == 100
    page.get_by_role("button", name="Unfold all loops and branches").click()
    expect(folded).to_have_count(0)
    expect(page.locator(".fg-node")).to_have_count(500)
    # The shortest of several: other processes make any of them longer, but none makes one shorter than it can be.
    times = page.evaluate(
        """async () => {
          const graph = document.querySelector("wm-flow-graph"), least = { layout: Infinity, patch: Infinity };
          for (let n = 0; n < 5; n++) {
            const from = performance.now();
            graph.patch({ [`g${n}_0`]: { status: "running" } });
            await graph.updateComplete;
            least.patch = Math.min(least.patch, performance.now() - from);
            graph.requestUpdate("collapsed");  // lays it out once more
            await graph.updateComplete;
            least.layout = Math.min(least.layout, graph.layoutMs);
          }
          return least;
        }"""
    )
    assert times["layout"] < 60, times
    assert times["patch"] < 120, times


def test_a_step_inside_of_something_folded_is_unfolded_to_be_shown(gallery: Gallery, page: Page) -> None:
    show(gallery, page, wide_flow(400))

    page.evaluate("document.querySelector('wm-flow-graph').selected = 'g20_4'")

    expect(page.locator('.fg-node[data-id="g20_4"]')).to_have_attribute("aria-current", "true")


def test_the_keyboard_walks_by_geometry_and_zooms(gallery: Gallery, page: Page) -> None:
    show(gallery, page, EXAMPLE, STATES)
    at = lambda: page.evaluate("document.activeElement.dataset.id")  # noqa: E731
    page.locator('.fg-node[data-id="g"]').focus()

    page.keyboard.press("ArrowRight")
    expect(page.locator('.fg-node[data-id="h"]')).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.locator('.fg-node[data-id="f"]')).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.locator('.fg-node[data-id="e"]')).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator('.fg-node[data-id="e"]')).to_have_attribute("aria-current", "true")
    assert at() == "e"
    assert page.locator('.fg-node[tabindex="0"]').count() == 1
    before = page.locator(".fg-zoom").inner_text()
    page.keyboard.press("-")
    assert page.locator(".fg-zoom").inner_text() != before
    page.keyboard.press("0")
    expect(page.locator('.fg-node[data-id="k"]')).to_be_in_viewport()
    expect(page.locator('.fg-node[data-id="a"]')).to_be_in_viewport()


def test_an_editor_is_asked_and_never_overruled(gallery: Gallery, page: Page) -> None:
    show(gallery, page, EXAMPLE)
    page.evaluate(
        """() => {
          window.asked = [];
          for (const name of ["add", "remove", "move", "shift", "copy", "undo"]) {
            document.addEventListener(`wm-flow-${name}`, (e) => asked.push([name, { ...e.detail, anchor: undefined }]));
          }
          document.querySelector("wm-flow-graph").editable = true;
        }"""
    )
    page.get_by_role("button", name="Add a step at the start of Ledger").click()
    node = page.locator('.fg-node[data-id="h"]')
    node.focus()
    page.keyboard.press("Control+c")
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Control+z")
    page.keyboard.press("Delete")
    page.evaluate(
        "document.querySelector('wm-flow-graph').reveal('h')"
    )  # the pointer goes to what is in view
    page.wait_for_function(SETTLED, arg="h")
    node.hover(position={"x": 60, "y": 20})
    page.mouse.down()
    wait_until(lambda: _moved_onto(page, "Add a step at the start of Ledger"), "the place to light up")
    page.mouse.up()

    page.wait_for_function("() => window.asked.length >= 6")
    asked = json.loads(page.evaluate("JSON.stringify(window.asked)"))
    ledger = ["modules", 1, "value", "branches", 0, "modules", 1, "value", "branches", 0, "modules"]
    assert asked == [
        ["add", {"list": ledger, "index": 0}],
        ["copy", {"id": "h"}],
        ["shift", {"id": "h", "by": -1}],
        ["undo", {"id": "h"}],
        ["remove", {"id": "h"}],
        ["move", {"id": "h", "list": ledger, "index": 0}],
    ]
    assert page.evaluate("document.querySelector('wm-flow-graph').value.modules.length") == 4


def _moved_onto(page: Page, name: str) -> bool:
    """Move the pointer, with a step, to a place; whether it lights up."""
    place = page.get_by_role("button", name=name)
    there = place.bounding_box()
    assert there
    page.mouse.move(there["x"] + 12, there["y"] + 12, steps=6)
    return page.locator(".fg-plus.drop").and_(place).count() == 1


@pytest.mark.parametrize("width", ["wide", "narrow"])
@pytest.mark.parametrize("name", ["flow-graph", "flow-outline"])
def test_the_graph_and_its_outline_are_accessible(
    gallery: Gallery, page: Page, assert_accessible: Any, width: str, name: str
) -> None:
    page.goto(gallery.elements("flow", [name], f"<wm-{name} class='pane'></wm-{name}>"))

    page.evaluate(
        "([name, value, states]) => Object.assign(document.querySelector(name), { value, states, selected: 'e' })",
        [f"wm-{name}", EXAMPLE, STATES],
    )

    expect(page.get_by_role("button", name="Charge saved card")).to_have_attribute("aria-current", "true")
    assert_accessible()
