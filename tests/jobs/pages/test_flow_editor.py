"""The flow editor's server side: who may open it, and what its script calls."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from jobs import drafts, queue
from jobs.flows import deployed, peeking
from jobs.models import Draft, Flow, FlowIteration, FlowStep, FlowVersion, Job, JobStatus, Script
from tests.tenancy import enter
from workspaces.access import Caller

EDITOR = "/w/acme/flows/editor/"
EDIT = "/w/acme/flows/f/shared/bill/edit/"


def code(id: str = "a", content: str = "def main(x: int): return x", **inputs: str) -> dict[str, Any]:
    transforms = {name: {"type": "javascript", "expr": expr} for name, expr in inputs.items()}
    return {
        "id": id,
        "value": {
            "type": "rawscript",
            "language": "python3",
            "content": content,
            "input_transforms": transforms,
        },
    }


def call_of(path: str, id: str = "a", kind: str = "script") -> dict[str, Any]:
    return {"id": id, "value": {"type": kind, "path": path, "input_transforms": {}}}


def holds(*modules: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """What the editor holds."""
    return {"summary": "", "value": {"modules": list(modules)}, "schema": {}, **settings}


@pytest.fixture
def bill(alice: Caller, greet: Script) -> FlowVersion:
    """A flow in the folder that everybody may read."""
    draft = deployed.FlowDraft(path="f/shared/bill", value={"modules": [code()]}, summary="Bill", tag="flow")
    return deployed.create_flow(alice, draft, deployment_message="First version")


@pytest.fixture
def post(browser_of: Callable[[str], Client]) -> Callable[..., Any]:
    def post(word: str, body: Any, who: str = "alice") -> Any:
        text = body if isinstance(body, bytes) else json.dumps(body)
        return browser_of(who).post(f"{EDITOR}{word}/", text, content_type="application/json")

    return post


@pytest.fixture
def get(browser_of: Callable[[str], Client]) -> Callable[..., Any]:
    return lambda word, who="alice", **query: browser_of(who).get(f"{EDITOR}{word}/", query)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_operators_and_readers_are_told_which_role_they_lack(browser_of, bill):
    for name, right in (("oscar", "developer role"), ("dave", "right to write f/shared/bill")):
        answer = browser_of(name).get(EDIT)

        assert answer.status_code == 403
        assert right in answer.content.decode()


def test_a_flow_opens_as_it_is_deployed(browser_of, bill):
    state = browser_of("alice").get(EDIT).context["state"]

    assert state["value"]["value"]["modules"][0]["id"] == "a"
    assert (state["value"]["summary"], state["value"]["tag"]) == ("Bill", "flow")
    assert state["base"] == state["head"]["version"] == bill.pk
    assert not state["isNew"]


def test_a_draft_opens_instead_and_says_that_it_is_stale(alice, browser_of, bill):
    drafts.save_draft(alice, "f/shared/bill", holds(code("mine")), base_hash=bill.pk - 1, kind="flow")

    page = browser_of("alice").get(EDIT)

    assert page.context["state"]["value"]["value"]["modules"][0]["id"] == "mine"
    assert page.context["is_stale"]


def test_a_new_flow_is_empty_or_a_copy(browser_of, bill):
    empty = browser_of("alice").get("/w/acme/flows/new/").context["state"]
    copy = browser_of("alice").get("/w/acme/flows/new/?from=f/shared/bill").context["state"]

    assert empty["isNew"] and empty["value"]["value"] == {"modules": []}
    assert copy["isNew"] and copy["path"] == "u/alice/bill_copy"
    assert copy["value"]["value"]["modules"][0]["id"] == "a"


def test_a_flow_that_is_not_there_is_missing(browser_of, bill):
    answer = browser_of("alice").get("/w/acme/flows/f/shared/bil/edit/")

    assert answer.status_code == 404
    assert "f/shared/bill" in answer.content.decode()


# --- checking ---------------------------------------------------------------------------------------------------------


def test_a_sound_flow_has_no_problems(post, bill):
    value = {"modules": [code("a"), call_of("f/shared/greet", "b"), call_of("f/shared/bill", "c", "flow")]}

    assert post("check", {"value": value}).json() == {"problems": []}


def test_problems_come_with_their_places(post, acme):
    problems = post("check", {"value": {"modules": [code("a"), code("a")]}}).json()["problems"]

    assert problems[0]["place"].startswith("modules[1]")
    assert "a" in problems[0]["message"]


def test_scripts_and_flows_that_are_not_there_or_not_readable_are_problems(post, alice, acme, greet):
    value = {
        "modules": [
            call_of("f/shared/greet", "a"),
            call_of("u/alice/nothing", "b"),
            call_of("f/x/y", "c", "flow"),
        ]
    }

    problems = post("check", {"value": value}).json()["problems"]

    assert [problem["place"] for problem in problems] == ["modules[1].value.path", "modules[2].value.path"]
    assert "u/alice/nothing" in problems[0]["message"]


@pytest.mark.parametrize(
    "value",
    [{}, {"modules": 5}, {"modules": [None]}, {"modules": [{"id": "a"}]}, {"modules": [{"value": []}]}],
)
def test_what_is_no_flow_is_a_problem_and_no_error(post, acme, value):
    assert post("check", {"value": value}).json()["problems"]


# --- drafts and deploying ---------------------------------------------------------------------------------------------


def test_a_draft_is_kept_moved_and_discarded(post, alice, acme):
    post("draft", {"path": "u/alice/one", "value": holds(code())})
    post("draft", {"path": "u/alice/two", "was": "u/alice/one", "value": holds(code()), "base": 7})

    assert drafts.get_draft(alice, "u/alice/one", kind="flow") is None
    assert drafts.get_draft(alice, "u/alice/two", kind="flow").base_hash == 7

    post("discard", {"path": "u/alice/two"})

    assert not Draft.objects.exists()


def test_a_draft_keeps_the_order_of_keys_so_that_it_compares_line_by_line(post, alice, acme):
    value = holds(code(zebra="1", a="2", middle="3"))

    post("draft", {"path": "u/alice/one", "value": value})

    assert json.dumps(drafts.get_draft(alice, "u/alice/one", kind="flow").value) == json.dumps(value)


def test_a_draft_of_a_flow_and_one_of_a_script_at_the_same_path_are_two(post, alice, acme):
    drafts.save_draft(alice, "u/alice/one", {"content": "x"}, base_hash=None)
    post("draft", {"path": "u/alice/one", "value": holds(code())})

    assert drafts.get_draft(alice, "u/alice/one").value == {"content": "x"}
    assert Draft.objects.count() == 2


def test_deploying_makes_the_flow_live_and_ends_the_draft(post, alice, acme):
    post("draft", {"path": "u/alice/pay", "value": holds(code())})

    value = holds(code(), summary="Pay", tag="", timeout=60, priority=5, labels=["money"])
    answer = post(
        "deploy", {"path": "u/alice/pay", "was": "", "base": None, "value": value, "message": "One"}
    )

    flow = Flow.objects.get(path="u/alice/pay")
    assert answer.json() == {"version": flow.version_id, "url": "/w/acme/flows/u/alice/pay/"}
    assert (flow.summary, flow.tag, flow.timeout, flow.priority, flow.labels) == (
        "Pay",
        None,
        60,
        5,
        ["money"],
    )
    assert FlowVersion.objects.get(pk=flow.version_id).deployment_message == "One"
    assert not Draft.objects.exists()


def test_a_flow_gets_a_dedicated_worker_and_loses_it_again(post, alice, acme):
    body = {"path": "u/alice/pay", "was": "", "message": ""}
    post("deploy", {**body, "base": None, "value": holds(code(), dedicated_worker=True)})
    first = Flow.objects.get(path="u/alice/pay")
    post("deploy", {**body, "base": first.version_id, "value": holds(code())})

    assert first.extra == {"dedicated_worker": True}
    assert Flow.objects.get(path="u/alice/pay").extra == {}


def test_deploying_again_keeps_what_the_editor_does_not_show(post, alice, bill):
    Flow.objects.update(visible_to_runner_only=True, extra={"ws_error_handler_muted": True})

    answer = post(
        "deploy",
        {
            "path": "f/shared/bill",
            "was": "f/shared/bill",
            "base": bill.pk,
            "value": holds(code("z")),
            "message": "",
        },
    )

    assert answer.status_code == 200
    flow = Flow.objects.get(path="f/shared/bill")
    assert flow.version_id > bill.pk
    assert flow.visible_to_runner_only and flow.extra == {"ws_error_handler_muted": True}


def test_who_was_slower_is_shown_the_other_version(post, alice, bill):
    other = deployed.FlowDraft(path="f/shared/bill", value={"modules": [code("theirs")]})
    newer = deployed.update_flow(alice, "f/shared/bill", other, deployment_message="Faster")

    answer = post(
        "deploy",
        {
            "path": "f/shared/bill",
            "was": "f/shared/bill",
            "base": bill.pk,
            "value": holds(code()),
            "message": "",
        },
    )

    assert answer.status_code == 409
    theirs = answer.json()
    assert theirs["head"]["version"] == newer.pk and theirs["message"] == "Faster"
    assert "id: theirs" in theirs["text"]
    assert Flow.objects.get(path="f/shared/bill").version_id == newer.pk


def test_a_flow_that_somebody_else_made_at_the_path_of_a_new_one_is_a_conflict(post, alice, bill):
    body = {"path": "f/shared/bill", "was": "", "base": None, "value": holds(code()), "message": ""}

    assert post("deploy", body).status_code == 409


def test_deploying_under_another_path_moves_the_flow(post, alice, bill):
    body = {
        "path": "f/shared/charge",
        "was": "f/shared/bill",
        "base": bill.pk,
        "value": holds(code()),
        "message": "",
    }

    assert post("deploy", body).status_code == 200
    assert list(Flow.objects.filter(archived=False).values_list("path", flat=True)) == ["f/shared/charge"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"value": holds(code(), timeout="soon")}, "timeout"),
        ({"value": holds(code(), labels="x")}, "labels"),
        ({"value": holds(code("a"), code("a"))}, "modules[1]"),
        ({"base": "seven"}, "base"),
        ({"path": "nowhere"}, "path"),
    ],
)
def test_what_cannot_be_deployed_is_refused_by_name(post, acme, change, named):
    body = {"path": "u/alice/one", "was": "", "base": None, "value": holds(code()), "message": ""}

    answer = post("deploy", body | change)

    assert answer.status_code == 400
    assert named in answer.content.decode().lower()
    assert not Flow.objects.exists()


@pytest.mark.parametrize("who", ["dave", "oscar"])
@pytest.mark.parametrize("word", ["deploy", "test", "step", "draft", "check", "yaml"])
def test_nobody_without_the_right_writes_through_the_editor(post, bill, who, word):
    body = {
        "path": "f/shared/bill",
        "was": "f/shared/bill",
        "base": bill.pk,
        "value": holds(code()),
        "message": "",
    }

    status = post(word, body, who=who).status_code

    # Developers may test code of their own and keep private drafts anywhere; operators may do none of it.
    assert status == 403 if who == "oscar" or word == "deploy" else status < 500
    assert Flow.objects.get(path="f/shared/bill").version_id == bill.pk


# --- YAML -------------------------------------------------------------------------------------------------------------


def test_yaml_goes_there_and_back(post, acme):
    value = holds(code("a", content="def main():\n    return 1\n"), summary="Pay: all")

    text = post("yaml", {"value": value}).json()["text"]
    back = post("yaml", {"text": text}).json()["value"]

    assert "def main():" in text
    assert back == value


@pytest.mark.parametrize(
    ("text", "line"), [("value:\n  modules:\n - [", 3), ("just text", 1), ("summary: x\n", None), ("", 1)]
)
def test_yaml_that_is_no_flow_names_its_line(post, acme, text, line):
    problem = post("yaml", {"text": text}).json()["problem"]

    assert problem["line"] == line
    assert problem["message"].endswith(".")


# --- testing ----------------------------------------------------------------------------------------------------------


def test_a_flow_is_tested_as_it_stands_in_the_editor(post, acme):
    body = {"path": "u/alice/pay", "value": {"modules": [code()]}, "args": {"n": 1}, "tag": ""}

    job = Job.objects.get(pk=post("test", body).json()["id"])

    assert (job.kind, job.runnable_path, job.args) == ("flowpreview", "u/alice/pay", {"n": 1})
    assert job.raw_flow["modules"][0]["id"] == "a"


def test_a_step_runs_alone_with_the_arguments_given(post, alice, bill, greet):
    inline = post("step", {"module": code(), "args": {"x": 2}, "path": "u/alice/pay"}).json()["id"]
    script = post("step", {"module": call_of("f/shared/greet"), "args": {"name": "ada"}}).json()["id"]
    flow = post("step", {"module": call_of("f/shared/bill", kind="flow"), "args": {"x": 1}}).json()["id"]

    assert Job.objects.get(pk=inline).raw_code.startswith("def main(x")
    assert Job.objects.get(pk=script).args == {"name": "ada"}
    assert Job.objects.get(pk=flow).kind == "flow"


def test_a_loop_does_not_run_alone(post, acme):
    answer = post(
        "step", {"module": {"id": "b", "value": {"type": "forloopflow", "modules": []}}, "args": {}}
    )

    assert answer.status_code == 400
    assert "up to here" in answer.content.decode()


def test_the_last_tests_are_those_of_this_person_at_this_path(post, get, acme):
    post("test", {"path": "u/alice/pay", "value": {"modules": [code()]}, "args": {}})
    post("test", {"path": "u/alice/other", "value": {"modules": [code()]}, "args": {}})
    post("test", {"path": "u/alice/pay", "value": {"modules": [code()]}, "args": {}}, who="dave")

    page = get("tests", path="u/alice/pay").content.decode()

    assert page.count("data-test=") == 1


# --- values of a test -------------------------------------------------------------------------------------------------


@pytest.fixture
def tested(post, acme) -> Callable[..., UUID]:
    """A test of a flow with `args`, whose steps returned `results`; lists of a loop's iterations as `loops`."""

    def tested(args: Any = None, loops: Any = None, **results: Any) -> UUID:
        body = {"path": "u/alice/pay", "value": {"modules": [code()]}, "args": args or {}}
        flow_id = UUID(post("test", body).json()["id"])
        for step, result in results.items():
            FlowStep.objects.create(
                flow_id=flow_id, step_id=step, status={}, result={"job": str(ran(result))}
            )
        for step, items in (loops or {}).items():
            for n, item in enumerate(items):
                FlowIteration.objects.create(flow_id=flow_id, step_id=step, n=n, job_id=ran(item))
            FlowStep.objects.create(
                flow_id=flow_id, step_id=step, status={}, result={"list": [str(flow_id), step, len(items)]}
            )
        return flow_id

    def ran(result: Any) -> UUID:
        job_id = uuid4()
        body = {"module": code(), "args": {}, "path": "u/alice/pay"}
        job_id = UUID(post("step", body).json()["id"])
        (claim,) = [c for c in queue.claim_jobs(worker="w1", tags=["python3"], limit=50) if c.id == job_id]
        completion = queue.Completion(claim.id, claim.attempt, JobStatus.SUCCESS, json.dumps(result))
        assert queue.complete_jobs([completion]) == {job_id}
        return job_id

    return tested


