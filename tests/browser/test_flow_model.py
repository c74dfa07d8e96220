"""The editing model of flows (static/js/flow-model.js): pure operations, run in a browser page."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.elements.gallery import Gallery, running_gallery

pytestmark = pytest.mark.browser


def code(id: str, **inputs: str) -> dict[str, Any]:
    transforms = {name: {"type": "javascript", "expr": expr} for name, expr in inputs.items()}
    return {
        "id": id,
        "value": {"type": "rawscript", "language": "python3", "content": "", "input_transforms": transforms},
    }


def loop(id: str, *modules: dict[str, Any], over: str = "[1]") -> dict[str, Any]:
    iterator = {"type": "javascript", "expr": over}
    return {"id": id, "value": {"type": "forloopflow", "iterator": iterator, "modules": list(modules)}}


def choice(
    id: str, *branches: list[dict[str, Any]], default: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    made = [{"summary": "", "expr": "true", "modules": modules} for modules in branches]
    return {"id": id, "value": {"type": "branchone", "branches": made, "default": default or []}}


def flow(*modules: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"modules": list(modules), **rest}


@pytest.fixture(scope="module")
def gallery() -> Iterator[Gallery]:
    with running_gallery() as running:
        yield running


class Model:
    """The module in a page: model("insert(f, …)", f) evaluates with the module's names in scope."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def __call__(self, expression: str, f: Any = None, **names: Any) -> Any:
        # The page's policy forbids eval in the page, not what the test sends through the browser's own protocol.
        script = f"""async ([f, names]) => {{
            const m = await import('/static/js/flow-model.js');
            const {{ {", ".join(names) or "_"} }} = names;
            return {expression};
        }}"""
        return self._page.evaluate(script, [f, names])


@pytest.fixture
def model(page: Page, gallery: Gallery) -> Model:
    page.goto(gallery.elements("flow-model.html", [], ""))
    return Model(page)


def shape(modules: list[dict[str, Any]]) -> list[Any]:
    """Ids, with those of the bodies after each container's."""
    return [
        [module["id"], *(shape(inside) for inside in bodies(module))] if bodies(module) else module["id"]
        for module in modules
    ]


def bodies(module: dict[str, Any]) -> list[Any]:
    value = module["value"]
    if value["type"] == "forloopflow":
        return [value["modules"]]
    if value["type"] == "branchone":
        return [*(branch["modules"] for branch in value["branches"]), value["default"]]
    return []


def test_a_step_is_inserted_before_after_and_into_bodies(model: Model) -> None:
    given = flow(code("a"), loop("b"))

    before = model("m.insert(f, {list: ['modules'], index: 0}, {id: 'n', value: {}})", given)
    inside = model(
        "m.insert(f, {list: ['modules', 1, 'value', 'modules'], index: 0}, {id: 'n', value: {}})", given
    )

    assert [step["id"] for step in before["modules"]] == ["n", "a", "b"]
    assert inside["modules"][1]["value"]["modules"][0]["id"] == "n"


def test_an_operation_leaves_the_old_value_and_shares_what_it_did_not_touch(model: Model) -> None:
    same = model(
        """(() => { const next = m.insert(f, {list: ['modules', 1, 'value', 'modules'], index: 0}, {id: 'n', value: {}});
            const [a, b] = f.modules;
            return [b.value.modules.length, next.modules[0] === a, next.modules[1] === b]; })()""",
        flow(code("a"), loop("b")),
    )

    assert same == [0, True, False]


def test_new_ids_go_on_after_z_and_pass_over_reserved_words(model: Model) -> None:
    made = model(
        """(() => { let v = {modules: []}; const ids = [];
            for (let n = 0; n < 800; n++) { const id = m.nextId(v, new Set(ids)); ids.push(id); } return ids; })()"""
    )

    assert made[:3] == ["a", "b", "c"]
    assert made[25:28] == ["z", "aa", "ab"]
    assert not {"as", "bg", "do", "if", "in", "for", "new"} & set(made)
    assert len(set(made)) == 800


