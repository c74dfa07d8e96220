"""Flows: deploy versions, find them, archive and delete them. The only writer of the tables `flow` and `flow_version`.

A flow is one row at a path (settings, access rules) and a line of versions (what it does). Deploying makes a version,
makes it the live one and queues a job that adds the locks of inline scripts to it, all in one transaction.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast, Now

from jobs import queue, tags
from jobs.flows.value import FlowValue, RawScript, ScriptRef, fill_ids, parse_flow_value
from jobs.models import Draft, Flow, FlowVersion, JobKind, new_job_id
from jobs.scripts import MAX_TAG, MAX_TIMEOUT_S, checked_on_behalf_of, first_line_with
from workspaces import audit
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, Conflict, NotFound
from workspaces.jsontext import check_storable
from workspaces.labels import check_labels
from workspaces.models import ActionKind

SCOPE = "flows"
DRAFT = "flow"  # kind of drafts
DEPENDENCY_TAG = "dependency"

# Fields of Windmill's flows that are kept and given back as sent (`Flow.extra`), with the JSON types they may have.
EXTRA_FIELDS: dict[str, tuple[type, ...]] = {
    "dedicated_worker": (bool,),
    "on_behalf_of": (str,),
    "ws_error_handler_muted": (bool,),
}


@dataclass(frozen=True, kw_only=True)
class FlowDraft:
    """A flow as its author wants it. Checked by `create_flow` and `update_flow`."""

    path: str
    value: dict[str, Any]  # FlowValue (reference/flows.md section 2)
    summary: str = ""
    description: str = ""
    schema: dict[str, Any] | None = None  # JSON Schema of the inputs
    tag: str | None = None
    timeout_s: int | None = None
    priority: int | None = None  # 1..100
    visible_to_runner_only: bool | None = None
    on_behalf_of_email: str | None = None
    labels: list[str] | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # EXTRA_FIELDS


def create_flow(caller: Caller, draft: FlowDraft, *, deployment_message: str = "") -> FlowVersion:
    """Deploy a flow at a path that is free. An archived flow there comes back to life with this as its newest version.

    Raises BadRequest (a value, with its place in the flow), Conflict (the path is taken), PermissionDenied.
    """
    caller.require_new_path(draft.path, scope=SCOPE)
    settings, version = _checked(caller, draft)
    try:
        with transaction.atomic():
            flow = _locked(caller, draft.path)
            if flow is not None and not flow.archived:
                raise _taken(draft.path)
            if flow is not None:
                caller.require_write(flow.path, flow.extra_perms)
            return _deploy(caller, draft.path, flow, settings, version, deployment_message)
    except IntegrityError as exc:
        if "flow_once_a_path" not in str(exc):
            raise
        raise _taken(draft.path) from exc  # by a deployment at the same time


def update_flow(
    caller: Caller,
    path: str,
    draft: FlowDraft,
    *,
    base_version: int | None = None,
    deployment_message: str = "",
) -> FlowVersion:
    """Deploy a new version of the flow at `path`; another `draft.path` moves it there, with its history.

    `base_version` is the version that the author started from: when another one has been deployed since, nothing is
    written. None takes whatever is live. Raises NotFound, BadRequest, Conflict, PermissionDenied.
    """
    flow = get_newest(caller, path, right=Right.WRITE)
    if draft.path != path:
        caller.require_new_path(draft.path, scope=SCOPE)
    settings, version = _checked(caller, draft)
    try:
        with transaction.atomic():
            held = _locked(caller, path)
            if held is None or held.pk != flow.pk:
                raise _lost_race(path)
            if base_version is not None and held.version_id != base_version:
                raise Conflict(
                    f"version {held.version_id} of {path} was deployed since version {base_version}, which you started "
                    "from; load it and apply your change to it"
                )
            if draft.path != path:
                _move(caller, held, draft.path)
            return _deploy(caller, draft.path, held, settings, version, deployment_message)
    except IntegrityError as exc:
        if "flow_once_a_path" not in str(exc):
            raise
        raise _taken(draft.path) from exc  # by a deployment at the same time


def _locked(caller: Caller, path: str) -> Flow | None:
    """The row at `path`, archived or not, held until the end of the transaction: deployments go one after the other."""
    return Flow.objects.select_for_update().filter(workspace=caller.workspace, path=path).first()


def _taken(path: str) -> Conflict:
    return Conflict(f"a flow with path {path} exists already; update that one, or choose another path")


def _lost_race(path: str) -> Conflict:
    return Conflict(f"somebody changed {path} at the same time; load it and try again")


def _move(caller: Caller, flow: Flow, path: str) -> None:
    """The flow and its history go to another path; runs keep the path that they were started at."""
    there = _locked(caller, path)
    if there is not None:
        hint = "delete it first" if there.archived else "update that one"
        raise Conflict(
            f"{'an archived' if there.archived else 'a'} flow is at {path} already; {hint}, or choose another path"
        )
    Draft.objects.filter(workspace=caller.workspace, email=caller.email, kind=DRAFT, path=flow.path).delete()
    FlowVersion.objects.filter(workspace=caller.workspace, path=flow.path).update(path=path)


def _deploy(
    caller: Caller,
    path: str,
    flow: Flow | None,
    settings: dict[str, Any],
    version: dict[str, Any],
    deployment_message: str,
) -> FlowVersion:
    """Write the version, make it the live one, queue its dependency job. In the caller's transaction."""
    dependency_job = new_job_id()
    made = FlowVersion.objects.create(
        workspace=caller.workspace,
        path=path,
        created_by=caller.username,
        deployment_message=deployment_message[:10_000],
        dependency_job=dependency_job,
        **version,
    )
    head: dict[str, Any] = {
        "path": path,
        "version_id": made.pk,
        "edited_by": caller.username,
        "edited_at": Now(),
        "archived": False,
        **settings,
    }
    if flow is not None and flow.path != path:
        head["former_paths"] = [former for former in (flow.path, *flow.former_paths) if former != path]
    if flow is None:
        Flow.objects.create(workspace=caller.workspace, **head)
    else:
        Flow.objects.filter(pk=flow.pk).update(**head)
    Draft.objects.filter(workspace=caller.workspace, email=caller.email, kind=DRAFT, path=path).delete()
    queue.push_job(
        queue.JobRequest(
            job_id=dependency_job,
            workspace_id=caller.workspace_id,
            kind=JobKind.FLOW_DEPENDENCIES,
            runnable_id=made.pk,
            runnable_path=path,
            tag=tags.choose_tag(
                workspace_id=caller.workspace_id, asked=None, language=DEPENDENCY_TAG, args={}
            ),
            args={},
            created_by=caller.username,
            permissioned_as=caller.permissioned_as,
            permissioned_as_email=caller.email,
            trigger_kind=None,
        )
    )
    parameters = {"version": made.pk, "summary": settings["summary"][:200]}
    if flow is not None and flow.path != path:
        parameters["moved_from"] = flow.path
    audit.record(
        caller,
        "flows.update" if flow else "flows.create",
        ActionKind.UPDATE if flow else ActionKind.CREATE,
        resource=path,
        parameters=parameters,
    )
    made.refresh_from_db(fields=["created_at"])
    return made


