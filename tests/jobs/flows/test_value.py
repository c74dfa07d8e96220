"""What a flow may say: everything that OpenFlow's authors write is read, and every mistake is named with its place."""

import sys
from typing import Any

import pytest
from hypothesis import given

from jobs.flows import value as values
from jobs.flows.value import (
    BadFlow,
    BranchAll,
    BranchOne,
    Constant,
    Exponential,
    FlowModule,
    ForLoop,
    Identity,
    Javascript,
    Mock,
    RawScript,
    Retry,
    ScriptRef,
    Static,
    StopAfterIf,
    SubFlow,
    Suspend,
    UnknownModule,
    WhileLoop,
    body_ref,
    fill_ids,
    parse_flow_value,
    split_body_ref,
)
from tests.jobs.flows.strategies import broken_flows, flows, json_values

IDENTITY = {"type": "identity"}
SCRIPT = {"type": "rawscript", "language": "bash", "content": "true"}
LIST = {"type": "javascript", "expr": "[1]"}


def module(id: str | None = "a", value: Any = IDENTITY, **options: Any) -> dict[str, Any]:
    return ({} if id is None else {"id": id}) | {"value": value} | options


def loop(*modules: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"type": "forloopflow", "iterator": LIST, "modules": list(modules)} | options


def flow(*modules: Any, **options: Any) -> dict[str, Any]:
    return {"modules": list(modules)} | options


def only(**options: Any) -> FlowModule:
    """The module of a flow with one module, whose fields are `options`."""
    return parse_flow_value(flow(module(**options))).modules[0]


def problems(value: Any) -> dict[str, str]:
    """Sentence by place."""
    with pytest.raises(BadFlow) as caught:
        parse_flow_value(value)
    return dict(caught.value.problems)


# --- what modules do ---


def test_an_inline_script():
    value = only(
        value={
            "type": "rawscript",
            "language": "python3",
            "content": "def main(x): ...",
            "input_transforms": {
                "x": {"type": "javascript", "expr": "flow_input.x"},
                "y": {"type": "static", "value": [1]},
                "never_filled": {"type": "static"},
            },
            "lock": "",
            "path": "f/etl/step",
            "tag": "gpu",
            "concurrent_limit": 2,
            "concurrency_time_window_s": 60,
            "custom_concurrency_key": "one",
            "envs": ["A=1"],
            "assets": [{"path": "f/etl/db", "kind": "resource"}],
            "is_trigger": False,
        }
    ).value

    assert value == RawScript(
        content="def main(x): ...",
        language="python3",
        input_transforms={"x": Javascript("flow_input.x"), "y": Static([1]), "never_filled": Static(None)},
        lock="",
        path="f/etl/step",
        tag="gpu",
        concurrent_limit=2,
        concurrency_time_window_s=60,
        concurrency_key="one",
        envs=("A=1",),
    )
    assert value.type == "rawscript"


def test_a_deployed_script_pinned_to_a_version():
    value = only(
        value={"type": "script", "path": "f/etl/load", "hash": "00000000000000ff", "tag_override": ""}
    ).value

    assert value == ScriptRef("f/etl/load", hash=255)


def test_a_version_above_63_bits_is_the_negative_number_that_the_database_holds():
    assert only(value={"type": "script", "path": "f/a/b", "hash": "f" * 16}).value == ScriptRef(
        "f/a/b", hash=-1
    )


@pytest.mark.parametrize("path", ["u/ann/x", "f/etl/deep/x", "g/all/x", "hub/28/slack"])
def test_paths_of_scripts_belong_to_a_user_a_folder_a_group_or_the_hub(path: str):
    assert only(value={"type": "script", "path": path}).value == ScriptRef(path)


