"""Demo data for every page: people, scripts, flows, secrets, resources and runs in a workspace to try things out in."""

from pathlib import Path
from typing import Any

from django.db import transaction

from jobs import flow_runs, runs, scripts
from jobs.flows import deployed
from jobs.flows.importing import flow_from_text
from jobs.models import Job, JobKind, Script
from jobs.payloads import Payload
from workspaces import folders, groups, resources, variables
from workspaces.access import Caller, Identity, enter_workspace
from workspaces.models import Account, Folder, Group, Member, Resource, Variable, Workspace
from workspaces.workspaces import create_workspace

WORKSPACE = "demo"
PASSWORD = "windmill-demo"  # of the demo people; they exist only where somebody ran the seed
PEOPLE = {"ada": "developer", "olga": "operator"}

_HERE = Path(__file__).parent
_SCRIPTS = _HERE / "scripts"
# path, file, language, summary, tag, labels
SCRIPTS: tuple[tuple[str, str, str, str, str | None, list[str]], ...] = (
    (
        "f/sales/sales_by_region",
        "sales_by_region.py",
        "python3",
        "Sales by region from a CSV",
        None,
        ["report"],
    ),
    ("f/sales/weekly_report", "weekly_report.py", "python3", "Weekly report", None, ["report"]),
    ("f/ops/import_contacts", "import_contacts.py", "python3", "Import contacts", None, []),
    ("f/ops/backfill", "backfill.py", "python3", "Backfill in batches", None, ["slow"]),
    ("f/ops/disk_usage", "disk_usage.sh", "bash", "Largest folders", None, []),
    ("f/ops/train_model", "weekly_report.py", "python3", "Train the model on a GPU worker", "gpu", ["slow"]),
)

# path, file; those that others run come first
FLOWS: tuple[tuple[str, str], ...] = (
    ("f/sales/region_reports", "region_reports.yaml"),
    ("f/sales/weekly_digest", "weekly_digest.yaml"),
    ("f/ops/nightly_checks", "nightly_checks.yaml"),
    ("f/ops/clean_up", "clean_up.yaml"),
    ("f/ops/import_with_care", "import_with_care.yaml"),
    ("f/ops/month_end", "month_end.yaml"),
)


def seed(admin: Account) -> int:
    """Fill workspace `demo`; what exists stays as it is. Answers how many runs were queued."""
    identity = Identity(email=admin.email, super_admin=True, account=admin)
    with transaction.atomic():
        if not Workspace.objects.filter(pk=WORKSPACE).exists():
            create_workspace(identity, id=WORKSPACE, name="Demo company", username="admin", color="#2b5bd0")
        _add_people()
        caller = enter_workspace(identity, WORKSPACE)
        _add_assets(caller)
        made = [_deploy(caller, *entry) for entry in SCRIPTS]
        for path, file in FLOWS:
            _deploy_flow(caller, path, file)
    if Job.objects.filter(workspace_id=WORKSPACE).exclude(kind=JobKind.FLOW_DEPENDENCIES).exists():
        return 0
    by_path = {script.path: script for script in made}
    plan: list[tuple[str, dict[str, Any]]] = [
        *[("f/sales/sales_by_region", {}) for _ in range(6)],
        *[("f/sales/weekly_report", {"week": week}) for week in range(44, 48)],
        ("f/ops/import_contacts", {}),
        ("f/ops/import_contacts", {"contacts": [{"name": "Ada", "email": "ada@example.com"}]}),
        ("f/ops/disk_usage", {"place": "/usr", "count": "8"}),
        ("f/ops/backfill", {"batches": 240}),
        ("f/ops/train_model", {}),
    ]
    for path, args in plan:
        runs.run_script(caller, by_path[path], Payload(args=args), runs.RunOptions(trigger_kind="ui"))
    flow_plan: list[tuple[str, dict[str, Any]]] = [
        ("f/sales/region_reports", {"minimum": 50, "week": 46}),
        ("f/sales/region_reports", {"minimum": 50, "week": 47}),
        ("f/sales/weekly_digest", {"audience": "managers", "week": 47}),
        ("f/sales/weekly_digest", {"audience": "everybody", "week": 47}),
        ("f/ops/nightly_checks", {}),
        ("f/ops/clean_up", {"place": "/usr"}),
        (
            "f/ops/import_with_care",
            {"contacts": [{"name": "Ada", "email": "ada@example.com"}, {"name": "Bob"}]},
        ),
        ("f/ops/import_with_care", {"contacts": [{"name": "Ada", "email": "ada@example.com"}]}),
        ("f/ops/month_end", {"week": 48}),
    ]
    for path, args in flow_plan:
        flow, version = deployed.get_to_run(caller, path=path)
        flow_runs.run_flow(caller, flow, version, Payload(args=args), runs.RunOptions(trigger_kind="ui"))
    return len(plan) + len(flow_plan)


def _add_people() -> None:
    workspace = Workspace.objects.get(pk=WORKSPACE)
    for username, role in PEOPLE.items():
        account, made = Account.objects.get_or_create(
            pk=f"{username}@example.com", defaults={"name": username.title()}
        )
        if made:
            account.set_password(PASSWORD)
            account.save(update_fields=["password"])
        Member.objects.get_or_create(
            workspace=workspace,
            email=account.email,
            defaults={"username": username, "operator": role == "operator"},
        )


def _add_assets(caller: Caller) -> None:
    for name, summary in (("sales", "Reports for the sales team"), ("ops", "Keeping things running")):
        if not Folder.objects.filter(workspace=caller.workspace, name=name).exists():
            folders.create_folder(
                caller, name=name, summary=summary, extra_perms={"g/all": False, "u/ada": True}
            )
    if not Group.objects.filter(workspace=caller.workspace, name="analysts").exists():
        groups.create_group(caller, name="analysts", summary="People who read the numbers")
        groups.add_to_group(caller, "analysts", username="ada")
    for path, value, is_secret, description in (
        ("f/sales/currency", "EUR", False, "Currency of all reports"),
        ("f/ops/warehouse_password", "correct-horse-battery", True, "Password of the warehouse database"),
    ):
        if not Variable.objects.filter(workspace=caller.workspace, path=path).exists():
            variables.create_variable(
                caller, path=path, value=value, is_secret=is_secret, description=description
            )
    if not Resource.objects.filter(workspace=caller.workspace, path="f/ops/warehouse").exists():
        resources.create_resource(
            caller,
            path="f/ops/warehouse",
            resource_type="postgresql",
            description="Warehouse database",
            value={
                "host": "warehouse.example.com",
                "port": 5432,
                "user": "reports",
                "dbname": "warehouse",
                "sslmode": "require",
                "password": "$var:f/ops/warehouse_password",
            },
        )


def _deploy(
    caller: Caller, path: str, file: str, language: str, summary: str, tag: str | None, labels: list[str]
) -> Script:
    draft = scripts.ScriptDraft(
        path=path,
        content=(_SCRIPTS / file).read_text(),
        language=language,
        summary=summary,
        tag=tag,
        labels=labels,
    )
    return scripts.deploy_script(
        caller, draft, auto_parent=True, skip_if_noop=True, deployment_message="Demo data"
    )


def _deploy_flow(caller: Caller, path: str, file: str) -> None:
    if deployed.flow_exists(caller, path):
        return
    found = flow_from_text((_HERE / "flows" / file).read_text())
    draft = deployed.FlowDraft(
        path=path,
        value=found["value"],
        schema=found["schema"],
        summary=found["summary"],
        description=found.get("description", ""),
        labels=found.get("labels"),
    )
    deployed.create_flow(caller, draft, deployment_message="Demo data")