def test_values_are_shown_one_level_at_a_time(get, tested):
    job = tested(a={"rows": [{"id": 1, "name": "x" * 500}], "ok": True, "none": None})

    top = get("peek", job=str(job), root="step:a").json()
    row = get("peek", job=str(job), root="step:a", at='["rows", 0]').json()

    assert {item["key"]: item["type"] for item in top["items"]} == {
        "rows": "array",
        "ok": "boolean",
        "none": "null",
    }
    assert top["items"][0]["size"] == 1
    name = row["items"][1]
    assert (name["type"], name["size"], len(name["preview"])) == ("string", 500, peeking.PREVIEW + 2)
    assert "value" not in name


def test_arguments_of_the_test_are_values_too(get, tested):
    assert get("peek", job=str(tested(args={"n": 1})), root="args").json()["items"][0]["preview"] == "1"


def test_two_megabytes_arrive_in_small_pieces(get, tested):
    job = tested(a=[{"n": n, "text": "x" * 200} for n in range(10_000)])

    page = get("peek", job=str(job), root="step:a", offset=200)

    assert len(page.content) < 64_000
    assert page.json()["size"] == 10_000 and page.json()["more"]
    assert [item["key"] for item in page.json()["items"]][:2] == [200, 201]


def test_the_iterations_of_a_loop_are_a_list_whose_items_are_read_when_opened(get, tested):
    job = tested(loops={"b": [1, {"deep": "x" * 9000}]})

    items = get("peek", job=str(job), root="step:b").json()["items"]
    inside = get("peek", job=str(job), root="step:b", at="[1]").json()["items"]

    assert [(item["key"], item["type"]) for item in items] == [(0, "number"), (1, "large")]
    assert inside[0]["key"] == "deep"
    assert peeking.whole(job, "b")[0] == 1