def test_another_flow():
    inputs = {"x": {"type": "static", "value": 1}}

    assert only(value={"type": "flow", "path": "f/etl/all", "input_transforms": inputs}).value == SubFlow(
        "f/etl/all", {"x": Static(1)}
    )


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (3, Static(3)),
        ({"type": "static", "value": 3}, Static(3)),
        ({"type": "static"}, None),
        (LIST, Javascript("[1]")),
        (None, None),
    ],
)
def test_a_loop_runs_as_many_iterations_at_once_as_a_number_or_an_expression_says(given: Any, read: Any):
    value = only(value=loop(module("b"), parallel=True, parallelism=given, skip_failures=True)).value

    assert value == ForLoop(
        (FlowModule("b", Identity()),), Javascript("[1]"), skip_failures=True, parallel=True, parallelism=read
    )


def test_a_while_loop():
    value = only(value={"type": "whileloopflow", "modules": [module("b")], "skip_failures": False}).value

    assert value == WhileLoop((FlowModule("b", Identity()),))


def test_one_of_several_branches():
    value = only(
        value={
            "type": "branchone",
            "branches": [{"summary": "big", "expr": "flow_input.x > 3", "modules": [module("b")]}],
            "default": [module("c")],
        }
    ).value

    assert isinstance(value, BranchOne)
    assert (value.branches[0].summary, value.branches[0].expr) == ("big", "flow_input.x > 3")
    assert [m.id for m in (*value.branches[0].modules, *value.default)] == ["b", "c"]


def test_a_branchone_without_a_default_does_nothing_when_no_branch_is_chosen():
    assert only(value={"type": "branchone", "branches": []}).value == BranchOne((), ())


def test_all_branches_run_in_parallel_unless_the_flow_says_otherwise():
    branches = {"type": "branchall", "branches": [{"modules": [], "skip_failure": True}]}

    assert isinstance(every := only(value=branches).value, BranchAll)
    assert every.parallel
    assert every.branches[0].skip_failure
    assert only(value=branches | {"parallel": False}).value.parallel is False
    on_one_worker = parse_flow_value(flow(module(value=branches), same_worker=True)).modules[0].value
    assert isinstance(on_one_worker, BranchAll)
    assert not on_one_worker.parallel


def test_an_ai_agent_and_its_tools():
    tools = [
        {"id": "look_up", "summary": "look_up", "value": SCRIPT | {"tool_type": "flowmodule"}},
        {"id": "old", "value": SCRIPT | {"input_transforms": {"q": {"type": "ai"}}}},
        {"id": "files", "value": {"tool_type": "mcp", "resource_path": "u/ann/files"}},
    ]

    agent = only(value={"type": "aiagent", "input_transforms": {}, "tools": tools}).value

    assert isinstance(agent, values.AiAgent)
    assert [(tool.id, tool.tool_type, tool.value and tool.value.type) for tool in agent.tools] == [
        ("look_up", "flowmodule", "rawscript"),
        ("old", "flowmodule", "rawscript"),
        ("files", "mcp", None),
    ]
    assert agent.tools[1].value.input_transforms == {"q": values.AiFilled()}
    assert agent.tools[2].settings["resource_path"] == "u/ann/files"


# --- options ---


def test_a_module_without_options_has_none():
    assert only() == FlowModule("a", Identity())


def test_null_is_the_same_as_absent():
    nulls = dict.fromkeys(
        [
            "summary",
            "stop_after_if",
            "stop_after_all_iters_if",
            "skip_if",
            "sleep",
            "suspend",
            "timeout",
            "retry",
            "cache_ttl",
            "continue_on_error",
            "delete_after_use",
            "delete_after_secs",
            "mock",
            "priority",
            "debouncing",
        ]
    )

    assert only(**nulls) == only()


def test_stopping_early():
    stop = {"expr": "result.done", "skip_if_stopped": True, "error_message": "", "error_include_result": True}

    read = only(stop_after_if=stop, stop_after_all_iters_if={"expr": "true"})

    assert read.stop_after_if == StopAfterIf("result.done", True, "", True)
    assert read.stop_after_all_iters_if == StopAfterIf("true")


def test_a_blank_condition_is_an_option_that_is_off():
    read = only(stop_after_if={"expr": " ", "skip_if_stopped": False}, skip_if={"expr": ""})

    assert read.stop_after_if is None
    assert read.skip_if is None


