"""Running things: from a caller's wish to a job in the queue. Every way to start a job ends here.

Rights: reading a script is the right to run it, for operators too; previews (code of one's own) are for developers.
A job runs with its caller's rights, or with those of the script's `on_behalf_of_email`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import canceling, cleanup, concurrency, queue, scripts, tags, wakeups
from jobs.dedicated import Dedicated, is_dedicated
from jobs.errors import JobNotFound, QueueTooLong
from jobs.flows.state import initial_state
from jobs.flows.value import BadFlow, parse_flow_value
from jobs.listings import ANONYMOUS, JobFilters, get_job, list_job_ids, token_may_run
from jobs.models import (
    ALL_LANGUAGES,
    Job,
    JobKind,
    JobProgress,
    Script,
    new_job_id,
)
from jobs.payloads import Payload
from jobs.shapes import JobRow
from workspaces import audit
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, PermissionDenied
from workspaces.models import Account, ActionKind, Member

MAX_SCHEDULED_S = 10 * 365 * 86_400
MAX_PREVIEW_PATH = 255
FLOW_TAG = "flow"  # unless the run or the flow asks for another
MAX_BATCH = 10_000  # jobs one request may cancel, rerun or delete


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run it. All are optional."""

    job_id: UUID | None = None  # must be new
    parent_job: UUID | None = None
    root_job: UUID | None = None
    scheduled_for: datetime | None = None
    scheduled_in_s: float | None = None
    tag: str | None = None
    timeout_s: int | None = None
    visible_to_owner: bool = True  # False: hidden from those who own or read the script's path
    skip_preprocessor: bool = False
    trigger_kind: str | None = None
    priority: int | None = None  # 0..100, over what the script or flow says
    queue_limit: int | None = None  # refuse when more jobs than this wait in the workspace
    retry: dict[str, Any] | None = (
        None  # scripts: what a flow module says about it (reference/flows.md section 5)
    )


@dataclass(frozen=True, kw_only=True)
class Preview:
    """Code to run without deploying it; without `content`, a deployed script by path or hash."""

    content: str | None = None
    lock: str | None = None  # of `content`; None: found out when it runs
    language: str | None = None
    path: str | None = None
    script_hash: int | None = None
    args: dict[str, Any] = field(default_factory=dict)
    tag: str | None = None


def run_script(caller: Caller, script: Script, payload: Payload, options: RunOptions) -> UUID:
    """Queue a run of this version (found by `scripts.get_to_run`), answer the job's id.

    With `options.retry` the job is a flow with this script as its only step.
    Raises BadRequest (options), JobIdTaken, QueueTooLong.
    """
    wants_preprocessor = (
        script.has_preprocessor and not options.skip_preprocessor and payload.event is not None
    )
    args = {"event": payload.event} if wants_preprocessor else payload.args
    permissioned_as, email = runs_as(caller, script.on_behalf_of_email, path=script.path)
    request = queue.JobRequest(
        workspace_id=caller.workspace_id,
        kind=JobKind.SCRIPT,
        runnable_id=script.hash,
        runnable_path=script.path,
        language=script.language,
        tag=_tag_of(script, options, args),
        args=args,
        created_by=caller.username,
        permissioned_as=permissioned_as,
        permissioned_as_email=email,
        timeout_s=shorter(options.timeout_s, script.timeout),
        priority=script.priority or 0,
        visible_to_owner=options.visible_to_owner and not script.visible_to_runner_only,
        preprocessed=False if wants_preprocessor else None,
    )
    if options.retry is not None:
        request = _with_retries(request, script, options)
    else:
        request = replace(request, **_script_limits(script, args))
    return push(caller, request, options, operation="jobs.run.script")


def _tag_of(script: Script, options: RunOptions, args: dict[str, Any]) -> str:
    if is_dedicated(script.extra):
        return Dedicated(script.workspace_id, script.path).tag
    return tags.choose_tag(
        workspace_id=script.workspace_id,
        asked=options.tag or script.tag,
        language=script.language,
        args=args,
    )


