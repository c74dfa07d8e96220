"""Every page, light and dark, wide and narrow: no axe finding, no console error, no sideways scroll, no secret.

Further pages join by an entry in PAGES: name -> address below /w/<workspace>/ ("/..." for one outside), and `filled`
makes the rows that they show.
"""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from jobs import runs, scripts, workspace_dependencies
from jobs.flows import deployed
from jobs.models import WorkerPing
from jobs.payloads import Payload
from tests.browser.site import Person
from workers.groups import configs as group_configs
from workspaces import folders, groups, resource_types, resources, tokens, variables
from workspaces.models import InstanceSetting

PAGES = {
    "home": "",
    "home filtered to nothing": "?q=nothing+has+this+name",
    "archive": "?archived=1",
    "flows": "?kind=flow",
    "flow": "flows/f/billing/onboard/",
    "step of a flow": "flows/f/billing/onboard/?#step-c",
    "form of a flow": "flows/f/billing/onboard/run/",
    "versions of a flow": "flows/f/billing/onboard/versions/",
    "move a flow": "move/flows/f/billing/onboard/",
    "import a flow": "flows/import/",
    "flow editor": "flows/f/billing/onboard/edit/",
    "new flow": "flows/new/",
    "runs with steps": "runs/?steps=1",
    "missing flow": "flows/f/billing/onbord/",
    "variables": "variables/",
    "variable form": "variables/?edit=f/billing/stripe_key",
    "new variable as a page": "variables/new/",
    "resources": "resources/",
    "resource form": "resources/?edit=f/billing/warehouse",
    "new resource": "resources/?new=1",
    "resource types": "resource-types/",
    "resource type as a page": "resource-types/c_warehouse/edit/",
    "dependency files": "dependencies/",
    "dependency file": "dependencies/python3/ml/",
    "new dependency file": "dependencies/new/?language=bun",
    "folders": "folders/",
    "folder": "folders/billing/",
    "new folder": "folders/?new=1",
    "groups": "groups/",
    "users": "users/",
    "workers": "workers/",
    "workers of a group": "workers/?group=gpu",
    "worker group": "workers/groups/gpu/",
    "worker group without configuration": "workers/groups/fresh/",
    "new worker group": "workers/new-group/",
    "custom tags": "workers/tags/",
    "new custom tag": "workers/tags/new/",
    "who asks for a tag": "workers/tags/uses/?tag=gpu",
    "account": "/account/",
    "password": "/account/password/",
    "tokens": "/account/tokens/",
    "workspaces": "/workspaces/",
    "new workspace": "/workspaces/new/",
    "missing page": "no/such/page/",
    "missing variable": "variables/f/billing/strpe_key/edit/",
}
WAREHOUSE = {
    "type": "object",
    "properties": {
        "host": {"type": "string", "description": "Name of the server"},
        "port": {"type": "integer", "default": 5432},
        "password": {"type": "string", "password": True},
    },
    "required": ["host", "password"],
}

ONBOARD = [
    {
        "id": "a",
        "summary": "Charge",
        "value": {"type": "script", "path": "f/billing/charge_card", "input_transforms": {}},
        "retry": {"constant": {"attempts": 2, "seconds": 1}},
    },
    {
        "id": "b",
        "value": {
            "type": "forloopflow",
            "iterator": {"type": "javascript", "expr": "[1, 2]"},
            "skip_failures": True,
            "modules": [
                {
                    "id": "c",
                    "value": {
                        "type": "rawscript",
                        "language": "python3",
                        "content": "def main(name: str): return name",
                        "input_transforms": {"name": {"type": "javascript", "expr": "flow_input.name"}},
                    },
                }
            ],
        },
    },
]


