"""Tables of scripts, jobs and the queue (DESIGN.md decisions 3 and 4).

A job is three narrow rows: what was asked (`job`, never changed), where it stands (`queue`: hot, small, gone at the end)
and what came of it (`completed_job`). These three carry no foreign keys: a key check locks the parent row, and every
push and completion of a workspace would meet on one `workspace` row.

The hot path (claim, heartbeat, log append, completion) is SQL in jobs/sql/, driven by jobs/queue.py and the worker.
"""

from typing import Any, ClassVar

import uuid_utils.compat
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Collate, Now
from psycopg.types.json import Json

from workspaces.models import Workspace


def new_job_id() -> "uuid_utils.compat.UUID":
    """A time-ordered UUID (version 7): new rows land at the right edge of every index."""
    return uuid_utils.compat.uuid7()


class OrderedJSONField(models.JSONField):
    """JSON stored as text (`json`, not `jsonb`): keeps the author's key order, which is the column order of a table."""

    def db_type(self, connection: object) -> str:
        return "json"

    def from_db_value(self, value: Any, expression: object, connection: object) -> Any:
        # psycopg decodes `json` by itself (Django switches that off for `jsonb` only); a JSON string is a str already.
        return value

    def get_db_prep_value(self, value: Any, connection: object, prepared: bool = False) -> Any:
        # Not as `jsonb`, on whose way into the column the order would be lost already.
        return Json(value)


class Language(models.TextChoices):
    """Languages that scripts may be written in today. A worker claims only those it has a runtime for."""

    PYTHON3 = "python3", "Python"
    BUN = "bun", "TypeScript (Bun)"
    DENO = "deno", "TypeScript (Deno)"
    NATIVETS = "nativets", "REST (TypeScript)"
    BUNNATIVE = "bunnative", "TypeScript (Bun, native)"
    BASH = "bash", "Bash"
    GO = "go", "Go"
    POSTGRESQL = "postgresql", "PostgreSQL"
    MYSQL = "mysql", "MySQL"
    DUCKDB = "duckdb", "DuckDB"
    GRAPHQL = "graphql", "GraphQL"
    PHP = "php", "PHP"
    POWERSHELL = "powershell", "PowerShell"


# Every language of Windmill's API. Known but not runnable yet gets another message than a typo.
ALL_LANGUAGES = [
    "python3",
    "deno",
    "go",
    "bash",
    "powershell",
    "postgresql",
    "mysql",
    "bigquery",
    "snowflake",
    "mssql",
    "oracledb",
    "graphql",
    "nativets",
    "bun",
    "bunnative",
    "php",
    "rust",
    "ansible",
    "csharp",
    "nu",
    "java",
    "ruby",
    "rlang",
    "duckdb",
    "dbt",
]


class ScriptKind(models.TextChoices):
    """What a script is for; only decides where it is offered."""

    SCRIPT = "script", "Script"
    FAILURE = "failure", "Error handler"
    TRIGGER = "trigger", "Trigger"
    COMMAND = "command", "Command"
    APPROVAL = "approval", "Approval"
    PREPROCESSOR = "preprocessor", "Preprocessor"


