"""What an approval asks for, as pages and programs are told. Reads only."""

import json
from dataclasses import replace
from typing import Any

from jobs import listings
from jobs.errors import JobNotFound
from jobs.flows import suspensions
from jobs.flows.suspensions import Standing, Suspension
from jobs.markup import render_markdown
from jobs.models import Job
from jobs.shapes import JobRow
from workspaces.access import Caller
from workspaces.errors import DomainError, NotSignedIn

MAX_DESCRIPTION = 64 * 1024  # characters of one that is no text
HIDDEN = "••••••"  # stands for passwords among the inputs
UNKNOWN = "unknown"  # stands for an approver without a name, as in flow_status


def approvers(found: Suspension) -> list[dict[str, Any]]:
    """[{resume_id, approver}] of the approvals so far."""
    return [
        {"resume_id": event.resume_id, "approver": event.approver or UNKNOWN}
        for event in found.events
        if event.approved
    ]


def flow_job(found: Suspension, *, caller: Caller | None) -> JobRow:
    """The flow job as a link shows it: without its result, and without passwords among its arguments.

    Raises NotSignedIn and PermissionDenied when the approval asks who gives it, JobNotFound.
    """
    if not suspensions.may_look(found, caller):
        raise suspensions.why_not(found, caller) or NotSignedIn(
            "sign in first: this approval asks who gives it"
        )
    row = listings.read_job(workspace_id=found.flow.workspace_id, job_id=found.flow.id, with_args=True)
    if row is None:
        raise JobNotFound(f"job {found.flow.id} was deleted")
    if row.args is None or not found.secret_inputs:
        return row
    args = json.loads(row.args) or {}
    return replace(
        row, args=json.dumps({**args, **{name: HIDDEN for name in found.secret_inputs & args.keys()}})
    )


def approval_info(found: Suspension, *, caller: Caller | None, by_link: bool) -> dict[str, Any]:
    """What an approval asks for, as `approval_info` answers it. The approver has a link, or is let in otherwise."""
    step = found.step
    asked = found.settings
    if by_link or caller is None:
        problem = suspensions.why_not(found, caller)
    else:
        problem = suspensions.why_not_without_link(found, caller)
    is_open = found.standing in (Standing.WAITING, Standing.AHEAD)
    # A link alone shows nothing of an approval that asks who gives it.
    may_look = not by_link or suspensions.may_look(found, caller)
    info: dict[str, Any] = {
        "flow_id": str(found.flow.id),
        "form_schema": form_schema(found) if may_look else None,
        "description": found.step_result.get("description") if may_look else None,
        "approval_conditions": found.conditions.to_json() if found.conditions.ask_who else None,
        "can_approve": is_open and problem is None,
        "user_auth_required": found.conditions.user_auth_required,
        "hide_cancel": asked.hide_cancel if asked is not None else None,
        "skin": "detailed",
        "step_summary": (step.summary or None) if step is not None else None,
        "flow_summary": found.flow_summary or None,
        "approvers": approvers(found),
    }
    return {name: value for name, value in info.items() if value is not None}


def described(found: Suspension) -> dict[str, str]:
    """What the step says about its approval: Markdown as `description_html`, other JSON as `description_text`."""
    description = found.step_result.get("description")
    if not description:
        return {}
    if isinstance(description, str):
        return {"description_html": render_markdown(description, below=2)}
    return {"description_text": json.dumps(description, indent=2, ensure_ascii=False)[:MAX_DESCRIPTION]}


def form_schema(found: Suspension) -> dict[str, Any] | None:
    """The JSON Schema of the payload, with the choices and defaults that the step returned (`enums`, `default_args`).

    None when the approval asks for nothing.
    """
    form = dict(found.settings.resume_form or {}) if found.settings is not None else {}
    schema = form.get("schema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict) or not properties:
        return None
    enums, defaults = found.step_result.get("enums"), found.step_result.get("default_args")
    filled: dict[str, Any] = {}
    for name, field in properties.items():
        field = dict(field) if isinstance(field, dict) else {}
        if isinstance(enums, dict) and isinstance(enums.get(name), list):
            field["enum"] = enums[name]
        if isinstance(defaults, dict) and name in defaults:
            field["default"] = defaults[name]
        filled[name] = field
    return schema | {"properties": filled}


def waiting_info(caller: Caller, job: JobRow) -> list[dict[str, Any]]:
    """What a run waits for, for its page: one entry for each approval in the flow job or below it, oldest first.

    `job` is a flow job that the caller may see. An entry:
        flow_id; step_id, job_id, step_summary (of the step); required, missing (counts); deadline (datetime);
        description_html (of Markdown) or description_text (JSON), when the step says something; form_schema or None;
        approvers [{resume_id, approver}]; hide_cancel; can_answer; why_not (sentence or ""); answered (by this caller)
    To answer: POST /w/<workspace>/runs/<job_id of the entry>/answer/ (jobs.views.approval.answer).
    """
    found = suspensions.waiting_in(Job.objects.defer("args", "raw_code").get(pk=job.id))
    return [_entry(caller, one) for one in found]


def _entry(caller: Caller, found: Suspension) -> dict[str, Any]:
    problem: DomainError | None = suspensions.why_not_without_link(found, caller)
    answered = any(event.approver == caller.username for event in found.events)
    asked = found.settings
    return {
        "flow_id": str(found.flow.id),
        "job_id": str(found.step_job or found.flow.id),
        "step_id": found.step.id if found.step is not None else found.step_id,
        "step_summary": (found.step.summary or "") if found.step is not None else "",
        "required": found.required,
        "missing": found.missing,
        "deadline": found.deadline,
        "hide_cancel": asked.hide_cancel if asked is not None else False,
        **described(found),
        "form_schema": form_schema(found),
        "approvers": approvers(found),
        "can_answer": problem is None and not answered,
        "why_not": problem.message if problem is not None else "",
        "answered": answered,
    }