def test_waiting_for_approvals():
    read = only(
        suspend={
            "required_events": 2,
            "timeout": 60,
            "resume_form": {"schema": {"properties": {}}},
            "user_auth_required": True,
            "user_groups_required": {"type": "static", "value": ["admins"]},
            "self_approval_disabled": True,
            "hide_cancel": True,
            "continue_on_disapprove_timeout": True,
            "skin": "dark",
        }
    )

    assert read.suspend == Suspend(
        2, 60, {"schema": {"properties": {}}}, True, Static(["admins"]), True, True, True
    )


def test_one_approval_within_half_an_hour_is_what_suspend_means_by_itself():
    assert only(suspend={}).suspend == Suspend(required_events=1, timeout_s=1800)


def test_nothing_is_suspended_for_no_approval():
    assert only(suspend={"required_events": 0}).suspend is None


def test_trying_again():
    read = only(
        retry={
            "constant": {"attempts": 2, "seconds": 5},
            "exponential": {"attempts": 3, "multiplier": 2, "seconds": 4, "random_factor": 10},
            "retry_if": {"expr": "error.name != 'Bad'"},
        }
    )

    assert read.retry == Retry(Constant(2, 5), Exponential(3, 2, 4, 10), "error.name != 'Bad'")


def test_a_retry_of_no_attempts_is_none():
    off = {
        "constant": {"attempts": 0, "seconds": 0},
        "exponential": {"attempts": 0, "multiplier": 1, "seconds": 0},
    }

    assert only(retry=off).retry is None
    assert only(retry={}).retry is None


def test_pauses_and_timeouts_are_numbers_or_transforms():
    assert only(sleep=1.5).sleep == Static(1.5)
    assert only(sleep={"type": "javascript", "expr": "result.wait"}).sleep == Javascript("result.wait")
    assert only(timeout={"type": "static", "value": 30}).timeout == Static(30)
    assert only(timeout={"type": "static"}).timeout is None


def test_the_rest_of_the_options():
    read = only(
        summary="First",
        skip_if={"expr": "flow_input.dry"},
        cache_ttl=60.0,
        continue_on_error=True,
        priority=7,
    )

    assert (read.summary, read.skip_if, read.cache_ttl, read.continue_on_error, read.priority) == (
        "First",
        "flow_input.dry",
        60,
        True,
        7,
    )


def test_zero_turns_a_cache_a_priority_and_a_timeout_off():
    assert only(cache_ttl=0, priority=0, timeout=0) == only()


def test_a_mock_counts_only_when_it_is_enabled():
    assert only(mock={"enabled": True, "return_value": [1]}).mock == Mock([1])
    assert only(mock={"enabled": False, "return_value": [1]}).mock is None


def test_delete_after_use_is_the_older_word_for_at_once():
    assert only(delete_after_use=True).delete_after_secs == 0
    assert only(delete_after_use=False).delete_after_secs is None
    assert only(delete_after_use=True, delete_after_secs=9).delete_after_secs == 9


def test_options_of_the_whole_flow():
    read = parse_flow_value(
        flow(
            same_worker=True,
            preserve_step_tags=True,
            concurrent_limit=3,
            concurrency_key="k",
            concurrency_time_window_s=0,
            skip_expr="flow_input.x == 0",
            cache_ttl=10,
            flow_env={"LEVEL": 1, "KEY": "$var:f/etl/key"},
            priority=5,
            early_return="a",
            delete_after_secs=60,
            chat_input_enabled=True,
            debounce_delay_s=3,
            notes=[{"text": "hello"}],
        )
    )

    assert read == values.FlowValue(
        (), None, None, True, True, 3, "k", 0, "flow_input.x == 0", 10,
        {"LEVEL": 1, "KEY": "$var:f/etl/key"}, 5, "a", 60, True,
    )  # fmt: skip


