"""What each type of module and each option does, run for real (reference/flows.md)."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs import runs
from jobs.flows import approvals, watchdog
from jobs.models import Job, QueuedJob
from tests.browser.site import Person
from tests.flows.build import (
    branch_all,
    branch_one,
    failing,
    flow,
    for_loop,
    handler,
    js,
    step,
    while_loop,
)
from tests.flows.conftest import FlowRun, RunFlow

ADD = "def main(a, b):\n    return a + b\n"
SUM = "def main(items):\n    return sum(items)\n"
FAIL_ON_2 = "def main(x):\n    if x == 2:\n        raise ValueError('two')\n    return x\n"


def value_of(run: FlowRun) -> Any:
    assert run.outcome == "success", run.result
    return run.result


def error_of(run: FlowRun) -> dict[str, Any]:
    assert run.outcome == "failure", run.result
    error: dict[str, Any] = run.result["error"]
    return error


# --- one after another ---


def test_steps_see_the_input_what_came_before_and_results_by_name(run_flow: RunFlow) -> None:
    run = run_flow(
        flow(
            step("a", x="=flow_input.n"),
            step("b", x="=previous_result * 10"),
            step("c", ADD, a="=results.a", b="=results.b"),
        ),
        {"n": 1},
    )
    assert value_of(run) == 2 + 21


def test_the_previous_result_of_the_first_step_is_the_input(run_flow: RunFlow) -> None:
    assert value_of(run_flow(flow(step("a", x="=previous_result.n")), {"n": 4})) == 5


def test_an_empty_flow_returns_its_input(run_flow: RunFlow) -> None:
    assert value_of(run_flow(flow(), {"n": 4})) == {"n": 4}


def test_identity_passes_on_what_came_before(run_flow: RunFlow) -> None:
    assert value_of(run_flow(flow(step("a", x=1), {"id": "b", "value": {"type": "identity"}}))) == 2


def test_a_failing_step_fails_the_flow_and_says_which_it_was(run_flow: RunFlow) -> None:
    error = error_of(run_flow(flow(step("a"), failing("b"), step("c"))))
    assert (error["name"], error["message"], error["step_id"]) == ("ValueError", "boom", "b")
    assert "line 2" in error["stack"]


def test_a_flow_with_an_expression_that_cannot_be_computed_names_step_input_and_expression(
    run_flow: RunFlow,
) -> None:
    error = error_of(run_flow(flow(step("a", x="=flow_input.user.name"))))
    assert error["message"].startswith("step a, input x: flow_input.user.name: ")
    assert error["step_id"] == "a"


def test_a_script_that_is_not_there_fails_its_step(run_flow: RunFlow) -> None:
    missing = {"type": "script", "path": "f/nowhere/nothing", "input_transforms": {}}
    error = error_of(run_flow(flow({"id": "a", "value": missing})))
    assert "f/nowhere/nothing does not exist" in error["message"]


# --- options of modules ---


def test_a_skipped_step_passes_on_what_came_before(run_flow: RunFlow) -> None:
    run = run_flow(
        flow(step("a", x=1), step("b", x=50, options={"skip_if": {"expr": "flow_input.skip"}})),
        {"skip": True},
    )
    assert value_of(run) == 2
    assert run.module("b")["skipped"] is True


def test_a_mocked_step_is_not_run(run_flow: RunFlow) -> None:
    mocked = failing("a", options={"mock": {"enabled": True, "return_value": {"n": 7}}})
    assert value_of(run_flow(flow(mocked, step("b", x="=results.a.n")))) == 8


def test_stop_after_if_ends_the_flow_with_the_result_of_its_step(run_flow: RunFlow) -> None:
    stop = {"stop_after_if": {"expr": "result == 2", "skip_if_stopped": False}}
    assert value_of(run_flow(flow(step("a", x=1, options=stop), step("b", x=50)))) == 2


def test_an_early_stop_may_count_as_skipped(run_flow: RunFlow) -> None:
    stop = {"stop_after_if": {"expr": "true", "skip_if_stopped": True}}
    run = run_flow(flow(step("a", x=1, options=stop), step("b")))
    assert (run.outcome, run.result) == ("skipped", 2)


@pytest.mark.parametrize(
    ("message", "shown"), [("too many rows", "too many rows"), ("", "stop after if: result > 1")]
)
def test_an_early_stop_with_a_message_is_a_failure_that_the_handler_sees(
    run_flow: RunFlow, message: str, shown: str
) -> None:
    stop = {"stop_after_if": {"expr": "result > 1", "skip_if_stopped": False, "error_message": message}}
    run = run_flow(flow(step("a", x=1, options=stop), failure_module=handler()))
    assert (run.outcome, run.result) == ("failure", {"message": shown, "step": "a"})


def test_an_early_stop_error_may_carry_the_result(run_flow: RunFlow) -> None:
    stop = {"expr": "true", "skip_if_stopped": False, "error_message": "no", "error_include_result": True}
    error = error_of(run_flow(flow(step("a", x=1, options={"stop_after_if": stop}))))
    assert (error["name"], error["message"], error["result"]) == ("EarlyStopError", "no", 2)


def test_continue_on_error_hands_the_error_to_the_next_step(run_flow: RunFlow) -> None:
    run = run_flow(
        flow(
            failing("a", options={"continue_on_error": True}),
            step("b", "def main(e): return e", e="=results.a.error.message"),
        )
    )
    assert value_of(run) == "boom"
    assert run.module("a")["type"] == "Failure"


def test_a_retry_runs_the_same_arguments_again_until_none_is_left(run_flow: RunFlow) -> None:
    retry = {"retry": {"constant": {"attempts": 2, "seconds": 0}}}
    run = run_flow(
        flow(step("a", "def main(x): raise ValueError(x)", x="=flow_input.n", options=retry)), {"n": 3}
    )
    assert error_of(run)["message"] == "3"
    failed = run.module("a")["failed_retries"]
    assert len(failed) == 2
    attempts = Job.objects.filter(parent_job=run.id, flow_step_id="a")
    assert [attempt.args for attempt in attempts] == [{"x": 3}] * 3


def test_retry_if_says_which_failures_are_worth_it(run_flow: RunFlow) -> None:
    retry = {
        "retry": {"constant": {"attempts": 5, "seconds": 0}, "retry_if": {"expr": "error.message != 'boom'"}}
    }
    run = run_flow(flow(failing("a", options=retry)))
    assert error_of(run)["message"] == "boom"
    assert "failed_retries" not in run.module("a")


def test_a_delayed_retry_leaves_the_slot_to_others(start_flow: RunFlow, worker: str) -> None:
    retry = {"retry": {"exponential": {"attempts": 1, "multiplier": 1, "seconds": 1, "random_factor": 0}}}
    slow = [start_flow(flow(failing("a", options=retry))) for _ in range(3)]
    quick = start_flow(flow(step("a", x=1))).wait()
    assert value_of(quick) == 2
    for run in slow:
        assert error_of(run.wait())["message"] == "boom"


def test_a_sleep_comes_after_its_step_and_not_after_the_last(run_flow: RunFlow) -> None:
    sleeps = {"sleep": js("flow_input.seconds")}
    run = run_flow(flow(step("a", options=sleeps), step("b", options=sleeps)), {"seconds": 0.4})
    first, second = Job.objects.filter(parent_job=run.id).order_by("created_at")
    assert (second.created_at - first.created_at).total_seconds() >= 0.4


def test_a_timeout_of_a_step_may_be_computed(run_flow: RunFlow) -> None:
    slow = step("a", "import time\ndef main(): time.sleep(60)", options={"timeout": js("flow_input.limit")})
    error = error_of(run_flow(flow(slow), {"limit": 1}))
    assert "timed out" in error["message"]


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("timeout", js("'soon'"), "step a, timeout: expected a number of seconds above 0"),
        ("sleep", js("[1]"), "step a, sleep: expected a number of seconds"),
    ],
)
def test_an_option_of_the_wrong_type_says_so(
    run_flow: RunFlow, option: str, value: Any, problem: str
) -> None:
    assert error_of(run_flow(flow(step("a", options={option: value}), step("b"))))["message"].startswith(
        problem
    )


# --- loops ---


def test_a_loop_collects_the_results_in_order(run_flow: RunFlow) -> None:
    run = run_flow(
        flow(
            for_loop("l", "[1, 2, 3]", step("a", x="=flow_input.iter.value")),
            step("z", SUM, items="=results.l"),
        )
    )
    assert value_of(run) == 2 + 3 + 4
    assert run.module("l")["flow_jobs_success"] == [True, True, True]


@pytest.mark.parametrize("parallel", [False, True])
def test_the_body_of_a_loop_may_have_many_steps(run_flow: RunFlow, parallel: bool) -> None:
    body = [step("a", x="=flow_input.iter.value"), step("b", ADD, a="=results.a", b="=flow_input.iter.index")]
    assert value_of(run_flow(flow(for_loop("l", "[10, 20]", *body, parallel=parallel)))) == [11, 22]


def test_parallelism_bounds_how_many_run_at_once(run_flow: RunFlow) -> None:
    run = run_flow(
        flow(for_loop("l", "[1,2,3,4,5,6]", step("a", x="=iter.value"), parallel=True, parallelism=2))
    )
    assert value_of(run) == [2, 3, 4, 5, 6, 7]


def test_in_nested_loops_the_outer_iteration_is_iter_parent(run_flow: RunFlow) -> None:
    inner = for_loop(
        "m", "[10, 20]", step("a", ADD, a="=flow_input.iter.value", b="=flow_input.iter_parent.value")
    )
    run = run_flow(flow(for_loop("l", "[1, 2]", inner, step("s", SUM, items="=results.m"))))
    assert value_of(run) == [32, 34]


def test_a_failed_iteration_ends_the_loop_with_what_there_is(run_flow: RunFlow) -> None:
    run = run_flow(flow(for_loop("l", "[1, 2, 3]", step("a", FAIL_ON_2, x="=flow_input.iter.value"))))
    assert run.outcome == "failure"
    first, second = run.result
    assert (first, second["error"]["message"], second["error"]["step_id"]) == (1, "two", "a")


def test_in_parallel_all_iterations_come_to_their_end(run_flow: RunFlow) -> None:
    run = run_flow(
        flow(for_loop("l", "[1, 2, 3]", step("a", FAIL_ON_2, x="=flow_input.iter.value"), parallel=True))
    )
    assert run.outcome == "failure"
    assert [run.result[0], run.result[1]["error"]["message"], run.result[2]] == [1, "two", 3]


def test_failures_may_be_skipped(run_flow: RunFlow) -> None:
    loop = for_loop("l", "[1, 2, 3]", step("a", FAIL_ON_2, x="=flow_input.iter.value"), skip_failures=True)
    result = value_of(run_flow(flow(loop)))
    assert [result[0], result[1]["error"]["message"], result[2]] == [1, "two", 3]


@pytest.mark.parametrize("expr", ["3", "flow_input.items", "{a: 1}"])
def test_an_iterator_must_be_an_array(run_flow: RunFlow, expr: str) -> None:
    error = error_of(run_flow(flow(for_loop("l", expr, step("a")))))
    assert error["message"].startswith("Expected an array value in the iterator expression, found: ")


def test_nothing_to_do_gives_an_empty_array(run_flow: RunFlow) -> None:
    run = run_flow(flow(for_loop("l", "[]", step("a")), for_loop("m", "[1, 2]")))
    assert value_of(run) == []
    assert run.module("l")["flow_jobs"] == []
    assert run.module("l")["job"] == "00000000-0000-0000-0000-000000000000"


def test_a_while_loop_runs_until_its_condition(run_flow: RunFlow) -> None:
    run = run_flow(flow(while_loop("w", step("a", x="=flow_input.iter.index"), stop="result >= 3")))
    assert value_of(run) == [1, 2, 3]


def test_a_step_of_a_loop_sees_its_own_last_result_and_may_break(run_flow: RunFlow) -> None:
    stop = {"stop_after_if": {"expr": "result > 4", "skip_if_stopped": False}}
    body = [step("a", x="=results.a ?? 0"), step("b", x="=results.a", options=stop)]
    assert (
        value_of(run_flow(flow(while_loop("w", *body), step("z", SUM, items="=results.w")))) == 2 + 3 + 4 + 5
    )


def test_stop_after_all_iterations(run_flow: RunFlow) -> None:
    stop = {"stop_after_all_iters_if": {"expr": "result.length == 2", "skip_if_stopped": False}}
    loop = for_loop("l", "[1, 2]", step("a", x="=iter.value"), parallel=True, options=stop)
    assert value_of(run_flow(flow(loop, step("b", x=50)))) == [2, 3]


# --- branches ---


@pytest.mark.parametrize(("n", "result"), [(1, "one"), (2, "two"), (9, "many")])
def test_the_first_branch_that_is_true_is_taken(run_flow: RunFlow, n: int, result: str) -> None:
    def say(id: str, text: str) -> Any:
        return step(id, "def main(t): return t", t=text)

    choice = branch_one(
        "b",
        ("flow_input.n == 1", [say("x", "one")]),
        ("flow_input.n < 3", [say("y", "two")]),
        default=[say("z", "many")],
    )
    assert value_of(run_flow(flow(choice), {"n": n})) == result


def test_steps_inside_of_a_branch_are_found_by_name_afterwards(run_flow: RunFlow) -> None:
    one = branch_one("b", ("true", [step("x", x=1)]), default=[])
    many = branch_one("c", ("true", [step("y", x=10), step("z", x=20)]), default=[])
    assert value_of(run_flow(flow(one, many, step("s", ADD, a="=results.x", b="=results.y")))) == 13


def test_an_empty_branch_passes_on_what_came_before(run_flow: RunFlow) -> None:
    assert value_of(run_flow(flow(step("a", x=1), branch_one("b", default=[])))) == 2


@pytest.mark.parametrize("parallel", [False, True])
def test_all_branches(run_flow: RunFlow, parallel: bool) -> None:
    branches = branch_all(
        "b", [step("x", x=1), step("y", x="=results.x")], [step("z", x=9)], [], parallel=parallel
    )
    assert value_of(run_flow(flow(step("a", x=4), branches))) == [3, 10, 5]


def test_a_stop_inside_of_a_branch_stops_the_flow(run_flow: RunFlow) -> None:
    stop = {"stop_after_if": {"expr": "true", "skip_if_stopped": False}}
    choice = branch_one("b", ("true", [step("x", x=1, options=stop), step("y")]), default=[])
    assert value_of(run_flow(flow(choice, step("z", x=50)))) == 2


def test_a_stop_inside_of_a_parallel_branch_ends_that_branch_only(run_flow: RunFlow) -> None:
    stop = {"stop_after_if": {"expr": "true", "skip_if_stopped": False}}
    branches = branch_all(
        "b", [step("x", x=1, options=stop), step("y", x=8)], [step("v", x=2)], parallel=True
    )
    assert value_of(run_flow(flow(branches, step("z", SUM, items="=results.b")))) == 2 + 3


# --- failures of the whole flow ---


def test_the_failure_module_gets_the_error_and_its_result_is_the_flows(run_flow: RunFlow) -> None:
    run = run_flow(flow(step("a"), failing("b"), failure_module=handler()))
    assert (run.outcome, run.result) == ("failure", {"message": "boom", "step": "b"})
    assert run.status["failure_module"]["parent_module"] == "b"


def test_the_failure_module_runs_once_for_a_failure_deep_inside(run_flow: RunFlow) -> None:
    deep = for_loop("l", "[1]", branch_one("b", ("true", [step("x"), failing("y")]), default=[]), step("z"))
    run = run_flow(flow(deep, failure_module=handler()))
    assert (run.outcome, run.result) == ("failure", {"message": "boom", "step": "y"})
    assert Job.objects.filter(root_job=run.id, flow_step_id="failure").count() == 1


def test_a_failure_module_may_recover_the_flow(run_flow: RunFlow) -> None:
    recover = handler("def main(message, step): return {'recover': True, 'was': message}")
    assert value_of(run_flow(flow(failing("a"), failure_module=recover))) == {"recover": True, "was": "boom"}


def test_a_failing_failure_module_fails_the_flow_with_its_own_error(run_flow: RunFlow) -> None:
    run = run_flow(
        flow(failing("a"), failure_module=handler("def main(message, step): raise KeyError('worse')"))
    )
    assert error_of(run)["message"] == "'worse'"


def test_a_flow_may_be_skipped_as_a_whole(run_flow: RunFlow) -> None:
    run = run_flow(flow(failing("a"), skip_expr="flow_input.quiet"), {"quiet": True})
    assert (run.outcome, run.result) == ("skipped", "stopped early")


def test_a_thousand_steps_that_need_no_job_are_no_recursion(run_flow: RunFlow) -> None:
    skipped = [step(f"s{n}", options={"skip_if": {"expr": "true"}}) for n in range(1000)]
    assert value_of(run_flow(flow(*skipped), {"n": 1})) == {"n": 1}


def test_a_mock_of_any_json(run_flow: RunFlow) -> None:
    value = {"text": 'é \U0001f600 \\ "', "list": [1, None, 2.5], "deep": {"a": {"b": []}}}
    mocked = step("a", options={"mock": {"enabled": True, "return_value": value}})
    echo = step("b", "def main(v): return v", v="=results.a")
    assert value_of(run_flow(flow(mocked, echo))) == value


@pytest.mark.parametrize("number", [2**53 + 1, 2**70, -(2**90)])
def test_whole_numbers_of_any_size_pass_through_steps_as_they_are(run_flow: RunFlow, number: int) -> None:
    run = run_flow(
        flow(
            step("a", x="=flow_input.n"),
            step("b", x="=results.a"),
            for_loop("l", "[1]", step("c", x="=results.b")),
        ),
        {"n": number},
    )
    assert value_of(run) == [number + 3]


def test_every_module_is_listed_from_the_start(start_flow: RunFlow) -> None:
    run = start_flow(flow(step("a"), for_loop("l", "[1]", step("b"))), scheduled_in_s=3600)
    assert [module["type"] for module in run.status["modules"]] == ["WaitingForPriorSteps"] * 2


def test_an_early_answer_to_the_flow_counts_for_the_next_approval_alone(
    start_flow: RunFlow, ada: Person, worker: str
) -> None:
    asks = {"suspend": {"required_events": 1, "timeout": 600}}
    run = start_flow(
        flow(step("a", options=asks), step("b", options=asks), step("c", x=6)), scheduled_in_s=3600
    )

    def answer(number: int) -> None:
        link = approvals.make_link(ada.caller, run.id, resume_id=number, flow_level=True)
        approvals.answer_link(link, caller=None, approved=True, value={"number": number})

    answer(1)
    runs.run_now(ada.caller, run.id)
    assert run.wait_until_module("c", "WaitingForEvents")["count"] == 1
    answer(2)
    assert value_of(run.wait()) == 7
    first, second, _ = run.status["modules"]
    assert [module["approvers"][0]["resume_id"] for module in (first, second)] == [1, 2]


def test_a_flow_that_runs_for_longer_than_its_timeout_is_canceled(start_flow: RunFlow, worker: str) -> None:
    asks = {"suspend": {"required_events": 1, "timeout": 600}}
    run = start_flow(flow(step("a", options=asks), step("b")), timeout_s=60)
    run.wait_until_module("b", "WaitingForEvents")
    QueuedJob.objects.filter(pk=run.id).update(started_at=timezone.now() - timedelta(seconds=61))

    assert watchdog.cancel_overdue() == 1

    assert run.wait().outcome == "canceled"
    assert "the flow ran for longer than its timeout of 60 s" in run.result["error"]["message"]


def test_steps_are_as_urgent_as_their_flow_unless_they_say_otherwise(run_flow: RunFlow) -> None:
    loop = for_loop("l", "[1]", step("b"), step("d"))
    run = run_flow(flow(step("a"), loop, step("c", options={"priority": 7})), priority=40)

    jobs = Job.objects.filter(root_job=run.id).values_list("flow_step_id", "priority")
    assert dict(jobs) == {"a": 40, "l": 40, "b": 40, "d": 40, "c": 7}
    assert Job.objects.get(pk=run.id).priority == 40