@pytest.mark.parametrize(
    "query",
    [
        {"root": "step:nowhere"},
        {"root": "step:a", "at": '["x"]'},
        {"root": "step:a", "at": "[99]"},
        {"job": str(UUID(int=1))},
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(get, tested, query):
    job = tested(a=[1])

    answer = get("peek", **{"job": str(job), "root": "step:a"} | query)

    assert answer.status_code == 200
    assert answer.json()["problem"].endswith(".")


@pytest.mark.parametrize(
    "query",
    [
        {"job": "x"}, {"at": "{"}, {"at": "[" * 5000}, {"at": "[null]"}, {"at": '{"a": 1}'},
        {"offset": "x"}, {"offset": "-1"}, {"root": "x"}, {"at": json.dumps([0] * 99)},
    ],
)  # fmt: skip
def test_hostile_questions_are_refused(get, tested, query):
    assert get("peek", **{"job": str(tested(a=[1])), "root": "step:a"} | query).status_code == 400


def test_values_of_another_person_are_not_shown(get, tested):
    job = tested(a=[1])

    assert "problem" in get("peek", who="dave", job=str(job), root="step:a").json()


def test_inputs_are_worked_out_with_the_values_of_the_test(post, tested):
    job = tested(args={"n": 2}, a={"rows": [10, 20]})
    step = code(
        "b",
        x="results.a.rows[1]",
        y="flow_input.n * 2",
        z="previous_result.rows.length",
        v='variable("u/a/b")',
    )

    answer = post("inputs", {"job": str(job), "step": "b", "value": {"modules": [code("a"), step]}})

    assert answer.json() == {"args": {"x": 20, "y": 4, "z": 2, "v": "$var:u/a/b"}}


def test_an_expression_that_fails_is_named(post, tested):
    value = {"modules": [code("a", x="results.a.b.c.d()")]}

    answer = post("inputs", {"job": str(tested()), "step": "a", "value": value})

    assert answer.status_code == 400
    assert "Step a, input x" in answer.content.decode()


# --- scripts and flows to call ----------------------------------------------------------------------------------------


def test_scripts_and_flows_are_found_by_words(get, bill, greet):
    def found(kind: str, q: str, who: str = "alice") -> list[str]:
        return [item["path"] for item in get("find", who=who, kind=kind, q=q).json()["items"]]

    assert found("script", "greet") == ["f/shared/greet"]
    assert found("script", "somebody shared") == ["f/shared/greet"]
    assert found("script", "nobody") == []
    assert found("flow", "bill") == ["f/shared/bill"]
    assert get("find", kind="table", q="").status_code == 400


def test_only_what_one_may_read_is_found(get, alice, greet):
    enter(alice.workspace, "dave@example.com")
    deployed.create_flow(alice, deployed.FlowDraft(path="u/alice/secret", value={"modules": []}))

    assert get("find", who="dave", kind="flow", q="").json()["items"] == []
    assert get("callee", who="dave", kind="flow", path="u/alice/secret").status_code == 404


def test_what_a_step_calls_comes_with_its_inputs(get, bill, greet):
    script = get("callee", kind="script", path="f/shared/greet").json()
    flow = get("callee", kind="flow", path="f/shared/bill").json()

    assert script["schema"]["order"] == ["name", "times"]
    assert script["content"].startswith("def main(name")
    assert script["hash"] == script["headHash"] == greet.hash_hex
    assert flow["version"] == bill.pk


def test_a_pinned_version_has_to_be_one_of_its_path(get, greet):
    assert get("callee", kind="script", path="f/shared/greet", hash=greet.hash_hex).status_code == 200
    assert get("callee", kind="script", path="f/shared/greet", hash="00000000000000ff").status_code == 404
    assert get("callee", kind="script", path="f/shared/greet", hash="zz").status_code == 400