def test_the_failure_module_and_the_preprocessor():
    read = parse_flow_value(
        flow(failure_module=module("failure", SCRIPT), preprocessor_module=module("preprocessor", SCRIPT))
    )

    assert read.failure_module is read.module("failure")
    assert read.preprocessor_module is read.module("preprocessor")


# --- finding modules ---

NESTED = flow(
    module("a"),
    module(
        "b",
        loop(
            module(
                "c",
                {
                    "type": "branchone",
                    "branches": [{"expr": "true", "modules": [module("d")]}],
                    "default": [module("e"), module("f")],
                },
            )
        ),
    ),
    failure_module=module("failure", SCRIPT),
    preprocessor_module=module("preprocessor", SCRIPT),
)


def test_every_module_has_its_place():
    places = {place: found.id for place, found in parse_flow_value(NESTED).every_module()}

    assert places == {
        "preprocessor_module": "preprocessor",
        "modules[0]": "a",
        "modules[1]": "b",
        "modules[1].value.modules[0]": "c",
        "modules[1].value.modules[0].value.branches[0].modules[0]": "d",
        "modules[1].value.modules[0].value.default[0]": "e",
        "modules[1].value.modules[0].value.default[1]": "f",
        "failure_module": "failure",
    }


def test_a_module_knows_what_is_around_it():
    read = parse_flow_value(NESTED)

    assert read.enclosing("a") == ()
    assert read.enclosing("d") == ("b", "c")
    assert read.locate("f").body == "c/default"


def test_the_body_of_a_loop_and_of_a_branch():
    read = parse_flow_value(NESTED)

    assert [m.id for m in read.body("b")] == ["c"]
    assert [m.id for m in read.body(body_ref("c", 0))] == ["d"]
    assert [m.id for m in read.body(body_ref("c", "default"))] == ["e", "f"]


@pytest.mark.parametrize("ref", ["nobody", "a", "b/0", "c", "c/1", "c/x", "c/", "c/00", "c/-1", "", "/"])
def test_there_is_no_other_body(ref: str):
    with pytest.raises(UnknownModule):
        parse_flow_value(NESTED).body(ref)


def test_an_unknown_module_is_named_beside_those_that_are_there():
    with pytest.raises(UnknownModule, match="no module 'z'; it has preprocessor, a, b, c"):
        parse_flow_value(NESTED).module("z")


@given(flows())
def test_each_module_is_in_the_body_that_it_says(value: dict[str, Any]):
    read = parse_flow_value(value)

    for _, found in read.every_module():
        where = read.locate(found.id)
        if where.body is not None:
            assert found in read.body(where.body)
            assert split_body_ref(where.body)[0] == where.enclosing[-1]


# --- ids ---


def ids_of(value: Any) -> list[str]:
    return [found.id for _, found in parse_flow_value(value).every_module()]


def test_modules_without_ids_get_letters_depth_first():
    value = flow(module(None), module(None, loop(module(None), module(None))), module(None))

    assert ids_of(value) == ["a", "b", "c", "d", "e"]


def test_letters_that_are_taken_or_reserved_are_passed_over():
    value = flow(module("b"), *(module(None) for _ in range(60)))

    filled = ids_of(value)

    assert filled[:3] == ["b", "a", "c"]
    assert len(set(filled)) == 61
    assert not values.RESERVED_IDS & set(filled)


def test_an_empty_id_is_a_missing_one():
    assert ids_of(flow(module(""), failure_module=module("", SCRIPT))) == ["a", "failure"]


def test_expressions_of_a_flow_without_ids_count_its_modules_as_the_editor_does():
    assert ids_of(flow(module(None), module(None, skip_if={"expr": "results.a"}))) == ["a", "b"]


@pytest.mark.parametrize(
    "expr", ["results.b", "results?.b", "results['b']", 'results?.["b"].x', "1 + results . b"]
)
def test_an_id_that_somebody_may_mean_by_an_unknown_result_must_be_given(expr: str):
    value = flow(module("a"), module(None), module("c", skip_if={"expr": expr}))

    assert problems(value) == {
        "modules[1].id": "is missing, and other modules read results by ids; give it an id"
    }
    assert fill_ids(value) is value