def _with_retries(request: queue.JobRequest, script: Script, options: RunOptions) -> queue.JobRequest:
    """The same run as a flow of one step, which starts again when it fails. Raises BadRequest."""
    has_event = request.preprocessed is False
    names = ((script.schema or {}).get("properties") or {}) if has_event else request.args
    this = {"type": "script", "path": script.path, "hash": script.hash_hex}
    modules: dict[str, Any] = {
        "modules": [
            {"id": "a", "value": {**this, "input_transforms": _passed_on(names)}, "retry": options.retry}
        ]
    }
    if has_event:
        modules["preprocessor_module"] = {
            "id": "preprocessor",
            "value": {**this, "input_transforms": _passed_on(["event"])},
        }
    try:
        value = parse_flow_value(modules)
    except BadFlow as exc:
        problems = "; ".join(f"{place.removeprefix('modules[0].')}: {what}" for place, what in exc.problems)
        raise BadRequest(f"query: {problems}") from exc
    return replace(
        request,
        kind=JobKind.SINGLE_STEP_FLOW,
        language=None,
        raw_flow=modules,
        flow_state=initial_state(value, preprocess=has_event),
        tag=tags.choose_tag(
            workspace_id=request.workspace_id,
            # The tag of a dedicated script is for its attempts.
            asked=options.tag or (None if is_dedicated(script.extra) else script.tag),
            language=FLOW_TAG,
            args=request.args,
        ),
        timeout_s=options.timeout_s,  # the script's own is that of each attempt
    )


def _script_limits(script: Script, args: dict[str, Any]) -> dict[str, Any]:
    """What the script says about its runs as a whole, as fields of a JobRequest."""
    limit = concurrency.limit_of_extra(
        script.extra, workspace_id=script.workspace_id, kind="script", path=script.path, args=args
    )
    return {
        "cache_ttl_s": script.extra.get("cache_ttl"),
        "delete_after_s": cleanup.delay_of_extra(script.extra),
        **(limit.request_fields() if limit is not None else {}),
    }


def _passed_on(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"type": "javascript", "expr": f"flow_input[{json.dumps(name)}]"} for name in names}


def run_preview(caller: Caller, preview: Preview, options: RunOptions) -> UUID:
    """Queue code as it is written, answer the job's id. Not for operators.

    Raises BadRequest (no code, unknown language, options), NotFound, PermissionDenied.
    """
    caller.require_not_operator()
    # Code of one's own at the path of a script is not that script: a token limited to scripts runs no previews.
    caller.identity.require_scope("jobs", "run", "preview")
    content, lock, language, path = preview.content, preview.lock, preview.language, preview.path or None
    if content is None:
        if preview.path is None and preview.script_hash is None:
            raise BadRequest(
                "content is missing; send the code to run, or the path or script_hash of a deployed script"
            )
        script = scripts.get_to_run(
            caller, path=preview.path if preview.script_hash is None else None, hash=preview.script_hash
        )
        content, lock, language, path = script.content, script.lock, script.language, script.path
    if language not in ALL_LANGUAGES:
        raise BadRequest(
            f"language {str(language)[:40]!r} is unknown; expected one of {', '.join(ALL_LANGUAGES)}"
        )
    if len(content) > scripts.MAX_CONTENT:
        raise BadRequest(f"content has {len(content)} characters; at most {scripts.MAX_CONTENT} fit")
    if path is not None and len(path) > MAX_PREVIEW_PATH:
        raise BadRequest(f"path is longer than {MAX_PREVIEW_PATH} characters")
    request = queue.JobRequest(
        workspace_id=caller.workspace_id,
        kind=JobKind.PREVIEW,
        raw_code=content,
        raw_lock=lock,
        runnable_path=path,
        language=language,
        tag=tags.choose_tag(
            workspace_id=caller.workspace_id,
            asked=options.tag or preview.tag,
            language=language,
            args=preview.args,
        ),
        args=preview.args,
        created_by=caller.username,
        permissioned_as=caller.permissioned_as,
        permissioned_as_email=caller.email,
        timeout_s=options.timeout_s,
        # Anybody may name any path; only at a path of one's own does the run show up in the lists of others.
        visible_to_owner=options.visible_to_owner
        and path is not None
        and caller.right_on(path) >= Right.READ,
    )
    return push(caller, request, options, operation="jobs.run.preview")


def push(caller: Caller, request: queue.JobRequest, options: RunOptions, *, operation: str) -> UUID:
    """Queue what `request` describes: when, where and under which id, `options` say.

    Raises BadRequest, JobIdTaken, QueueTooLong.
    """
    _check_options(options)
    if options.queue_limit is not None:
        _check_queue_limit(caller, options.queue_limit)
    parent_job, root_job = _ancestors(caller, options)
    if request.flow_state is not None:
        root_job = None  # a flow is the top of its own tree, whoever started it: its steps find what they share by it
    job_id = options.job_id or new_job_id()
    request = replace(
        request,
        job_id=job_id,
        parent_job=parent_job,
        root_job=root_job,
        trigger_kind=options.trigger_kind,
        priority=request.priority if options.priority is None else options.priority,
        scheduled_for=options.scheduled_for,
        scheduled_in_s=options.scheduled_in_s,
        audit=audit.columns(
            caller,
            operation,
            ActionKind.EXECUTE,
            resource=request.runnable_path,
            parameters={"job": str(job_id), "permissioned_as": request.permissioned_as},
        ),
    )
    return queue.push_job(request)