@pytest.mark.parametrize(
    ("id", "to", "expected"),
    [
        ("a", [["modules"], 2], ["b", "a", ["c", ["d"]]]),
        ("b", [["modules"], 0], ["b", "a", ["c", ["d"]]]),
        ("a", [["modules", 2, "value", "modules"], 1], ["b", ["c", ["d", "a"]]]),
        ("d", [["modules"], 0], ["d", "a", "b", ["c", []]]),
        ("d", [["modules"], 3], ["a", "b", ["c", []], "d"]),
        ("c", [["modules"], 0], [["c", ["d"]], "a", "b"]),
        ("c", [["modules", 2, "value", "modules"], 0], ["a", "b", ["c", ["d"]]]),  # not into itself
        ("a", [["modules"], 1], ["a", "b", ["c", ["d"]]]),  # where it is
    ],
)
def test_a_step_moves_anywhere_but_into_itself(
    model: Model, id: str, to: list[Any], expected: list[Any]
) -> None:
    moved = model(
        "m.move(f, id, {list: to[0], index: to[1]})",
        flow(code("a"), code("b"), loop("c", code("d"))),
        id=id,
        to=to,
    )

    assert shape(moved["modules"]) == expected


@pytest.mark.parametrize(
    ("id", "directions", "expected"),
    [
        ("a", ["down"], [["b", ["a", "c"]], "d"]),
        ("a", ["down", "down"], [["b", ["c", "a"]], "d"]),
        ("a", ["down", "down", "down"], [["b", ["c"]], "a", "d"]),
        ("d", ["up"], ["a", ["b", ["c", "d"]]]),
        ("c", ["up"], ["a", "c", ["b", []], "d"]),
        ("a", ["up"], ["a", ["b", ["c"]], "d"]),
        ("d", ["down"], ["a", ["b", ["c"]], "d"]),
    ],
)
def test_the_keyboard_moves_a_step_into_and_out_of_what_it_meets(
    model: Model, id: str, directions: list[str], expected: list[Any]
) -> None:
    moved = model(
        """directions.reduce((v, way) => {
            const to = m.neighbour(v, id, way);
            return to ? m.move(v, id, to) : v; }, f)""",
        flow(code("a"), loop("b", code("c")), code("d")),
        id=id,
        directions=directions,
    )

    assert shape(moved["modules"]) == expected


def test_left_and_right_move_between_branches(model: Model) -> None:
    moved = model(
        "['right', 'right'].reduce((v, way) => m.move(v, 'b', m.neighbour(v, 'b', way)), f)",
        flow(choice("a", [code("b")], [code("c")], default=[code("d")])),
    )

    assert shape(moved["modules"]) == [["a", [], ["c"], ["b", "d"]]]


def test_a_copy_gets_free_ids_and_its_expressions_follow(model: Model) -> None:
    given = flow(
        loop("a", code("b", x="results.z"), code("c", x="results.b.name + results.z", y="previous_result")),
        code("z"),
    )

    copy = model("m.duplicate(f, 'a').value", given)["modules"][1]

    assert copy["id"] == "d"
    first, second = copy["value"]["modules"]
    assert [first["id"], second["id"]] == ["e", "f"]
    assert second["value"]["input_transforms"]["x"]["expr"] == "results.e.name + results.z"


def test_the_clipboard_takes_steps_only(model: Model) -> None:
    assert model("m.fromClipboard(m.toClipboard(f.modules[0]))", flow(code("a")))["id"] == "a"
    assert model("['hello', '{}', 'null', '[1]'].map(m.fromClipboard)") == [None] * 4


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("results.a", "results.load"),
        ("results.a.a + results.ab", "results.load.a + results.ab"),
        ("results['a'] + results[\"a\"]", "results['load'] + results[\"load\"]"),
        ("results?.a?.b", "results?.load?.b"),
        ("`${results.a} is not results.a`", "`${results.load} is not results.a`"),
        ("`${`${results.a}`} ${{x: results.a}.x}`", "`${`${results.load}`} ${{x: results.load}.x}`"),
        ("'results.a'", "'results.a'"),
        ("// results.a\nresults.a", "// results.a\nresults.load"),
        ("/* results.a */ 1", "/* results.a */ 1"),
        ("my.results.a + myresults.a", "my.results.a + myresults.a"),
        ("flow_input.a", "flow_input.a"),
        ("results . a", "results . load"),
        ("'it\\'s ' + results.a", "'it\\'s ' + results.load"),
    ],
)
def test_renaming_a_step_rewrites_what_reads_it_and_nothing_else(
    model: Model, before: str, after: str
) -> None:
    renamed = model("m.rename(f, 'a', 'load')", flow(code("a"), code("b", x=before)))

    assert renamed["modules"][0]["id"] == "load"
    assert renamed["modules"][1]["value"]["input_transforms"]["x"]["expr"] == after