@pytest.mark.parametrize(
    "expr", ["results.a", "result.b", "flow_input.results.b", "results_of.b", "results[key]"]
)
def test_expressions_that_read_no_unknown_result_leave_missing_ids_alone(expr: str):
    assert ids_of(flow(module("a"), module(None, skip_if={"expr": expr}))) == ["a", "b"]


def test_filled_ids_are_what_is_stored_beside_everything_else():
    value = flow(module(None, x=1), failure_module={"value": SCRIPT}, y=2)

    assert fill_ids(value) == flow(module("a", x=1), failure_module=module("failure", SCRIPT), y=2)
    assert value == flow(module(None, x=1), failure_module={"value": SCRIPT}, y=2)


@pytest.mark.parametrize(
    ("id", "problem"),
    [
        ("do", "'do' is a reserved word; choose another id"),
        ("failure", "'failure' is a reserved word; choose another id"),
        ("Input", "'Input' is a reserved word; choose another id"),
        ("a-b", "'a-b' is no identifier; expected letters, digits and _, not starting with a digit"),
        ("1a", "'1a' is no identifier; expected letters, digits and _, not starting with a digit"),
        ("a/0", "'a/0' is no identifier; expected letters, digits and _, not starting with a digit"),
        ("a" * 101, "is longer than 100 characters"),
        (7, "is 7; expected a text such as a"),
    ],
)
def test_ids_are_identifiers_that_mean_nothing_else(id: Any, problem: str):
    assert problems(flow(module(id))) == {"modules[0].id": problem}


def test_an_id_is_used_once_in_the_whole_flow():
    value = flow(module("a"), module("b", loop(module("a"))))

    assert problems(value) == {
        "modules[1].value.modules[0].id": "'a' is the id of modules[0] already; ids are unique in the flow"
    }


# --- mistakes ---


