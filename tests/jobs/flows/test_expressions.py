"""What expressions are worth: paths without V8, everything else with it, and the same either way."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.flows import expressions, simple_expressions
from jobs.flows.expressions import ExpressionFailed
from jobs.flows.javascript import Engine
from jobs.flows.value import AiFilled, Javascript, Static, Transform
from tests.jobs.flows.scopes import PlainScope
from workspaces.errors import NotFound

SCOPE = PlainScope(
    flow_input_value={
        "n": 41,
        "name": "Ada",
        "list": [3, 1, 2],
        "iter": {"index": 0, "value": "x"},
        "none": None,
    },
    results={"a": {"rows": [{"id": 7}], "big-key": 1}, "b": "text", "zero": 0},
    previous=["p"],
    env={"STAGE": "test"},
    variables={"u/ada/token": "secret"},
    resources={"u/ada/db": {"host": "db.example", "port": 5432}},
    states={"seen": 3},
    extra={"result": {"ok": True}, "error": {"message": "no", "name": "Bad"}},
)


# --- values ---


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        ("flow_input", SCOPE.flow_input_value),
        ("flow_input.n", 41),
        ("flow_input.n;", 41),
        (" flow_input [ 'name' ] ", "Ada"),
        ("params.n", 41),
        ("flow_input.nothing", None),
        ("flow_input?.none?.deeper", None),
        ("flow_input.iter.value", "x"),
        ("flow_input.list[1]", 1),
        ("flow_input.list[9]", None),
        ("flow_env.STAGE", "test"),
        ("previous_result[0]", "p"),
        ("results.a.rows[0].id", 7),
        ("results['a'][\"big-key\"]", 1),
        ("results.unknown", None),
        ("result.ok", True),
        ("error.message", "no"),
        ("42", 42),
        ("-1.5", -1.5),
        ("'it'", "it"),
        ("true", True),
        ("null", None),
        ("undefined", None),
        ("", None),
    ],
)
async def test_paths_and_literals_need_no_v8(expr: str, value: Any) -> None:
    closed = Engine()
    closed.close()  # cannot evaluate anything

    assert await expressions.evaluate(expr, SCOPE, where="step b", engine=closed) == value


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        ("flow_input.n + 1", 42),
        ("results.a.rows.length", 1),
        ("flow_input.name.length", 3),
        ("results.a.toString()", "[object Object]"),
        ("`${flow_input.name}!`", "Ada!"),
        ("{a: 1}", {"a": 1}),
        ("({a: undefined, b() {}, c: NaN, d: new Date(0)})", {"c": None, "d": "1970-01-01T00:00:00.000Z"}),
        ("[undefined, () => 1, Symbol()]", [None, None, None]),
        ("() => 1", None),
        ("results.a.rows.map(r => r.id); // the ids", [7]),
        ("[...flow_input.list].sort()", [1, 2, 3]),
        ("const x = flow_input.n;\nreturn x + 1", 42),
        ("if (flow_input.n > 40) return 'big'\nreturn 'small'", "big"),
        ("const x = 1; x + 1", None),  # several statements: the author says what to return
        ("let result = 5; return result", 5),  # names may be declared anew
        ("variable('u/ada/token')", "secret"),
        ("await variable('u/ada/token')", "secret"),
        ("variable('u/ada/token').then(v => v.length)", 6),
        ("resource('u/ada/db').host + ':' + (await resource('u/ada/db')).port", "db.example:5432"),
        ("flow_user_state('seen')", 3),
        ("flow_user_state('never')", None),
        ("await Promise.all([1, Promise.resolve(2)])", [1, 2]),
        ("async function f() { return 7 }\nreturn f()", 7),
        ("const key = 'a'; return results[key].rows[0].id", 7),
        ("const {a, b} = results; return [a.rows.length, b]", [1, "text"]),
        ("'a' in results && !('unknown' in results)", True),
        ("typeof results.unknown", "object"),
        ("eval('flow_' + 'input').n", 41),
        ("\\u0066low_input.n", 41),
        ("globalThis.kept = 1; return kept", 1),
        ("class A { static x = 2 }\nreturn A.x", 2),
        ("const o = {}; o.toString = () => 'mine'; return `${o}`", "mine"),
        ("Array.prototype.last = function () { return this.at(-1) }; return flow_input.list.last()", 2),
        ("JSON.parse('{\"__proto__\": 1}')", {"__proto__": 1}),
        ("'\\ud83d'", "\ufffd"),
        ("'😀'.slice(0, 1)", "\ufffd"),
        ("'\\\\u0000'", "\\u0000"),
    ],
)
async def test_javascript(engine: Engine, expr: str, value: Any) -> None:
    assert await expressions.evaluate(expr, SCOPE, where="step b", engine=engine) == value


@pytest.mark.parametrize(
    ("expr", "is_true"),
    [
        ("flow_input.n > 40", True),
        ("flow_input.list", True),
        ("[]", True),
        ("flow_input.unknown", False),
        ("results.zero", False),
        ("''", False),
        ("'0'", True),
        ("NaN", False),
        ("10n", True),  # needs no JSON
        ("results.b == 'text' && error.name === 'Bad'", True),
        ("Promise.resolve(0)", False),
    ],
)
async def test_predicates_go_by_what_javascript_takes_for_true(
    engine: Engine, expr: str, is_true: bool
) -> None:
    assert await expressions.evaluate_bool(expr, SCOPE, where="step b", engine=engine) is is_true


async def test_the_inputs_of_a_step_keep_their_order_and_static_ones_are_untouched(engine: Engine) -> None:
    transforms: dict[str, Transform] = {
        "z": Javascript("flow_input.n + 1"),
        "a": Static("$var:u/ada/token"),
        "m": AiFilled(),
        "k": Javascript("results.b"),
    }

    values = await expressions.evaluate_inputs(transforms, SCOPE, where="step b", engine=engine)

    assert list(values.items()) == [("z", 42), ("a", "$var:u/ada/token"), ("k", "text")]


async def test_one_input_cannot_change_what_another_reads(engine: Engine) -> None:
    transforms = {
        "sorted": Javascript("flow_input.list.sort()"),
        "pushed": Javascript("flow_input.list.push(9) && flow_input.list"),
        "plain": Javascript("[flow_input.list, 1][0]"),
        "path": Javascript("flow_input.list"),
    }

    values = await expressions.evaluate_inputs(transforms, SCOPE, where="step b", engine=engine)

    assert values == {"sorted": [1, 2, 3], "pushed": [3, 1, 2, 9], "plain": [3, 1, 2], "path": [3, 1, 2]}


# --- what is asked for ---


async def test_only_what_an_expression_needs_is_loaded_and_only_once(engine: Engine) -> None:
    scope = PlainScope(flow_input_value={"n": 1}, results={"a": [1], "b": [2], "c": [3]})
    transforms = {
        "x": Javascript("results.a.length + results['b'].length"),
        "y": Javascript("results.a[0]"),
        "z": Javascript("flow_input.n + params.n"),
    }

    await expressions.evaluate_inputs(transforms, scope, where="step d", engine=engine)

    assert sorted(scope.asked) == ["flow_input", "results.a", "results.b"]


async def test_computed_names_load_what_they_come_to(engine: Engine) -> None:
    scope = PlainScope(results={"s1": 1, "s2": 2, "s3": 3, "unused": 4})

    value = await expressions.evaluate(
        "[1, 2, 3].map(n => results['s' + n])", scope, where="step b", engine=engine
    )

    assert value == [1, 2, 3]
    assert scope.asked == ["results.s1", "results.s2", "results.s3"]


async def test_code_that_catches_everything_still_gets_its_values(engine: Engine) -> None:
    scope = PlainScope(results={"s1": 1}, variables={"u/a/v": "v"})
    code = """
        let a = 'lost', b = 'lost'
        try { a = results['s' + 1] } catch {}
        try { b = variable('u/a/' + 'v') } catch {}
        return [a, b]
    """

    assert await expressions.evaluate(code, scope, where="step b", engine=engine) == [1, "v"]


async def test_variables_of_branches_that_are_not_taken_are_not_read(engine: Engine) -> None:
    scope = PlainScope(variables={"u/a/used": 1})

    await expressions.evaluate(
        "true ? variable('u/a/used') : variable('u/a/unused')", scope, where="step b", engine=engine
    )

    assert scope.asked == ["variable u/a/used"]


async def test_names_that_never_end_are_an_error(engine: Engine) -> None:
    with pytest.raises(ExpressionFailed, match="more than 100 values by computed names"):
        await expressions.evaluate(
            "for (let i = 0; ; i++) results['s' + i]", PlainScope(), where="step b", engine=engine
        )


# --- errors ---


@pytest.mark.parametrize(
    ("expr", "name", "message"),
    [
        (
            "results.a.foo.bar",
            "TypeError",
            "results.a.foo.bar: Cannot read properties of undefined (reading 'bar')",
        ),
        (
            "flow_input.none[0]",
            "TypeError",
            "flow_input.none[0]: Cannot read properties of null (reading '0')",
        ),
        (
            "results.a.foo.bar + 1",
            "TypeError",
            "results.a.foo.bar + 1: Cannot read properties of undefined (reading 'bar')",
        ),
        ("nobody", "ReferenceError", "nobody: nobody is not defined"),
        ("x = = 2", "SyntaxError", "x = = 2: Unexpected token '='"),
        ("1); (2", "SyntaxError", "1); (2: Unexpected token ')'"),
        ("}); (() => {", "SyntaxError", "}); (() => {: Single function literal required"),
        ("10n", "TypeError", "10n: Do not know how to serialize a BigInt"),
        ("throw new RangeError('too much')", "RangeError", "throw new RangeError('too much'): too much"),
        ("throw 'text'", "Error", "throw 'text': text"),
        ("throw {code: 1}", "Error", 'throw {code: 1}: {"code":1}'),
        ("throw undefined", "Error", "throw undefined: failed without a message"),
        (
            "Promise.reject(new TypeError('later'))",
            "TypeError",
            "Promise.reject(new TypeError('later')): later",
        ),
        ("new Promise(() => {})", "Error", "new Promise(() => {}): waits for a promise that nothing settles"),
        ("({get a() { throw new Error('got') }})", "Error", "({get a() { throw new Error('got') }}): got"),
        (
            "'a\\u0000'",
            "Error",
            "'a\\u0000': the value holds a NUL character (\\u0000), which cannot be stored",
        ),
        (
            "const o = {}; o.o = o; return o",
            "TypeError",
            "const o = {}; o.o = o; return o: Converting circular structure to JSON",
        ),
        ("setTimeout(() => 1, 0)", "ReferenceError", "setTimeout(() => 1, 0): setTimeout is not defined"),
    ],
)
async def test_errors_name_the_place_the_expression_and_the_reason(
    engine: Engine, expr: str, name: str, message: str
) -> None:
    with pytest.raises(ExpressionFailed) as failure:
        await expressions.evaluate(expr, SCOPE, where="step b, input x", engine=engine)

    assert failure.value.message == f"step b, input x: {message}"
    assert (failure.value.name, failure.value.where, failure.value.expr) == (name, "step b, input x", expr)


async def test_an_error_in_code_of_several_lines_names_the_line(engine: Engine) -> None:
    code = "const a = {};\n\nconst b = a.b;\nreturn b.c;"

    with pytest.raises(ExpressionFailed, match=re.escape("(reading 'c') (line 4)")):
        await expressions.evaluate(code, SCOPE, where="step b", engine=engine)


async def test_a_failing_input_is_named(engine: Engine) -> None:
    transforms = {"good": Javascript("1 + 1"), "bad": Javascript("nobody()")}

    with pytest.raises(ExpressionFailed, match=r"^step b, input bad: nobody"):
        await expressions.evaluate_inputs(transforms, SCOPE, where="step b", engine=engine)


async def test_what_the_scope_refuses_is_an_error_of_the_expression(engine: Engine) -> None:
    class Refusing(PlainScope):
        async def variable(self, path: str) -> Any:
            raise NotFound(f"there is no variable {path}")

    with pytest.raises(ExpressionFailed) as failure:
        await expressions.evaluate("variable('u/a/b')", Refusing(), where="step b, input x", engine=engine)

    assert failure.value.message == "step b, input x: variable('u/a/b'): there is no variable u/a/b"
    assert failure.value.name == "NotFound"


async def test_deep_values_are_an_error(engine: Engine) -> None:
    nest = "let o = 1; for (let i = 0; i < {n}; i++) o = [o]; return o"

    await expressions.evaluate(nest.replace("{n}", "200"), SCOPE, where="step b", engine=engine)
    for count in ("300", "100000"):
        with pytest.raises(ExpressionFailed, match="nested too deeply"):
            await expressions.evaluate(nest.replace("{n}", count), SCOPE, where="step b", engine=engine)


async def test_megabytes_go_in_and_out(engine: Engine) -> None:
    rows = [{"id": n, "name": f"row {n} — ünïcödé", "tags": ["a", "b"]} for n in range(40_000)]
    scope = PlainScope(results={"a": rows})

    value = await expressions.evaluate("results.a.filter(r => r.id >= 0)", scope, where="b", engine=engine)

    assert value == rows


# --- the two ways agree ---

KEYS = st.sampled_from(["a", "b", "c1", "toString", "length", "0", "x y", "__proto__", "constructor"])
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_characters="\x00"), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
STEPS = st.one_of(
    st.sampled_from(
        [".a", ".b", ".c1", "?.a", ".length", ".toString", "['x y']", '["0"]', "?.['a']", ".__proto__"]
    ),
    st.integers(0, 3).map(lambda n: f"[{n}]"),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    root=st.sampled_from(["flow_input", "results.a", "results['b']", "result"]),
    steps=st.lists(STEPS, max_size=4),
    value=JSON_VALUES,
)
async def test_a_path_means_the_same_without_v8(
    engine: Engine, root: str, steps: list[str], value: Any
) -> None:
    scope = PlainScope(flow_input_value=value, results={"a": value, "b": value}, extra={"result": value})
    expr = root + "".join(steps)

    async def outcome(text: str) -> Any:
        try:
            return await expressions.evaluate(text, scope, where="w", engine=engine)
        except ExpressionFailed as exc:
            return (exc.name, exc.message.removeprefix(f"w: {text}: "))

    assert isinstance(simple_expressions.parse(expr), simple_expressions.Path)
    assert await outcome(expr) == await outcome(f"[0] && {expr}")


@given(st.text(max_size=30))
def test_any_text_can_be_read(text: str) -> None:
    simple_expressions.parse(text)
    expressions.read(text)