def test_renaming_reaches_every_kind_of_expression_and_no_text(model: Model) -> None:
    step = code("b")
    step |= {
        "stop_after_if": {"expr": "results.a > 1"},
        "skip_if": {"expr": "!results.a"},
        "sleep": {"type": "javascript", "expr": "results.a.wait"},
        "retry": {"retry_if": {"expr": "results.a"}},
        "suspend": {"user_groups_required": {"type": "javascript", "expr": "results.a.groups"}},
    }
    step["value"]["content"] = "results.a"
    step["value"]["input_transforms"]["s"] = {"type": "static", "value": {"expr": "results.a"}}
    given = flow(
        code("a"), step, choice("c", [loop("d", over="results.a")]), early_return="a", skip_expr="results.a"
    )
    given["modules"][2]["value"]["branches"][0]["expr"] = "results.a == 1"

    renamed = model("m.rename(f, 'a', 'x')", given)

    text = str(renamed)
    assert text.count("results.x") == 8
    assert renamed["early_return"] == "x"
    assert renamed["modules"][1]["value"]["content"] == "results.a"
    assert renamed["modules"][1]["value"]["input_transforms"]["s"]["value"] == {"expr": "results.a"}


@pytest.mark.parametrize("id", ["", "1a", "a b", "a-b", "for", "failure", "b"])
def test_ids_that_cannot_be_are_refused_with_a_reason(model: Model, id: str) -> None:
    given = flow(code("a"), code("b"))

    assert model("m.idProblem(f, id, 'a')", given, id=id)
    assert model("m.rename(f, 'a', id)", given, id=id) == given


def test_up_to_here_keeps_what_runs_before(model: Model) -> None:
    given = flow(code("a"), loop("b", code("c"), code("d")), code("e"))

    assert shape(model("m.upTo(f, 'c')", given)["modules"]) == ["a", ["b", ["c"]]]
    assert shape(model("m.upTo(f, 'b')", given)["modules"]) == ["a", ["b", ["c", "d"]]]


def test_earlier_steps_are_those_that_have_run(model: Model) -> None:
    given = flow(
        code("a"),
        loop("b", code("c"), code("d")),
        code("e"),
        failure_module={**code("failure"), "id": "failure"},
    )

    earlier = model("['a', 'd', 'e', 'failure'].map((id) => m.earlier(f, id).map((x) => x.module.id))", given)

    assert earlier == [[], ["a", "c"], ["a", "b", "c", "d"], ["a", "b", "c", "d", "e"]]


def test_branches_are_added_removed_and_moved(model: Model) -> None:
    given = flow(choice("a", [code("b")], [code("c")]))

    assert shape(model("m.addBranch(f, 'a')", given)["modules"]) == [["a", ["b"], ["c"], [], []]]
    assert shape(model("m.removeBranch(f, 'a', 0)", given)["modules"]) == [["a", ["c"], []]]
    assert shape(model("m.moveBranch(f, 'a', 1, -1)", given)["modules"]) == [["a", ["c"], ["b"], []]]
    assert shape(model("m.moveBranch(f, 'a', 0, -1)", given)["modules"]) == [["a", ["b"], ["c"], []]]


def test_removing_a_step_takes_its_body_along_and_forgets_an_early_return(model: Model) -> None:
    given = flow(code("a"), loop("b", code("c")), early_return="c")

    left = model("m.remove(f, 'b')", given)

    assert left == flow(code("a"))


