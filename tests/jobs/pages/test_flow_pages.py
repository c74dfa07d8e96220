"""A flow's pages: overview, run form, versions, export and import; archive, restore, move."""

from html import unescape

import pytest

from jobs.flows import deployed
from jobs.models import Draft, Flow, FlowVersion, Job, JobKind
from tests.jobs.pages.test_runs_page import queries_of
from workspaces import folders

AT = "flows/f/shared/onboard/"
URL = f"/w/acme/{AT}"
CODE = 'def main(name: str):\n    return f"hello {name}"\n'
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "times": {"type": "integer", "default": 1}},
    "required": ["name"],
    "order": ["name", "times"],
}


def step(id, expr="flow_input.name", **options):
    transforms = {"name": {"type": "javascript", "expr": expr}}
    value = {"type": "rawscript", "language": "python3", "content": CODE, "input_transforms": transforms}
    return {"id": id, "value": value, **options}


def call(id, path):
    return {"id": id, "value": {"type": "script", "path": path, "input_transforms": {}}}


def flow(*modules, path="f/shared/onboard", **settings):
    return deployed.FlowDraft(
        path=path, value={"modules": list(modules)}, schema=SCHEMA, **{"summary": "Onboard", **settings}
    )


@pytest.fixture
def onboard(alice) -> Flow:
    """A flow of two steps in a folder that everybody may read and dave may not write."""
    folders.create_folder(alice, name="shared", extra_perms={"g/all": False})
    draft = flow(step("a"), call("b", "f/shared/greet"), description="Says **hello**. <script>no</script>")
    deployed.create_flow(alice, draft, deployment_message="First version")
    return Flow.objects.get()


def redeploy(alice, *modules):
    return deployed.update_flow(alice, "f/shared/onboard", flow(*modules), deployment_message="Another one")


def live_value():
    flow = Flow.objects.get(archived=False)
    return FlowVersion.objects.get(pk=flow.version_id).value


# --- overview ---------------------------------------------------------------------------------------------------------


def test_the_overview_shows_steps_inputs_callees_and_how_to_call_it(browser_of, onboard):
    served = browser_of("alice").get(URL)

    text = unescape(served.content.decode())
    assert "Says <strong>hello</strong>." in text
    assert "<script>no" not in served.content.decode()
    assert served.context["step_count"] == 2
    assert 'href="/w/acme/scripts/f/shared/greet/"' in text
    for way in ("/jobs/run/f/f/shared/onboard", "/jobs/run_wait_result/f/f/shared/onboard", "run_flow_async"):
        assert way in text
    assert '{"name": "text", "times": 1}' in text


def test_the_overview_costs_at_most_twelve_queries(browser_of, onboard):
    browser = browser_of("alice")

    assert queries_of(lambda: browser.get(URL)) <= 12


def test_the_overview_says_how_its_dependencies_fare(browser_of, onboard):
    version = FlowVersion.objects.get()
    waiting = browser_of("dave").get(URL).content.decode()
    deployed.record_locks(version.pk, value=None, error_logs="no such package: nope")

    failed = browser_of("dave").get(URL).content.decode()

    assert "are being resolved" in waiting
    assert "no such package: nope" in failed


def test_who_may_only_read_a_flow_is_offered_no_changes(browser_of, onboard):
    for name in ("dave", "oscar"):
        text = browser_of(name).get(URL).content.decode()

        assert 'href="run/"' in text
        assert "/export/" in text
        for change in ('href="edit/"', "/archive/", "/move/"):
            assert change not in text


def test_a_missing_flow_suggests_similar_paths(browser_of, onboard):
    answer = browser_of("alice").get("/w/acme/flows/f/shared/onbord/")

    assert answer.status_code == 404
    assert "f/shared/onboard" in answer.content.decode()


# --- archive, move ----------------------------------------------------------------------------------------------------


def test_archiving_takes_a_flow_out_of_use_and_restoring_brings_it_back(browser_of, onboard):
    browser = browser_of("alice")

    browser.post(f"/w/acme/archive/{AT}")
    archived = browser.get(URL).content.decode()
    form = browser.get(f"{URL}run/")
    browser.post(f"/w/acme/restore/{AT}")

    assert "Bring it back" in archived
    assert form.status_code == 404
    assert not Flow.objects.get().archived
    assert FlowVersion.objects.count() == 1


def test_a_flow_moves_with_its_versions_and_every_old_address_leads_to_it(browser_of, onboard):
    browser = browser_of("alice")

    browser.post(f"/w/acme/move/{AT}", {"owner": "u/alice", "name": "one"})
    answer = browser.post("/w/acme/move/flows/u/alice/one/", {"owner": "u/alice", "name": "two"})

    assert answer.headers["Location"] == "/w/acme/flows/u/alice/two/"
    for old in (URL, "/w/acme/flows/u/alice/one/"):
        assert browser.get(old).headers["Location"] == "/w/acme/flows/u/alice/two/"
    assert set(FlowVersion.objects.values_list("path", flat=True)) == {"u/alice/two"}
    assert FlowVersion.objects.order_by("pk").last().deployment_message == "Moved from u/alice/one"


def test_the_old_address_tells_nothing_to_those_who_may_not_read_the_new_one(browser_of, onboard):
    browser_of("alice").post(f"/w/acme/move/{AT}", {"owner": "u/alice", "name": "mine"})

    assert browser_of("dave").get(URL).status_code == 404