class Script(models.Model):
    """One version of a script. Versions of a path form a line: the newest is the head, older ones are archived."""

    hash = models.BigIntegerField(primary_key=True)  # shown as 16 hex digits
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    path = models.CharField(max_length=255)
    parent_hashes = ArrayField(models.BigIntegerField(), default=list, blank=True)  # newest parent first
    summary = models.TextField(blank=True, default="")
    description = models.TextField(blank=True, default="")
    content = models.TextField()
    language = models.CharField(max_length=20)
    kind = models.CharField(max_length=20, choices=ScriptKind.choices, default=ScriptKind.SCRIPT)
    schema = models.JSONField(null=True, blank=True)
    # What it depends on, pinned. null: a dependency job is finding out, or failed to (lock_error_logs says why).
    lock = models.TextField(null=True, blank=True)
    lock_error_logs = models.TextField(null=True, blank=True)
    lock_job = models.UUIDField(
        null=True, blank=True
    )  # the dependency job that computes or computed the lock
    created_by = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())
    archived = models.BooleanField(default=False)
    deleted = models.BooleanField(default=False)
    is_template = models.BooleanField(default=False)
    extra_perms = models.JSONField(default=dict, blank=True)
    tag = models.CharField(max_length=50, null=True, blank=True)
    envs = ArrayField(models.TextField(), null=True, blank=True)  # ["KEY=value"]
    timeout = models.IntegerField(null=True, blank=True)  # seconds
    priority = models.SmallIntegerField(null=True, blank=True)  # 1..100
    visible_to_runner_only = models.BooleanField(null=True, blank=True)
    auto_kind = models.CharField(max_length=20, null=True, blank=True)
    has_preprocessor = models.BooleanField(default=False)
    on_behalf_of_email = models.CharField(max_length=255, null=True, blank=True)
    deployment_message = models.TextField(blank=True, default="")
    labels = ArrayField(models.CharField(max_length=50), null=True, blank=True)  # null: never given
    # Fields that clients send and expect back unchanged, and that later subsystems give a meaning to
    # (cache_ttl, concurrent_limit, dedicated_worker, ...): kept as sent so that a pull after a push sees no difference.
    extra = models.JSONField(default=dict, blank=True)

    class Meta:
        db_table = "script"
        ordering = ("path", "-created_at")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "path"],
                condition=models.Q(archived=False, deleted=False),
                name="script_one_head_a_path",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["workspace", "path", "-created_at"], name="script_history_idx")
        ]

    def __str__(self) -> str:
        return f"{self.path} {self.hash_hex}"

    @property
    def hash_hex(self) -> str:
        """The version's name in URLs and the API: 16 lower-case hex digits."""
        return f"{self.hash & 0xFFFFFFFFFFFFFFFF:016x}"


class DependencyEdge(models.Model):
    """That a script or flow imports a script of its workspace: when the one changes, the other is locked again."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    importer_kind = models.CharField(max_length=10)  # script, flow
    importer_path = models.CharField(max_length=255)
    importer_node = models.CharField(max_length=255, default="", blank=True)  # of flows: the module's id
    imported_path = models.CharField(max_length=255)

    class Meta:
        db_table = "dependency_map"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "importer_kind", "importer_path", "importer_node", "imported_path"],
                name="dependency_once",
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["workspace", "imported_path"], name="dependency_imported_idx")
        ]

    def __str__(self) -> str:
        return f"{self.importer_path} imports {self.imported_path}"


class WorkspaceDependencies(models.Model):
    """A dependency file that scripts of a workspace share, like dependencies/requirements.in; newest version wins."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    language = models.CharField(max_length=20)
    name = models.CharField(max_length=100, default="", blank=True)  # "": the default of its language
    description = models.TextField(default="", blank=True)
    content = models.TextField()
    archived = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=255)

    class Meta:
        db_table = "workspace_dependencies"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "language", "name"],
                condition=models.Q(archived=False),
                name="workspace_dependencies_one_live",
            )
        ]

    def __str__(self) -> str:
        return f"{self.language} {self.name}"


class CachedLock(models.Model):
    """A lock computed for code without one (previews, inline scripts of flows), by all that it depends on."""

    key = models.CharField(max_length=64, primary_key=True)
    lock = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "lock_cache"
        indexes: ClassVar = [models.Index(fields=["created_at"], name="lock_cache_created_idx")]

    def __str__(self) -> str:
        return self.key


class TemporaryCode(models.Model):
    """A script as a client has it on disk, which does not deploy it: what other scripts are locked with for once."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    hash = models.CharField(max_length=64)  # SHA-256 of the content in UTF-8, hex
    content = models.TextField()
    size = models.IntegerField()  # characters
    created_at = models.DateTimeField(db_default=Now())  # when it was last sent

    class Meta:
        db_table = "raw_script_temp"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "hash"], name="raw_script_temp_once_a_workspace")
        ]
        indexes: ClassVar = [models.Index(fields=["created_at"], name="raw_script_temp_created_idx")]

    def __str__(self) -> str:
        return self.hash


class Draft(models.Model):
    """Unsaved work of one person on one path, so that leaving the editor loses nothing."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    email = models.CharField(max_length=255)
    kind = models.CharField(max_length=20, default="script")
    path = models.CharField(max_length=255)
    value = OrderedJSONField()
    base_hash = models.BigIntegerField(
        null=True, blank=True
    )  # head when the draft was begun: tells conflicts
    edited_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "draft"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "email", "kind", "path"], name="draft_once_a_person_and_path"
            )
        ]

    def __str__(self) -> str:
        return f"draft of {self.path} by {self.email}"