@pytest.fixture
def filled(ada: Person, member: Callable[..., Person]) -> Person:
    """A workspace with something on every page."""
    caller = ada.caller
    member("bob")
    member("cleo", operator=True)
    folders.create_folder(caller, name="billing", summary="Invoices and cards")
    groups.create_group(caller, name="finance", summary="People who see invoices")
    variables.create_variable(
        caller,
        path="f/billing/stripe_key",
        value="sk_live_hidden",
        is_secret=True,
        description="Live account",
        labels=["billing"],
    )
    variables.create_variable(caller, path="u/ada/region", value="eu-central-1 " * 20, is_secret=False)
    resource_types.create_resource_type(
        caller, name="c_warehouse", schema=WAREHOUSE, description="A warehouse"
    )
    resources.create_resource(
        caller,
        path="f/billing/warehouse",
        resource_type="c_warehouse",
        value={"host": "db.example.com", "port": 5432, "password": "plain_hidden"},
        labels=["billing"],
    )
    draft = scripts.ScriptDraft(
        path="f/billing/charge_card",
        content="def main(n: int = 1): return n",
        language="python3",
        summary="Charge a card",
        labels=["billing"],
    )
    script = scripts.deploy_script(caller, draft)
    reader = scripts.ScriptDraft(
        path="f/billing/forecast", content="# requirements: ml\n\ndef main(): ...", language="python3"
    )
    scripts.deploy_script(caller, reader)
    for name in ("", "ml"):
        workspace_dependencies.create(
            caller, language="python3", name=name, content="numpy==2.2.1\n", description="For forecasts"
        )
    for modules in (ONBOARD[:1], ONBOARD):
        flow = deployed.FlowDraft(
            path="f/billing/onboard",
            value={"modules": modules},
            schema={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            summary="Onboard a customer",
            description="Charges **once**.",
            labels=["billing"],
        )
        if deployed.flow_exists(caller, flow.path):
            deployed.update_flow(caller, flow.path, flow, deployment_message="For each card")
        else:
            deployed.create_flow(caller, flow)
    scripts.deploy_script(
        caller, scripts.ScriptDraft(path="u/ada/rotate", content="echo hi", language="bash")
    )
    runs.run_script(caller, script, Payload(args={}), runs.RunOptions(tag="nobody-listens"))
    tokens.create_token(ada.identity, label="Deploy from CI", scopes=["jobs:run:scripts:f/billing/*"])
    WorkerPing.objects.update_or_create(
        worker="wk-gpu-1",
        defaults={
            "worker_instance": "host1.example.com",
            "worker_group": "gpu",
            "state": "failed",
            "custom_tags": ["gpu", "python3", "bash", "go", "deno", "bun", "rust", "php"],
            "init_log": "E: Unable to locate package cuda",
            "occupancy_rate_15s": 0.5,
            "occupancy_rate_5m": 0.1,
            "wm_memory_usage": 10**8,
            "job_isolation": "none",
            "isolation_note": "No user namespaces here.",
        },
    )
    group_configs.update(
        name="gpu",
        config={
            "worker_tags": ["gpu", "python3"],
            "priority_tags": {"gpu": 50},
            "env_vars_static": {"API_KEY": "plain_hidden"},
            "autoscaling": {"enabled": False},
            "init_bash": "echo hi",
        },
        actor=ada.identity,
    )
    InstanceSetting.objects.update_or_create(
        pk="custom_tags", defaults={"value": ["gpu(acme+umbra)", "slow", "team-$workspace"]}
    )
    return ada


def open_page(page: Page, person: Person, address: str) -> str:
    """Open it, wait for the drawer when one opens by itself, answer the HTML that the server sent."""
    answer = page.goto(address if address.startswith("/") else person.url(address))
    assert answer is not None
    if "?new=" in address or "?edit=" in address:
        page.get_by_role("dialog").wait_for()
    return answer.text()


@pytest.mark.timeout(600)  # so many pages on a machine that does other things as well
@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_every_page_is_accessible_and_holds_no_secret(
    filled: Person, ada_page: Page, assert_accessible: Callable[[], None], width: str
) -> None:
    findings = {}
    for name, address in PAGES.items():
        served = open_page(ada_page, filled, address)

        for text in (served, ada_page.content()):
            assert "sk_live_hidden" not in text, address
            assert "plain_hidden" not in text, address
        try:
            assert_accessible()
        except AssertionError as exc:
            findings[name] = str(exc).splitlines()[0]

    assert not findings


def test_the_sign_in_page_is_accessible(
    site: object, page: Page, assert_accessible: Callable[[], None]
) -> None:
    page.goto("/login/")

    assert_accessible()