@pytest.mark.parametrize(
    ("value", "place", "problem"),
    [
        (None, "", "the value of the flow is null; expected an object with a list of modules"),
        ([], "", "the value of the flow is a list; expected an object with a list of modules"),
        ({}, "modules", "is missing; expected a list of modules"),
        ({"modules": {}}, "modules", "is an object; expected a list of modules"),
        (flow(3), "modules[0]", "is 3; expected a module"),
        (
            flow({"id": "a"}),
            "modules[0].value",
            "is missing; expected what the module does, an object with a type",
        ),
        (flow(module(value="x")), "modules[0].value", "is 'x'; expected an object with a type"),
        (
            flow(module(value=SCRIPT | {"content": None})),
            "modules[0].value.content",
            "is missing; expected the code",
        ),
        (
            flow(module(value={"type": "script"})),
            "modules[0].value.path",
            "is missing; expected the path of a script",
        ),
        (
            flow(module(value={"type": "flow", "path": ""})),
            "modules[0].value.path",
            "is empty; expected the path of a flow",
        ),
        (
            flow(module(value={"type": "flow", "path": "etl"})),
            "modules[0].value.path",
            "is 'etl'; expected the path of a flow, such as f/folder/name or u/name/name",
        ),
        (
            flow(module(value={"type": "script", "path": "f/a/b", "hash": "xyz"})),
            "modules[0].value.hash",
            "is 'xyz'; expected 16 hex digits",
        ),
        (
            flow(module(value={"type": "forloopflow", "modules": []})),
            "modules[0].value.iterator",
            "is missing; expected an input transform that gives a list",
        ),
        (
            flow(module(value=loop(iterator={"type": "static", "value": "abc"}))),
            "modules[0].value.iterator.value",
            "is 'abc'; expected a list",
        ),
        (
            flow(module(value=loop(iterator={"type": "ai"}))),
            "modules[0].value.iterator.type",
            "is 'ai'; expected static or javascript",
        ),
        (
            flow(module(value={"type": "branchall"})),
            "modules[0].value.branches",
            "is missing; expected a list of branches",
        ),
        (
            flow(module(value={"type": "branchone", "branches": [{"modules": []}]})),
            "modules[0].value.branches[0].expr",
            "is missing; expected a JavaScript condition",
        ),
        (
            flow(module(value={"type": "branchall", "branches": [{}]})),
            "modules[0].value.branches[0].modules",
            "is missing; expected a list of modules",
        ),
        (
            flow(module(value=SCRIPT | {"input_transforms": {"x": {"value": 1}}})),
            "modules[0].value.input_transforms.x.type",
            "is missing; expected static, javascript or ai",
        ),
        (
            flow(module(value=SCRIPT | {"input_transforms": {"x": {"type": "javascript"}}})),
            "modules[0].value.input_transforms.x.expr",
            "is missing; expected a JavaScript expression",
        ),
        (
            flow(module(suspend={"required_events": -1})),
            "modules[0].suspend.required_events",
            "is -1; expected a whole number from 0 to 2147483647",
        ),
        (
            flow(module(retry={"constant": {"attempts": 1.5}})),
            "modules[0].retry.constant.attempts",
            "is 1.5; expected a whole number from 0 to 4294967295",
        ),
        (
            flow(module(retry={"exponential": {"attempts": 1, "random_factor": 101}})),
            "modules[0].retry.exponential.random_factor",
            "is 101; expected a whole number from 0 to 100",
        ),
        (flow(module(sleep=-1)), "modules[0].sleep", "is -1; expected a number of seconds, 0 or more"),
        (
            flow(module(value=loop(parallelism=0))),
            "modules[0].value.parallelism",
            "is 0; expected a number of iterations, 1 or more",
        ),
        (
            flow(module(timeout={"type": "static", "value": "5"})),
            "modules[0].timeout.value",
            "is '5'; expected a number of seconds, 0 or more",
        ),
        (flow(module(priority=101)), "modules[0].priority", "is 101; expected a whole number from 0 to 100"),
        (
            flow(module(cache_ttl=True)),
            "modules[0].cache_ttl",
            "is true; expected a whole number from 0 to 2147483647",
        ),
        (
            flow(failure_module=module("oops", SCRIPT)),
            "failure_module.id",
            "is 'oops'; expected failure",
        ),
        (
            flow(failure_module=module("failure", loop())),
            "failure_module.value.type",
            "is 'forloopflow'; expected one of rawscript, script, flow",
        ),
        (
            flow(preprocessor_module=module("preprocessor", IDENTITY)),
            "preprocessor_module.value.type",
            "is 'identity'; expected one of rawscript, script, flow",
        ),
        (flow(same_worker="yes"), "same_worker", "is 'yes'; expected true or false"),
    ],
)
def test_a_mistake_is_named_with_its_place(value: Any, place: str, problem: str):
    assert problems(value) == {place: problem}


def test_the_types_and_languages_to_choose_from_are_listed():
    found = problems(flow(module("a", {"type": "flowscript"}), module("b", SCRIPT | {"language": "cobol"})))

    assert found["modules[0].value.type"].startswith(
        "is 'flowscript'; expected one of rawscript, script, flow, for"
    )
    assert found["modules[1].value.language"].startswith("is 'cobol'; expected one of python3, ")


@pytest.mark.parametrize(
    "value", [loop(parallel=True), {"type": "branchall", "branches": [], "parallel": True}]
)
def test_one_worker_cannot_run_things_in_parallel(value: Any):
    found = problems(flow(module("a", loop(module("b", value))), same_worker=True))

    assert list(found) == ["modules[0].value.modules[0].value.parallel"]
    assert "same_worker" in found["modules[0].value.modules[0].value.parallel"]


def test_all_problems_are_told_at_once():
    with pytest.raises(BadFlow) as caught:
        parse_flow_value(flow(module("do"), module(value={"type": "script"}), priority="high"))

    assert caught.value.message.splitlines() == [
        "modules[0].id: 'do' is a reserved word; choose another id",
        "modules[1].value.path: is missing; expected the path of a script",
        "priority: is 'high'; expected a whole number from 0 to 100",
    ]