class JobKind(models.TextChoices):
    """What a job runs."""

    SCRIPT = "script", "Script"
    PREVIEW = "preview", "Preview"
    FLOW = "flow", "Flow"
    FLOW_PREVIEW = "flowpreview", "Flow preview"
    FLOW_BODY = "flownode", "Part of a flow"  # an iteration of a loop, or a branch: a flow of its own
    FLOW_SCRIPT = "flowscript", "Inline script of a flow"
    SINGLE_STEP_FLOW = "singlestepflow", "Script with retries"
    IDENTITY = "identity", "Identity"
    AI_AGENT = "aiagent", "AI agent"
    DEPENDENCIES = "dependencies", "Dependencies of a script"
    FLOW_DEPENDENCIES = "flowdependencies", "Dependencies of a flow"


# Jobs that are flows themselves: a row of flow_status says how far they are, and no code of their own runs.
FLOW_KINDS = frozenset({JobKind.FLOW, JobKind.FLOW_PREVIEW, JobKind.FLOW_BODY, JobKind.SINGLE_STEP_FLOW})


class Job(models.Model):
    """What was asked. Written once at push, never changed, deleted by retention."""

    id = models.UUIDField(primary_key=True, default=new_job_id)
    workspace_id = models.CharField(max_length=50)
    kind = models.CharField(max_length=25, choices=JobKind.choices)
    runnable_id = models.BigIntegerField(null=True, blank=True)  # script hash, or flow_version.id
    runnable_path = models.CharField(max_length=255, null=True, blank=True)
    raw_code = models.TextField(null=True, blank=True)
    raw_lock = models.TextField(
        null=True, blank=True
    )  # of raw_code; null: not known; "": it depends on nothing
    raw_flow = OrderedJSONField(null=True, blank=True)  # FlowValue of a preview
    script_lang = models.CharField(max_length=20, null=True, blank=True)
    script_entrypoint_override = models.CharField(max_length=255, null=True, blank=True)
    args = models.JSONField(null=True, blank=True)  # object by parameter name; null once deleted on request
    tag = models.CharField(max_length=255)
    created_by = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())
    permissioned_as = models.CharField(max_length=255)  # u/<username> or g/<group>
    permissioned_as_email = models.CharField(max_length=255)
    parent_job = models.UUIDField(null=True, blank=True)
    root_job = models.UUIDField(null=True, blank=True)
    # A job with a flow_step_id is a step of the flow job that is its parent: the parent goes on when it ends.
    flow_step_id = models.CharField(max_length=255, null=True, blank=True)
    # The innermost flow (not body) around this step or body: its definition holds the modules, and what steps inside
    # bodies return is found there afterwards.
    flow_innermost_root_job = models.UUIDField(null=True, blank=True)
    flow_body = models.CharField(max_length=255, null=True, blank=True)  # bodies: jobs.flows.value.BodyRef
    flow_n = models.IntegerField(null=True, blank=True)  # index of the iteration or branch
    same_worker = models.BooleanField(db_default=False)
    cache_ttl = models.IntegerField(null=True, blank=True)  # seconds; the result may come from job_cache
    delete_after_secs = models.IntegerField(null=True, blank=True)  # after the end of the job or of its flow
    concurrency_key = models.CharField(max_length=255, null=True, blank=True)
    concurrent_limit = models.IntegerField(null=True, blank=True)
    concurrency_time_window_s = models.IntegerField(null=True, blank=True)
    trigger_kind = models.CharField(max_length=20, null=True, blank=True)
    trigger = models.CharField(max_length=255, null=True, blank=True)
    timeout = models.IntegerField(null=True, blank=True)  # seconds
    priority = models.SmallIntegerField(db_default=0)
    visible_to_owner = models.BooleanField(db_default=True)
    # null: no preprocessor; false: the args are an event that the script's preprocessor turns into arguments first.
    preprocessed = models.BooleanField(null=True, blank=True)

    class Meta:
        db_table = "job"
        indexes: ClassVar = [
            models.Index(fields=["workspace_id", "-created_at", "-id"], name="job_newest_idx"),
            # Lists of runs leave the steps of flows out: a loop of a million must not stand between two runs.
            models.Index(
                fields=["workspace_id", "-created_at", "-id"],
                name="job_newest_run_idx",
                condition=models.Q(flow_step_id__isnull=True),
            ),
            models.Index(fields=["workspace_id", "runnable_path", "-created_at"], name="job_path_idx"),
            models.Index(
                fields=["parent_job"], name="job_parent_idx", condition=models.Q(parent_job__isnull=False)
            ),
            models.Index(
                fields=["concurrency_key", "-created_at", "-id"],
                name="job_concurrency_idx",
                condition=models.Q(concurrency_key__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class QueuedJob(models.Model):
    """Where a job stands while it is not done. One claim = (id, attempt): the fencing pair of every worker write.

    A flow that waits for its steps is parked: running, with no last_ping, so that nobody claims it and nobody misses its
    heartbeat. A flow that sleeps or waits for approvals is not running and is due (scheduled_for) at its deadline; its
    started_at stays.
    """

    id = models.UUIDField(primary_key=True)
    workspace_id = models.CharField(max_length=50)
    script_path = models.CharField(max_length=255, null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    scheduled_for = models.DateTimeField(db_default=Now())
    tag = models.CharField(max_length=255)
    priority = models.SmallIntegerField(db_default=0)
    running = models.BooleanField(db_default=False)
    started_at = models.DateTimeField(null=True, blank=True)
    worker = models.CharField(max_length=255, null=True, blank=True)
    attempt = models.IntegerField(db_default=0)  # nth claim
    last_ping = models.DateTimeField(null=True, blank=True)  # heartbeat of the current attempt
    suspend = models.IntegerField(db_default=0)  # approvals that a flow still waits for
    suspend_until = models.DateTimeField(null=True, blank=True)
    canceled_by = models.CharField(max_length=255, null=True, blank=True)
    canceled_reason = models.TextField(null=True, blank=True)
    mem_peak = models.IntegerField(null=True, blank=True)  # kB
    restarts = models.SmallIntegerField(db_default=0)  # after lost workers
    concurrency_key = models.CharField(max_length=255, null=True, blank=True)
    # When it was due before it was held back for want of a place among the jobs of its concurrency_key; null: it is not.
    was_due_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "queue"
        verbose_name = "queued job"
        indexes: ClassVar = [
            # Only what could be claimed: its size does not grow with what runs, waits for approval or is done.
            models.Index(
                fields=["tag", "-priority", "scheduled_for", "id"],
                condition=models.Q(running=False),
                name="queue_runnable_idx",
            ),
            # The same rows by workspace, for workspaces to take turns (sql/claim_in_turn.sql says why in this collation).
            models.Index(
                Collate("tag", "C"),
                models.F("priority").desc(),
                Collate("workspace_id", "C"),
                "scheduled_for",
                "id",
                condition=models.Q(running=False),
                name="queue_turns_idx",
            ),
            models.Index(fields=["workspace_id", "-created_at"], name="queue_workspace_idx"),
            # Zombie scan. last_ping itself is in no index, so that heartbeats stay heap-only updates.
            models.Index(fields=["started_at"], condition=models.Q(running=True), name="queue_running_idx"),
            models.Index(
                fields=["concurrency_key"],
                condition=models.Q(concurrency_key__isnull=False),
                name="queue_concurrency_idx",
            ),
            # Those held back, in the order in which they get the places that become free.
            models.Index(
                fields=["concurrency_key", "-priority", "was_due_at", "id"],
                condition=models.Q(was_due_at__isnull=False),
                name="queue_held_back_idx",
            ),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(running=False) | models.Q(worker__isnull=False, started_at__isnull=False),
                name="queue_running_has_a_worker",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class JobStatus(models.TextChoices):
    """How a job ended."""

    SUCCESS = "success", "Success"
    FAILURE = "failure", "Failure"
    CANCELED = "canceled", "Canceled"
    SKIPPED = "skipped", "Skipped"


class JobIsolation(models.TextChoices):
    """What kept the processes of a job from others (workers.sandbox, docs/security.md)."""

    NAMESPACES = "namespaces", "Namespaces"
    USER_NAMESPACES = "user-namespaces", "User namespaces"
    NONE = "none", "None"


class CompletedJob(models.Model):
    """What came of a job. Inserted in the statement that deletes its queue row, so exactly once."""

    id = models.UUIDField(primary_key=True)
    workspace_id = models.CharField(max_length=50)
    status = models.CharField(max_length=10, choices=JobStatus.choices)
    started_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(db_default=Now())
    duration_ms = models.BigIntegerField()
    result = OrderedJSONField(null=True, blank=True)
    worker = models.CharField(max_length=255, null=True, blank=True)
    # What its processes ran in. null: it had none (a flow, SQL that the worker sent to its server, a result from the
    # cache, a job that was canceled while it waited), or its worker died, or it was ended by force, before it was told.
    isolation = models.CharField(max_length=20, choices=JobIsolation.choices, null=True, blank=True)
    mem_peak = models.IntegerField(null=True, blank=True)  # kB
    canceled_by = models.CharField(max_length=255, null=True, blank=True)
    canceled_reason = models.TextField(null=True, blank=True)
    restarts = models.SmallIntegerField(db_default=0)
    labels = ArrayField(
        models.CharField(max_length=255), null=True, blank=True
    )  # from the result's wm_labels
    deleted = models.BooleanField(db_default=False)

    class Meta:
        db_table = "completed_job"
        verbose_name = "completed job"
        indexes: ClassVar = [
            models.Index(fields=["completed_at"], name="completed_job_age_idx"),
            models.Index(
                fields=["workspace_id", "-completed_at"],
                condition=~models.Q(status="success"),
                name="completed_job_not_success_idx",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class LogChunk(models.Model):
    """A piece of a job's log. `log_offset` counts characters before it, so a reader resumes anywhere."""

    pk = models.CompositePrimaryKey("job_id", "log_offset")
    job_id = models.UUIDField()
    log_offset = models.BigIntegerField()
    workspace_id = models.CharField(max_length=50)
    logs = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "job_logs"

    def __str__(self) -> str:
        return f"{self.job_id}@{self.log_offset}"


class Flow(models.Model):
    """A flow at a path: its settings, and which version is live. What it does is in FlowVersion."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    path = models.CharField(max_length=255)
    version_id = models.BigIntegerField()  # the live FlowVersion
    summary = models.TextField(blank=True, default="")
    description = models.TextField(blank=True, default="")
    tag = models.CharField(max_length=50, null=True, blank=True)
    timeout = models.IntegerField(null=True, blank=True)  # seconds
    priority = models.SmallIntegerField(null=True, blank=True)  # 1..100
    visible_to_runner_only = models.BooleanField(null=True, blank=True)
    on_behalf_of_email = models.CharField(max_length=255, null=True, blank=True)
    labels = ArrayField(models.CharField(max_length=50), null=True, blank=True)  # null: never given
    edited_by = models.CharField(max_length=255)
    edited_at = models.DateTimeField(db_default=Now())
    archived = models.BooleanField(default=False)
    extra_perms = models.JSONField(default=dict, blank=True)
    extra = models.JSONField(default=dict, blank=True)  # as Script.extra
    # Where it was before it was moved: links to these paths still find it.
    former_paths = ArrayField(models.CharField(max_length=255), default=list, blank=True)

    class Meta:
        db_table = "flow"
        ordering = ("path",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "path"], name="flow_once_a_path"),
        ]

    def __str__(self) -> str:
        return self.path


class FlowVersion(models.Model):
    """One version of what a flow does. Only the dependency job changes it: it adds the locks of inline scripts."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    path = models.CharField(max_length=255)
    value = OrderedJSONField()  # FlowValue, parsed by jobs.flows.value
    schema = OrderedJSONField(null=True, blank=True)
    created_by = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())
    deployment_message = models.TextField(blank=True, default="")
    dependency_job = models.UUIDField(null=True, blank=True)
    lock_error_logs = models.TextField(null=True, blank=True)

    class Meta:
        db_table = "flow_version"
        indexes: ClassVar = [models.Index(fields=["workspace", "path", "-id"], name="flow_version_path_idx")]

    def __str__(self) -> str:
        return f"{self.path} {self.pk}"


class FlowStatus(models.Model):
    """How far a flow job is. `version` counts every change: who advances a flow names the version they have seen.

    `state` (jobs.flows.state) is small whatever the size of the flow: finished modules are in FlowStep, iterations in
    FlowIteration, so that a step costs the same in a flow of ten and of a thousand.
    """

    id = models.UUIDField(primary_key=True)
    workspace_id = models.CharField(max_length=50)
    version = models.BigIntegerField(db_default=0)
    state = OrderedJSONField()

    class Meta:
        db_table = "flow_status"
        verbose_name_plural = "flow statuses"

    def __str__(self) -> str:
        return f"{self.id} v{self.version}"


class FlowStep(models.Model):
    """A finished module of a flow job. `status` has the shape of reference/flows.md section 8, without lists of jobs."""

    pk = models.CompositePrimaryKey("flow_id", "step_id")
    flow_id = models.UUIDField()
    step_id = models.CharField(max_length=255)
    status = OrderedJSONField()
    result = OrderedJSONField()  # where its result is: jobs.flows.state.Ref

    class Meta:
        db_table = "flow_step"

    def __str__(self) -> str:
        return f"{self.flow_id}/{self.step_id}"


class FlowIteration(models.Model):
    """An iteration of a loop, or a branch of a branchall. Rows of iterations to come are there as soon as the loop is."""

    pk = models.CompositePrimaryKey("flow_id", "step_id", "n")
    flow_id = models.UUIDField()
    step_id = models.CharField(max_length=255)
    n = models.IntegerField()
    job_id = models.UUIDField()
    value = OrderedJSONField(null=True, blank=True)  # iter.value

    class Meta:
        db_table = "flow_iteration"

    def __str__(self) -> str:
        return f"{self.flow_id}/{self.step_id}[{self.n}]"


class FlowResult(models.Model):
    """Which result `results.<step_id>` names outside of the body that the step is in: the one recorded last."""

    pk = models.CompositePrimaryKey("root_id", "step_id")
    root_id = models.UUIDField()  # flow_innermost_root_job
    step_id = models.CharField(max_length=255)
    result = OrderedJSONField()  # jobs.flows.state.Ref

    class Meta:
        db_table = "flow_result"

    def __str__(self) -> str:
        return f"{self.root_id}/{self.step_id}"


class FlowUserState(models.Model):
    """A value that the steps of a flow share (wmill's set_flow_user_state)."""

    pk = models.CompositePrimaryKey("flow_id", "key")
    flow_id = models.UUIDField()
    key = models.CharField(max_length=255)
    workspace_id = models.CharField(max_length=50)
    value = OrderedJSONField(null=True, blank=True)

    class Meta:
        db_table = "flow_user_state"

    def __str__(self) -> str:
        return f"{self.flow_id}/{self.key}"


class ResumeEvent(models.Model):
    """An approval or disapproval of a suspended flow. Each resume_id can be used once a job: the id says so."""

    id = models.UUIDField(primary_key=True)  # job id XOR resume_id
    workspace_id = models.CharField(max_length=50)
    job_id = (
        models.UUIDField()
    )  # the step that carries `suspend`, or the flow job itself (flow-level approval)
    flow_id = models.UUIDField()  # the flow job that waits
    resume_id = models.BigIntegerField()
    approver = models.CharField(max_length=255, null=True, blank=True)
    approved = models.BooleanField(default=True)
    value = OrderedJSONField(null=True, blank=True)  # payload
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "resume_job"
        indexes: ClassVar = [
            models.Index(fields=["job_id"], name="resume_job_job_idx"),
            models.Index(fields=["flow_id"], name="resume_job_flow_idx"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}/{self.resume_id}"


class CachedResult(models.Model):
    """A result that is good for further jobs with the same code and arguments (cache_ttl)."""

    key = models.CharField(max_length=64, primary_key=True)  # SHA-256, hex
    workspace_id = models.CharField(max_length=50)
    job_id = models.UUIDField()  # that computed it
    result = OrderedJSONField(null=True, blank=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "job_cache"
        indexes: ClassVar = [
            models.Index(fields=["expires_at"], name="job_cache_expiry_idx"),
            models.Index(fields=["job_id"], name="job_cache_job_idx"),
        ]

    def __str__(self) -> str:
        return self.key


class JobCleanup(models.Model):
    """A job whose arguments, result and log are to be forgotten (delete_after_secs). Written when the job is queued."""

    job_id = models.UUIDField(primary_key=True)
    top_id = models.UUIDField()  # of a step: the topmost flow around it; otherwise the job itself
    after_s = models.IntegerField()  # seconds after the end of `top_id`
    due_at = models.DateTimeField(
        null=True, blank=True
    )  # null: `top_id` has not ended, or nobody has looked yet

    class Meta:
        db_table = "job_cleanup"
        indexes: ClassVar = [
            models.Index(fields=["due_at"], name="job_cleanup_due_idx"),
            models.Index(fields=["top_id"], name="job_cleanup_top_idx"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} at {self.due_at}"


class ConcurrencyPlace(models.Model):
    """A place that a job took among those of its concurrency_key. Only jobs with a limit have one.

    It counts while the job is in the queue with a started_at, and for its time window after the end. Written by the
    function take_place alone, under a lock of the key.
    """

    job_id = models.UUIDField(primary_key=True)
    key = models.CharField(max_length=255)
    ended_at = models.DateTimeField(
        null=True, blank=True
    )  # filled in when somebody looks after the job's end

    class Meta:
        db_table = "concurrency_key"
        indexes: ClassVar = [models.Index(fields=["key", "ended_at"], name="concurrency_key_ended_idx")]

    def __str__(self) -> str:
        return f"{self.key}: {self.job_id}"


class JobProgress(models.Model):
    """How far a job says it is (wmill's set_progress). Gone with the job."""

    job_id = models.UUIDField(primary_key=True)
    workspace_id = models.CharField(max_length=50)
    percent = models.SmallIntegerField()  # 0..100
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "job_progress"

    def __str__(self) -> str:
        return f"{self.job_id} {self.percent}%"


class WorkerPing(models.Model):
    """A worker process as it last reported itself. Written by the worker, read by pages and by "why is it queued"."""

    worker = models.CharField(max_length=255, primary_key=True)
    worker_instance = models.CharField(max_length=255)  # host
    worker_group = models.CharField(max_length=255, default="default")
    ip = models.CharField(max_length=100, blank=True, default="")
    started_at = models.DateTimeField(db_default=Now())
    ping_at = models.DateTimeField(db_default=Now())
    state = models.CharField(max_length=20, default="running")  # starting, running, draining, failed
    state_note = models.TextField(default="", db_default="", blank=True)  # a sentence on it, for people
    custom_tags = ArrayField(models.CharField(max_length=255), default=list, blank=True)
    languages = ArrayField(models.CharField(max_length=30), default=list, blank=True)
    # By language: {"version": of what runs it}, or {"missing": tool, "install": how to get it}.
    runtimes = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()), blank=True)
    native_mode = models.BooleanField(default=False, db_default=False)
    # "workspace:path", "workspace:flow/path" of the scripts and flows that it keeps warm.
    dedicated_workers = ArrayField(
        models.CharField(max_length=400),
        default=list,
        db_default=models.Value([], ArrayField(models.CharField(max_length=400))),
        blank=True,
    )
    slots = models.IntegerField(default=1)
    busy_slots = models.IntegerField(default=0)
    jobs_executed = models.BigIntegerField(default=0)
    current_job_id = models.UUIDField(null=True, blank=True)
    last_job_id = models.UUIDField(null=True, blank=True)
    last_job_workspace_id = models.CharField(max_length=50, null=True, blank=True)
    occupancy_rate = models.FloatField(null=True, blank=True)  # 0..1 since start
    occupancy_rate_15s = models.FloatField(null=True, blank=True)
    occupancy_rate_5m = models.FloatField(null=True, blank=True)
    occupancy_rate_30m = models.FloatField(null=True, blank=True)
    memory = models.BigIntegerField(null=True, blank=True)  # bytes the worker may use
    memory_usage = models.BigIntegerField(null=True, blank=True)  # bytes in use on its host or cgroup
    wm_memory_usage = models.BigIntegerField(null=True, blank=True)  # bytes of the worker process
    vcpus = models.BigIntegerField(null=True, blank=True)  # 100000 = one processor
    wm_version = models.CharField(max_length=50, blank=True, default="")
    job_isolation = models.CharField(max_length=50, blank=True, default="")
    isolation_note = models.TextField(blank=True, default="")
    init_log = models.TextField(blank=True, default="")  # of a failed init script

    class Meta:
        db_table = "worker_ping"
        ordering = ("worker_group", "worker")
        verbose_name = "worker"
        indexes: ClassVar = [models.Index(fields=["ping_at"], name="worker_ping_at_idx")]

    def __str__(self) -> str:
        return self.worker
