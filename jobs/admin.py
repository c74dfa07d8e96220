"""Windows on scripts, flows, jobs and approvals. Actions call the functions that everybody else calls."""

from django.contrib import admin
from django.db.models import (
    BooleanField,
    Exists,
    ExpressionWrapper,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
)
from django.db.models.functions import Cast, Left, Length
from django.http import HttpRequest

from jobs import canceling, queue, waiting
from jobs.models import (
    CompletedJob,
    Flow,
    FlowStatus,
    FlowVersion,
    Job,
    QueuedJob,
    ResumeEvent,
    Script,
)
from workspaces import audit
from workspaces.access import Identity
from workspaces.admin import Window, carry_out
from workspaces.models import ActionKind

SHOWN_RESULT = 5_000  # characters


@admin.register(Script)
class ScriptAdmin(Window):
    """Versions of scripts."""

    list_display = (
        "path",
        "workspace_id",
        "hash_hex",
        "language",
        "kind",
        "created_by",
        "created_at",
        "archived",
    )
    list_filter = ("archived", "deleted", "language", "kind")
    search_fields = ("path", "summary", "workspace__id")
    ordering = ("-created_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Script]:
        return super().get_queryset(request).defer("content", "lock", "lock_error_logs", "schema")


@admin.register(Flow)
class FlowAdmin(Window):
    """Flows with their live version."""

    list_display = (
        "path",
        "workspace_id",
        "summary",
        "version_id",
        "tag",
        "edited_by",
        "edited_at",
        "archived",
    )
    list_filter = ("archived", "tag")
    search_fields = ("path", "summary", "workspace__id", "former_paths")
    ordering = ("-edited_at",)


@admin.register(FlowVersion)
class FlowVersionAdmin(Window):
    """Versions of flows, newest first; a list of them does not read what they do."""

    list_display = (
        "id",
        "path",
        "workspace_id",
        "created_by",
        "created_at",
        "deployment_message",
        "has_lock_errors",
    )
    list_filter = (("lock_error_logs", admin.EmptyFieldListFilter),)
    search_fields = ("=id", "path", "workspace__id", "created_by", "deployment_message")
    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[FlowVersion]:
        failed = Q(lock_error_logs__isnull=False) & ~Q(lock_error_logs="")
        rows = super().get_queryset(request).defer("value", "schema", "lock_error_logs")
        return rows.annotate(failed=ExpressionWrapper(failed, output_field=BooleanField()))

    @admin.display(description="Dependencies failed", boolean=True)
    def has_lock_errors(self, version: FlowVersion) -> bool:
        return bool(getattr(version, "failed", False))


@admin.register(FlowStatus)
class FlowStatusAdmin(Window):
    """How far the flow jobs are, newest first; `version` counts every change of the state."""

    list_display = ("id", "workspace_id", "path", "version", "where")
    search_fields = ("=id", "=workspace_id")
    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[FlowStatus]:
        path = Job.objects.filter(pk=OuterRef("pk")).values("runnable_path")[:1]
        is_queued = Exists(QueuedJob.objects.filter(pk=OuterRef("pk")))
        return super().get_queryset(request).annotate(flow_path=Subquery(path), is_queued=is_queued)

    @admin.display(description="Flow")
    def path(self, status: FlowStatus) -> str:
        return getattr(status, "flow_path", None) or "-"

    @admin.display(description="Stands")
    def where(self, status: FlowStatus) -> str:
        return "in the queue" if getattr(status, "is_queued", False) else "ended"


@admin.register(ResumeEvent)
class ResumeEventAdmin(Window):
    """Approvals and disapprovals that people, or programs with a signed link, gave."""

    list_display = ("flow_id", "job_id", "workspace_id", "approved", "approver", "resume_id", "created_at")
    list_filter = ("approved",)
    search_fields = ("=flow_id", "=job_id", "=workspace_id", "approver")
    ordering = ("-created_at",)


@admin.register(QueuedJob)
class QueuedJobAdmin(Window):
    """Jobs that wait or run, with the reason why."""

    list_display = (
        "id",
        "workspace_id",
        "script_path",
        "tag",
        "running",
        "worker",
        "attempt",
        "restarts",
        "scheduled_for",
        "why",
    )
    list_filter = ("running", "tag")
    search_fields = ("=id", "workspace_id", "script_path", "tag", "worker")
    ordering = ("created_at",)
    actions = ("cancel", "force_cancel", "requeue", "run_now")

    @admin.display(description="Why it waits")
    def why(self, job: QueuedJob) -> str:
        facts = waiting.look([job.pk]).get(job.pk)
        return waiting.explain(facts).sentence if facts is not None else "It has ended."

    @admin.action(description="Cancel (asks the worker of a running job)")
    def cancel(self, request: HttpRequest, rows: QuerySet[QueuedJob]) -> None:
        carry_out(request, rows, _cancel, done="canceled, or their workers asked to stop them")

    @admin.action(description="Cancel by force: end at once, whatever the worker does")
    def force_cancel(self, request: HttpRequest, rows: QuerySet[QueuedJob]) -> None:
        carry_out(request, rows, _force_cancel, done="ended")

    @admin.action(description="Requeue: take running jobs from their workers")
    def requeue(self, request: HttpRequest, rows: QuerySet[QueuedJob]) -> None:
        carry_out(request, rows, _requeue, done="queued again")

    @admin.action(description="Run now: make jobs due that are scheduled for later")
    def run_now(self, request: HttpRequest, rows: QuerySet[QueuedJob]) -> None:
        carry_out(request, rows, _run_now, done="made due")


def _cancel(by: Identity, job: QueuedJob, *, force: bool = False) -> None:
    canceling.cancel_job(
        job_id=job.pk,
        workspace_id=job.workspace_id,
        username=by.email,
        reason="canceled in the administration",
        force=force,
    )
    _record(by, "jobs.force_cancel" if force else "jobs.cancel", ActionKind.DELETE, job)


def _force_cancel(by: Identity, job: QueuedJob) -> None:
    _cancel(by, job, force=True)


def _requeue(by: Identity, job: QueuedJob) -> None:
    queue.requeue_job(job_id=job.pk, workspace_id=job.workspace_id)
    _record(by, "jobs.requeue", ActionKind.UPDATE, job)


def _run_now(by: Identity, job: QueuedJob) -> None:
    queue.run_now(job_id=job.pk, workspace_id=job.workspace_id)
    _record(by, "jobs.run_now", ActionKind.EXECUTE, job)


def _record(by: Identity, operation: str, kind: ActionKind, job: QueuedJob) -> None:
    audit.record(by, operation, kind, resource=str(job.pk), workspace_id=job.workspace_id)


@admin.register(CompletedJob)
class CompletedJobAdmin(Window):
    """Jobs that ended, newest first."""

    list_display = (
        "id",
        "workspace_id",
        "path",
        "status",
        "duration_ms",
        "worker",
        "isolation",
        "completed_at",
        "canceled_by",
    )
    list_filter = ("status", "isolation")
    search_fields = ("=id", "=workspace_id", "=worker")
    ordering = ("-completed_at",)
    exclude = ("result",)
    readonly_fields = ("path", "result_begins")

    def get_queryset(self, request: HttpRequest) -> QuerySet[CompletedJob]:
        path = Job.objects.filter(pk=OuterRef("pk")).values("runnable_path")[:1]
        return super().get_queryset(request).defer("result").annotate(script_path=Subquery(path))

    @admin.display(description="Script or flow")
    def path(self, job: CompletedJob) -> str:
        return getattr(job, "script_path", None) or "-"

    @admin.display(description="Result")
    def result_begins(self, job: CompletedJob) -> str:
        """The first few thousand characters, cut off in the database."""
        text = Cast("result", TextField())
        begin, length = (
            CompletedJob.objects.filter(pk=job.pk)
            .annotate(begin=Left(text, SHOWN_RESULT), length=Length(text))
            .values_list("begin", "length")
            .get()
        )
        return f"{begin}… ({length} characters)" if (length or 0) > SHOWN_RESULT else begin or "null"