def test_no_more_than_50_problems_are_told():
    with pytest.raises(BadFlow) as caught:
        parse_flow_value(flow(*range(1000)))

    assert len(caught.value.problems) == 50


def test_a_wrong_value_is_quoted_shortly():
    with pytest.raises(BadFlow) as caught:
        parse_flow_value(flow(module(value={"type": "x" * 10_000}), module("b", priority=10**5000)))

    assert len(caught.value.message) < 1000


# --- hostile flows ---


def nested(levels: int) -> Any:
    inner = module("x")
    for level in range(levels - 1):
        inner = module(f"m{level}", loop(inner))
    return flow(inner)


def test_a_hundred_levels_of_modules_are_fine_and_more_are_not():
    assert len(parse_flow_value(nested(100)).enclosing("x")) == 99
    assert any("nested more than 100 levels" in problem for problem in problems(nested(101)).values())


def test_nesting_without_end_does_not_exhaust_the_stack():
    deep: Any = module(None)
    for _ in range(sys.getrecursionlimit() * 3):
        deep = module(None, loop(deep))
    value: Any = []
    for _ in range(sys.getrecursionlimit() * 3):
        value = [value]

    assert problems(flow(deep))
    assert problems(
        flow(module(value, {"type": value}), failure_module=module(value, SCRIPT | {"lock": value}))
    )
    fill_ids(flow(deep))


def test_a_flow_has_at_most_ten_thousand_modules():
    assert len(parse_flow_value(flow(*(module(None) for _ in range(10_000)))).modules) == 10_000
    assert problems(flow(*(module(None) for _ in range(10_001)))) == {
        "modules": "the flow has more than 10000 modules"
    }


def test_branches_count_too():
    branches = {"type": "branchall", "branches": [{"modules": []}] * 10_000}

    assert "more than 10000" in problems(flow(module(value=branches)))["modules[0].value.branches"]


def test_the_work_grows_with_the_size_of_the_flow_and_no_faster():
    def steps(count: int) -> int:
        """Python calls that parsing `count` modules takes."""
        value = flow(
            *(module(f"m{number}", SCRIPT | {"input_transforms": {"x": LIST}}) for number in range(count))
        )
        calls = 0

        def note(_frame: Any, event: str, _arg: Any) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(note)
        try:
            parse_flow_value(value)
        finally:
            sys.setprofile(None)
        return calls

    assert steps(400) < steps(200) * 2.1
    assert steps(400) < 400 * 40


@given(json_values())
def test_whatever_the_json_is_it_is_a_flow_or_a_bad_flow(value: Any):
    _is_a_flow_or_a_bad_flow(value)


@given(broken_flows(noise=True) | broken_flows(with_ids=False))
def test_a_flow_with_something_else_in_one_place_is_a_flow_or_a_bad_flow(value: Any):
    _is_a_flow_or_a_bad_flow(value)


def _is_a_flow_or_a_bad_flow(value: Any) -> None:
    try:
        read = parse_flow_value(value)
    except BadFlow as exc:
        assert 0 < len(exc.problems) <= 50
    else:
        assert parse_flow_value(fill_ids(value)) == read


# --- all valid flows ---


@given(flows(noise=True))
def test_valid_flows_are_read(value: dict[str, Any]):
    read = parse_flow_value(value)

    assert [m.id for m in read.modules] == [m["id"] for m in value["modules"]]


@given(flows(with_ids=False) | broken_flows(with_ids=False))
def test_filling_ids_twice_is_filling_them_once(value: Any):
    filled = fill_ids(value)

    assert fill_ids(filled) == filled


@given(flows(with_ids=False))
def test_a_flow_without_ids_is_read_as_the_flow_that_is_stored(value: dict[str, Any]):
    stored = fill_ids(value)

    assert parse_flow_value(stored) == parse_flow_value(value)
    assert fill_ids(stored) is stored