def _checked(caller: Caller, draft: FlowDraft) -> tuple[dict[str, Any], dict[str, Any]]:
    """(columns of the flow, columns of the version). Raises BadRequest naming the field, or the place in the flow."""
    if draft.tag is not None and len(draft.tag) > MAX_TAG:
        raise BadRequest(f"tag is longer than {MAX_TAG} characters")
    tags.require_available(draft.tag, caller.workspace_id)
    if draft.timeout_s is not None and not 0 < draft.timeout_s <= MAX_TIMEOUT_S:
        raise BadRequest(f"timeout is {draft.timeout_s}; expected a number of seconds above 0")
    if draft.priority is not None and not 0 <= draft.priority <= 100:
        raise BadRequest(f"priority is {draft.priority}; expected 0 to 100")
    for name, value in draft.extra.items():
        if not isinstance(value, EXTRA_FIELDS[name]):
            expected = " or ".join(kind.__name__ for kind in EXTRA_FIELDS[name])
            raise BadRequest(f"{name} is a {type(value).__name__}; expected {expected}")
    check_storable([draft.value, draft.schema, draft.extra, draft.summary, draft.description])
    value = fill_ids(draft.value)
    _check_tags(parse_flow_value(value), caller.workspace_id)
    settings = {
        "summary": draft.summary,
        "description": draft.description,
        "tag": draft.tag,
        "timeout": draft.timeout_s,
        "priority": draft.priority,
        "visible_to_runner_only": draft.visible_to_runner_only,
        "on_behalf_of_email": checked_on_behalf_of(caller, draft.on_behalf_of_email),
        "labels": None if draft.labels is None else check_labels(draft.labels),
        "extra": draft.extra,
    }
    return settings, {"value": value, "schema": draft.schema}