def _check_options(options: RunOptions) -> None:
    if options.scheduled_for is not None and options.scheduled_in_s is not None:
        raise BadRequest("scheduled_for and scheduled_in_secs exclude each other; send one of them")
    if options.scheduled_in_s is not None and not 0 <= options.scheduled_in_s <= MAX_SCHEDULED_S:
        raise BadRequest(f"scheduled_in_secs is {options.scheduled_in_s}; expected 0 to {MAX_SCHEDULED_S}")
    if options.scheduled_for is not None and not 1970 <= options.scheduled_for.year <= 9000:
        raise BadRequest("scheduled_for is out of range")
    if options.priority is not None and not 0 <= options.priority <= queue.MAX_PRIORITY:
        raise BadRequest(f"priority is {options.priority}; expected 0 to {queue.MAX_PRIORITY}")
    if options.timeout_s is not None and not 0 < options.timeout_s <= settings.TIMEOUT:
        raise BadRequest(
            f"timeout is {options.timeout_s}; expected 1 to {settings.TIMEOUT} seconds (TIMEOUT)"
        )


def _check_queue_limit(caller: Caller, limit: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT FROM queue WHERE workspace_id = %s AND NOT running"
            " AND scheduled_for <= statement_timestamp() LIMIT %s) AS waiting",
            [caller.workspace_id, limit + 1],
        )
        waiting = cursor.fetchone()[0]
    if waiting > limit:
        raise QueueTooLong(
            f"more than {limit} jobs wait in workspace {caller.workspace_id} (queue_limit); try again later"
        )


def _ancestors(caller: Caller, options: RunOptions) -> tuple[UUID | None, UUID | None]:
    """(parent, root). The root of a child is its parent's root unless the caller says otherwise."""
    if options.parent_job is None:
        return None, options.root_job
    row = (
        Job.objects.filter(pk=options.parent_job, workspace_id=caller.workspace_id)
        .values_list("root_job")
        .first()
    )
    if row is None:
        raise BadRequest(f"parent_job {options.parent_job} does not exist in workspace {caller.workspace_id}")
    return options.parent_job, options.root_job or row[0] or options.parent_job


def runs_as(caller: Caller, email: str | None, *, path: str) -> tuple[str, str]:
    """(permissioned_as, e-mail) of a run by this caller of the script or flow at `path`, on behalf of `email`."""
    if email is None or email == caller.email:
        return caller.permissioned_as, caller.email
    member = Member.objects.filter(workspace=caller.workspace, email=email, disabled=False).first()
    if member is not None:
        return f"u/{member.username}", email
    if Account.objects.filter(pk=email, super_admin=True, disabled=False).exists():
        return f"u/{email}", email
    raise BadRequest(
        f"{path} runs on behalf of {email}, who is no active member of workspace {caller.workspace_id}; "
        "deploy it again on behalf of somebody who is"
    )


def shorter(one: int | None, other: int | None) -> int | None:
    """The smaller of two limits, None being none."""
    given = [seconds for seconds in (one, other) if seconds is not None]
    return min(given) if given else None


# --- cancel, progress, delete ---


def cancel(
    caller: Caller | None, *, workspace_id: str, job_id: UUID, reason: str | None, force: bool = False
) -> bool:
    """Cancel a job that the caller may see. True: it is over. False: its worker has been asked to stop it.

    Signed out, only jobs of `anonymous` can be canceled. Raises JobNotFound, NotSignedIn, PermissionDenied.
    """
    job = get_job(caller, workspace_id=workspace_id, job_id=job_id)
    if caller is not None:
        require_change(caller, job)
    over = canceling.cancel_job(
        job_id=job_id,
        workspace_id=workspace_id,
        username=caller.username if caller is not None else ANONYMOUS,
        reason=reason[:1000] if reason else None,
        force=force,
    )
    if caller is not None:
        audit.record(
            caller, "jobs.force_cancel" if force else "jobs.cancel", ActionKind.DELETE, resource=str(job_id)
        )
    return over