def test_problems_are_found_while_typing(model: Model) -> None:
    given = flow(
        code("a"), code("a"), code("for"), choice("d", []), loop("e", over=" "), code("g", x="results.nowhere"),
        {"id": "h", "value": {"type": "script", "path": "", "input_transforms": {}}}, early_return="gone",
    )  # fmt: skip
    given["modules"][3]["value"]["branches"][0]["expr"] = ""

    found = model("m.problems(f)", given)

    assert [(problem["id"], problem["level"]) for problem in found] == [
        ("a", "error"), ("a", "error"), ("for", "error"), ("d", "error"), ("e", "error"), ("g", "warning"),
        ("h", "error"), (None, "error"),
    ]  # fmt: skip


def test_a_place_of_the_server_names_the_innermost_step(model: Model) -> None:
    given = flow(code("a"), choice("b", [loop("c", code("d"))]))

    places = [
        "modules[1].value.branches[0].modules[0].value.modules[0].value.path",
        "modules[1].value.branches[0].expr",
        "summary",
    ]

    assert model("places.map((p) => m.moduleAt(f, p))", given, places=places) == ["d", "b", None]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"modules": [None]}, "modules[0]"),
        ({"modules": 5}, "modules should be a list"),
        ({"modules": [{"id": "a"}]}, "modules[0]"),
        ({"modules": [{"value": {"type": "forloopflow"}}]}, "modules[0].value.modules"),
        ({"modules": [{"value": {"type": "branchall", "branches": [None]}}]}, "modules[0].value.branches"),
        ({"modules": [{"id": 5, "value": {"type": "identity"}}]}, "modules[0].id"),
        ({"modules": [], "failure_module": []}, "failure_module"),
        ({"modules": [{"value": {"type": "identity"}}]}, ""),
    ],
)
def test_typed_values_that_cannot_be_drawn_are_told_with_their_place(
    model: Model, value: Any, fault: str
) -> None:
    assert model("m.malformed(f)", value).startswith(fault)
    assert bool(model("m.malformed(f)", value)) == bool(fault)


def test_steps_without_an_id_get_one(model: Model) -> None:
    given = flow(code("b"), loop("", code("")))

    assert shape(model("m.withIds(f)", given)["modules"]) == ["b", ["a", ["c"]]]


def test_undo_goes_back_and_forth_and_typing_is_one_step(model: Model) -> None:
    seen = model(
        """(() => { const h = new m.History('0'), seen = [];
            h.push('1');
            for (const [text, now] of [['1a', 1000], ['1ab', 1200], ['1abc', 5000]]) h.push(text, {tag: 't', now});
            const note = () => seen.push(h.present);
            h.undo(); note(); h.undo(); note(); h.undo(); note(); h.undo(); note();
            h.redo(); h.redo(); note(); h.push('2'); h.redo(); note(); h.undo(); note();
            return [seen, h.canUndo, h.canRedo]; })()"""
    )

    assert seen == [["1ab", "1", "0", "0", "1ab", "2", "1ab"], True, True]


def test_five_hundred_steps_are_edited_at_once(model: Model) -> None:
    """Every operation on a flow of 500 steps takes less than a frame."""
    given = flow(
        *(loop(f"l{n}", *(code(f"s{n}_{i}", x=f"results.s{n}_{i - 1}") for i in range(9))) for n in range(50))
    )

    took = model(
        """(() => {
            const times = {}, to = {list: ['modules'], index: 50};
            const time = (name, run) => {
                times[name] = Infinity;  // the shortest of five: what else the machine does makes any of them longer
                for (let i = 0; i < 5; i++) {
                    const t = performance.now();
                    run();
                    times[name] = Math.min(times[name], performance.now() - t); } };
            time('set', () => m.setModule(f, 's49_8', (x) => ({...x, summary: 'x'})));
            time('rename', () => m.rename(f, 's0_0', 'zz'));
            time('problems', () => m.problems(f));
            time('move', () => m.move(f, 's0_0', to));
            time('id', () => m.nextId(f));
            return times; })()""",
        given,
    )

    assert max(took.values()) < 50, took