def _check_tags(flow: FlowValue, workspace_id: str) -> None:
    """Raises BadRequest at the first step whose tag is reserved for other workspaces."""
    for place, module in flow.every_module():
        value = module.value
        asked = (
            value.tag
            if isinstance(value, RawScript)
            else value.tag_override
            if isinstance(value, ScriptRef)
            else None
        )
        try:
            tags.require_available(asked, workspace_id)
        except BadRequest as exc:
            raise BadRequest(f"{place}.value: {exc.message}") from exc


# --- reading ---


def _live(caller: Caller) -> QuerySet[Flow]:
    return Flow.objects.filter(workspace=caller.workspace, archived=False)


def get_flow(caller: Caller, path: str, *, right: Right = Right.READ) -> Flow:
    """The live flow at `path`. Raises NotFound, PermissionDenied."""
    return caller.get(_live(caller), path, right=right, what="flow", scope=SCOPE)


def get_newest(caller: Caller, path: str, *, right: Right = Right.READ) -> Flow:
    """The flow at `path`, archived or not: what a client compares with. Raises NotFound, PermissionDenied."""
    return caller.get(Flow.objects.all(), path, right=right, what="flow", scope=SCOPE)


def moved_to(caller: Caller, path: str) -> str | None:
    """Where the flow is that was at `path` and was moved; None when there is none that the caller may read."""
    rows = caller.readable(_live(caller), scope=SCOPE).filter(former_paths__contains=[path])
    return rows.order_by("-edited_at").values_list("path", flat=True).first()


def live_version(flow: Flow) -> FlowVersion:
    """What the flow does now."""
    return FlowVersion.objects.get(pk=flow.version_id)


def get_version(
    caller: Caller, version: int, *, right: Right = Right.READ, scope: str | None = SCOPE
) -> tuple[Flow, FlowVersion]:
    """One version, live or not, with the flow it belongs to. Raises NotFound, PermissionDenied."""
    found = FlowVersion.objects.filter(workspace=caller.workspace, pk=version).first()
    flow = None if found is None else Flow.objects.filter(workspace=caller.workspace, path=found.path).first()
    if found is None or flow is None or caller.right_on(flow.path, flow.extra_perms) < Right.READ:
        raise NotFound(
            f"flow version {version} does not exist in workspace {caller.workspace_id}, or you may not read it"
        )
    if scope is not None:
        caller.identity.require_scope(scope, "read" if right <= Right.READ else "write", flow.path)
    if right > Right.READ:
        caller.require_write(flow.path, flow.extra_perms, right=right)
    return flow, found


def get_to_run(
    caller: Caller, *, path: str | None = None, version: int | None = None
) -> tuple[Flow, FlowVersion]:
    """The flow and the version that a run of this path or version executes. The token needs jobs:run for it.

    Operators may. Raises NotFound (also archived flows by path), PermissionDenied.
    """
    if path is not None:
        flow = caller.get(_live(caller), path, what="flow")
        found = live_version(flow)
    else:
        assert version is not None
        flow, found = get_version(caller, version, scope=None)
    caller.identity.require_scope("jobs", "run", f"flows/{flow.path}")
    return flow, found


def flow_exists(caller: Caller, path: str) -> bool:
    """Is there a live flow at `path`, readable or not? Says whether the path is free; tells nothing else."""
    return _live(caller).filter(path=path).exists()


def list_flows(
    caller: Caller,
    *,
    show_archived: bool = False,
    created_by: str | None = None,
    path_start: str | None = None,
    path_exact: str | None = None,
    dedicated_worker: bool | None = None,
    label: str | None = None,
    order_desc: bool = True,
) -> QuerySet[Flow]:
    """The flows that the caller may read, lately edited first; with `show_archived` the archived ones instead."""
    rows = caller.readable(Flow.objects.filter(archived=show_archived), scope=SCOPE)
    for condition in (
        {} if created_by is None else {"edited_by": created_by},
        {} if path_start is None else {"path__startswith": path_start},
        {} if path_exact is None else {"path": path_exact},
        {} if label is None else {"labels__contains": [label]},
    ):
        rows = rows.filter(**condition)
    if dedicated_worker is not None:
        is_dedicated = Q(extra__contains={"dedicated_worker": True})
        rows = rows.filter(is_dedicated if dedicated_worker else ~is_dedicated)
    return rows.order_by(*(("-edited_at", "-id") if order_desc else ("edited_at", "id")))


def versions_of(flows: list[Flow]) -> dict[int, FlowVersion]:
    """The live versions of these flows by id, without what they do. One query."""
    rows = FlowVersion.objects.defer("value", "schema")
    return rows.in_bulk([flow.version_id for flow in flows])


def list_paths(caller: Caller) -> list[str]:
    """Every readable live path, in order."""
    return list(caller.readable(_live(caller), scope=SCOPE).order_by("path").values_list("path", flat=True))