def test_a_path_that_is_taken_comes_back_with_the_form(browser_of, alice, onboard):
    deployed.create_flow(alice, flow(step("a"), path="u/alice/other"))

    answer = browser_of("alice").post(f"/w/acme/move/{AT}", {"owner": "u/alice", "name": "other"})

    assert answer.status_code == 422
    assert "choose another path" in answer.content.decode()


@pytest.mark.parametrize("deed", ["archive", "restore", "move"])
def test_readers_and_operators_cannot_change_a_flow(browser_of, onboard, deed):
    for name in ("dave", "oscar"):
        answer = browser_of(name).post(f"/w/acme/{deed}/{AT}", {"version": onboard.version_id})

        assert answer.status_code == 403
    assert Flow.objects.get(path=onboard.path).version_id == onboard.version_id


# --- the form ---------------------------------------------------------------------------------------------------------


def test_the_form_runs_the_flow_and_goes_to_its_run(browser_of, onboard):
    answer = browser_of("oscar").post(f"{URL}run/", {"args": '{"name": "ada", "times": 2}'})

    job = Job.objects.get(kind=JobKind.FLOW)
    assert answer.headers["Location"] == f"/w/acme/runs/{job.id}/"
    assert (job.args, job.trigger_kind, job.created_by) == ({"name": "ada", "times": 2}, "ui", "oscar")
    assert job.runnable_id == onboard.version_id


@pytest.mark.parametrize(
    ("args", "message"), [("{}", "This field is required."), ('["ada"]', "The arguments should be an object")]
)
def test_wrong_inputs_come_back_with_the_form_and_nothing_runs(browser_of, onboard, args, message):
    answer = browser_of("alice").post(f"{URL}run/", {"args": args})

    assert answer.status_code == 422
    assert message in unescape(answer.content.decode())
    assert not Job.objects.filter(kind=JobKind.FLOW).exists()


def test_recent_inputs_are_offered_and_the_address_prefills_the_form(browser_of, onboard):
    browser = browser_of("alice")
    browser.post(f"{URL}run/", {"args": '{"name": "grace"}'})

    page = browser.get(f"{URL}run/", {"name": "ada", "times": "5"})

    assert page.context["recent_args"] == [{"name": "grace"}]
    assert page.context["args"] == {"name": "ada", "times": 5}


# --- versions ---------------------------------------------------------------------------------------------------------


def test_any_two_versions_compare_as_yaml(browser_of, alice, onboard):
    second = redeploy(alice, step("a"))

    page = browser_of("dave").get(f"{URL}versions/")

    assert (page.context["before"].key, page.context["after"].key) == (
        str(onboard.version_id),
        str(second.pk),
    )
    assert "path: f/shared/greet" in page.context["before"].text
    assert "path: f/shared/greet" not in page.context["after"].text
    assert "Restore" not in page.content.decode()


def test_restoring_deploys_the_old_version_as_a_new_one(browser_of, alice, onboard):
    was = live_value()
    redeploy(alice, step("a"))

    browser_of("alice").post(f"/w/acme/restore/{AT}", {"version": onboard.version_id})

    assert live_value() == was
    assert FlowVersion.objects.order_by("pk").last().deployment_message == f"Restored v{onboard.version_id}"


@pytest.mark.parametrize("chosen", ["zzz", "999999", "99999999999999999999", "²", "' OR 1=1"])
def test_a_version_that_is_none_is_refused(browser_of, onboard, chosen):
    assert browser_of("alice").get(f"{URL}versions/", {"to": chosen}).status_code in (400, 404)


def test_a_version_of_another_flow_is_none_of_this_one(browser_of, alice, onboard):
    other = deployed.create_flow(alice, flow(step("a"), path="u/alice/other"))

    assert browser_of("alice").get(f"{URL}versions/", {"to": other.pk}).status_code == 404


# --- as text ----------------------------------------------------------------------------------------------------------


def test_an_export_imported_elsewhere_is_the_same_flow_as_a_draft(browser_of, onboard):
    browser = browser_of("alice")
    exported = browser.get(f"/w/acme/export/{AT}", {"download": "1"})

    answer = browser.post(
        "/w/acme/flows/import/", {"owner": "u/alice", "name": "copy", "text": exported.content.decode()}
    )

    assert exported.headers["Content-Disposition"] == 'attachment; filename="onboard.flow.yaml"'
    assert answer.headers["Location"] == "/w/acme/flows/u/alice/copy/edit/"
    draft = Draft.objects.get(path="u/alice/copy", kind="flow")
    assert (draft.value["value"], draft.value["schema"]) == (live_value(), SCHEMA)
    assert Flow.objects.count() == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"text": "modules: [{value: {type: nonsense}}]"}, "modules[0]"),
        ({"text": "a: ["}, "column"),
        ({"text": "summary: x"}, "value.modules is missing"),
        ({"name": "onboard", "owner": "f/shared", "text": "modules: []"}, "has a flow already"),
        ({"name": "edit", "text": "modules: []"}, "edit"),
    ],
)
def test_what_cannot_be_imported_comes_back_with_the_reason(browser_of, onboard, data, message):
    answer = browser_of("alice").post(
        "/w/acme/flows/import/", {"owner": "u/alice", "name": "copy", "text": "modules: []", **data}
    )

    assert answer.status_code == 422
    assert message in unescape(answer.content.decode())
    assert not Draft.objects.exists()