def cancel_at_path(caller: Caller, path: str, *, reason: str | None = None) -> list[UUID]:
    """Cancel the queued jobs of the script or flow at `path` that the caller may cancel; answers their ids."""
    filters = JobFilters(path_exact=path, only_queued=True)
    return cancel_selection(
        caller, list_job_ids(caller, filters, limit=MAX_BATCH), force=False, reason=reason
    )


def cancel_selection(
    caller: Caller, job_ids: Sequence[UUID], *, force: bool, reason: str | None = None
) -> list[UUID]:
    """Cancel those of these jobs that the caller may cancel and that are not over yet; answers their ids."""
    if len(job_ids) > MAX_BATCH:
        raise BadRequest(f"{len(job_ids)} jobs at once; at most {MAX_BATCH}")
    canceled = []
    for job_id in dict.fromkeys(job_ids):
        try:
            cancel(
                caller,
                workspace_id=caller.workspace_id,
                job_id=job_id,
                reason=reason or "canceled in a selection",
                force=force,
            )
        except JobNotFound:
            continue
        except PermissionDenied:
            if not caller.is_operator:
                raise
            continue  # of a list that shows more than their own
        canceled.append(job_id)
    return canceled


def run_now(caller: Caller, job_id: UUID) -> None:
    """Make a job that waits for a later time due at once. Raises JobNotFound, PermissionDenied."""
    job = get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    require_change(caller, job)
    queue.run_now(job_id=job_id, workspace_id=caller.workspace_id)
    audit.record(caller, "jobs.run_now", ActionKind.EXECUTE, resource=str(job_id))


def set_progress(caller: Caller, job_id: UUID, percent: int) -> None:
    """Say how far a job is. Raises BadRequest, JobNotFound, PermissionDenied."""
    if not 0 <= percent <= 100:
        raise BadRequest(f"percent is {percent}; expected 0 to 100")
    job = get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    require_change(caller, job)
    JobProgress.objects.update_or_create(
        job_id=job_id, defaults={"workspace_id": caller.workspace_id, "percent": percent, "updated_at": Now()}
    )
    wakeups.jobs_changed([job_id])


def get_progress(job_id: UUID) -> int | None:
    """What the job last said, in percent; None when it never did. The caller has been let in by `listings.get_job`."""
    return JobProgress.objects.filter(pk=job_id).values_list("percent", flat=True).first()


def forget_job(caller: Caller, job_id: UUID) -> None:
    """Empty a completed job and its steps: arguments, results and logs are gone, the fact that they ran stays.

    For its creator and admins. Raises JobNotFound, PermissionDenied.
    """
    job = get_job(caller, workspace_id=caller.workspace_id, job_id=job_id)
    caller.identity.require_scope("jobs", "write")
    if not caller.is_admin and job.created_by != caller.username:
        raise PermissionDenied(
            f"job {job_id} can be emptied by {job.created_by}, who started it, or an admin"
        )
    if not job.is_completed:
        raise JobNotFound(f"job {job_id} has not ended yet; cancel it first")
    with transaction.atomic():
        cleanup.forget(canceling.tree_of([job_id]))
        audit.record(caller, "jobs.delete", ActionKind.DELETE, resource=str(job_id))


def delete_jobs(caller: Caller, job_ids: Sequence[UUID]) -> int:
    """Delete jobs of the workspace without a trace, whatever their state, flows with their steps. Admins only.

    Answers how many of those asked for there were.
    """
    caller.require_admin()
    if len(job_ids) > MAX_BATCH:
        raise BadRequest(f"{len(job_ids)} jobs at once; at most {MAX_BATCH}")
    with transaction.atomic():
        asked = list(
            Job.objects.filter(pk__in=job_ids, workspace_id=caller.workspace_id).values_list("pk", flat=True)
        )
        ids = canceling.tree_of(asked)
        queue.delete_jobs(ids)
        audit.record(caller, "jobs.delete", ActionKind.DELETE, parameters={"count": len(asked)})
    for job_id in ids:
        wakeups.cancel_requested(job_id)  # a worker that runs one finds its lease gone
    return len(asked)


def may_change(caller: Caller, job: JobRow) -> bool:
    """Whether the caller, who may see this job, may steer it: operators only what they started themselves."""
    return not caller.is_operator or caller.identity.is_job or job.created_by == caller.username


def require_change(caller: Caller, job: JobRow) -> None:
    """A token that may run the script or flow may steer its runs; others need jobs:write. A job may steer itself."""
    if not may_change(caller, job):
        raise PermissionDenied(
            f"job {job.id} was started by {job.created_by}; operators steer their own runs only"
        )
    caller.identity.require_scope("jobs", "run" if token_may_run(caller, job) else "write")