def list_contents(caller: Caller) -> list[tuple[str, Any]]:
    """(path, value) of every readable live flow: what a search over code looks at."""
    flows = dict(caller.readable(_live(caller), scope=SCOPE).values_list("version_id", "path"))
    rows = FlowVersion.objects.filter(pk__in=flows).values_list("pk", "value")
    return sorted(((flows[pk], value) for pk, value in rows), key=lambda row: row[0])


def search_code(caller: Caller, text: str, *, limit: int) -> list[tuple[str, str, str]]:
    """(path, step id, line) of readable live flows whose inline code holds `text`, whatever its case: the first place."""
    flows = dict(caller.readable(_live(caller), scope=SCOPE).values_list("version_id", "path"))
    as_json = json.dumps(text)[1:-1]  # how it stands in the stored value
    rows = FlowVersion.objects.filter(pk__in=flows).annotate(text=Cast("value", TextField()))
    found = []
    for pk, value in rows.filter(text__icontains=as_json).order_by("path").values_list("pk", "value"):
        step = next(_steps_with(value, text), None)
        if step is not None:
            found.append((flows[pk], *step))
        if len(found) == limit:
            break
    return found


def _steps_with(value: Any, text: str) -> Iterator[tuple[str, str]]:
    """(step id, line) of the inline scripts that hold `text`."""
    for _, module in parse_flow_value(value).every_module():
        if isinstance(module.value, RawScript) and text.lower() in module.value.content.lower():
            yield module.id, first_line_with(module.value.content, text)


def history(caller: Caller, path: str) -> QuerySet[FlowVersion]:
    """All versions at `path`, newest first, without what they do. Raises NotFound."""
    get_newest(caller, path)
    rows = FlowVersion.objects.filter(workspace=caller.workspace, path=path).order_by("-id")
    return rows.defer("value", "schema")


# --- archive, delete, switches ---


def archive_flow(caller: Caller, path: str, *, archived: bool = True) -> None:
    """Take a flow out of use, or (`archived` false) back into it; its versions stay. NotFound, PermissionDenied."""
    flow = get_newest(caller, path, right=Right.WRITE)
    with transaction.atomic():
        Flow.objects.filter(pk=flow.pk).update(archived=archived)
        audit.record(
            caller,
            "flows.archive",
            ActionKind.DELETE if archived else ActionKind.UPDATE,
            resource=path,
            parameters={"archived": archived},
        )


def delete_flow(caller: Caller, path: str) -> None:
    """Forget a flow with all its versions and drafts. Admins only. Raises NotFound, PermissionDenied."""
    caller.require_admin()
    caller.identity.require_scope(SCOPE, "write", path)
    with transaction.atomic():
        deleted, _ = Flow.objects.filter(workspace=caller.workspace, path=path).delete()
        if not deleted:
            raise NotFound(f"flow {path[:255]} does not exist in workspace {caller.workspace_id}")
        FlowVersion.objects.filter(workspace=caller.workspace, path=path).delete()
        Draft.objects.filter(workspace=caller.workspace, kind=DRAFT, path=path).delete()
        audit.record(caller, "flows.delete", ActionKind.DELETE, resource=path)


def mute_error_handler(caller: Caller, path: str, *, muted: bool) -> None:
    """Switch the workspace's error handler off (or on) for a flow. Raises NotFound, PermissionDenied."""
    get_flow(caller, path, right=Right.WRITE)
    with transaction.atomic():
        flow = _locked(caller, path)
        if flow is None:
            raise _lost_race(path)
        flow.extra["ws_error_handler_muted"] = muted
        flow.save(update_fields=["extra"])
        audit.record(
            caller,
            "flows.update",
            ActionKind.UPDATE,
            resource=path,
            parameters={"ws_error_handler_muted": muted},
        )


def set_deployment_message(caller: Caller, version: int, message: str, *, path: str | None = None) -> None:
    """Say afterwards what a version changed. Raises NotFound, PermissionDenied."""
    _, found = get_version(caller, version, right=Right.WRITE)
    if path is not None and found.path != path:
        raise NotFound(f"flow version {version} is not at {path[:255]}")
    FlowVersion.objects.filter(pk=version).update(deployment_message=message[:10_000])


# --- the dependency job ---


def record_locks(version: int, *, value: dict[str, Any] | None, error_logs: str | None) -> None:
    """What the dependency job of a version found: its value with locks (None: unchanged), or what went wrong."""
    columns: dict[str, Any] = {"lock_error_logs": error_logs}
    if value is not None:
        columns["value"] = value
    FlowVersion.objects.filter(pk=version).update(**columns)
