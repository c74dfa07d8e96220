"""Tables of identity and tenancy. Classic names, because operators use them from psql (DESIGN.md decision 3).

No workflow here: the domain modules beside this file are the only writers.
"""

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class Account(AbstractBaseUser):
    """A person (or service account) of the instance. The e-mail address is the key everywhere."""

    email = models.CharField(max_length=255, primary_key=True)
    password = models.CharField(max_length=255, db_column="password_hash")
    last_login = None
    login_type = models.CharField(max_length=50, default="password")
    super_admin = models.BooleanField(default=False)
    devops = models.BooleanField(default=False)
    verified = models.BooleanField(default=True)
    name = models.CharField(max_length=255, null=True, blank=True)
    company = models.CharField(max_length=255, null=True, blank=True)
    username = models.CharField(max_length=50, null=True, blank=True)
    disabled = models.BooleanField(default=False)
    first_time_user = models.BooleanField(default=False)
    # True while the account still has the well-known first password: sign-in from elsewhere must change it first.
    must_change_password = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        db_table = "password"
        ordering = ("email",)

    def __str__(self) -> str:
        return self.email

    # What Django's admin asks of a user: superadmins may all, others nothing.
    @property
    def is_active(self) -> bool:  # type: ignore[override]
        return not self.disabled

    @property
    def is_staff(self) -> bool:
        return self.super_admin and not self.disabled

    @property
    def is_superuser(self) -> bool:
        return self.is_staff

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return self.is_staff

    def has_module_perms(self, app_label: str) -> bool:
        return self.is_staff

    def get_short_name(self) -> str:
        return self.name or self.email


class Workspace(models.Model):
    """A tenant. Archived workspaces keep their rows (`deleted`) and refuse everything else."""

    id = models.CharField(max_length=50, primary_key=True)
    name = models.CharField(max_length=100)
    owner = models.CharField(max_length=255)
    color = models.CharField(max_length=20, null=True, blank=True)
    deleted = models.BooleanField(default=False)
    parent_workspace = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "workspace"
        ordering = ("id",)

    def __str__(self) -> str:
        return self.id


class WorkspaceKey(models.Model):
    """The key that encrypts a workspace's secrets, itself encrypted by the instance key (`workspaces.secrets`)."""

    workspace = models.OneToOneField(Workspace, primary_key=True, on_delete=models.CASCADE)
    key = models.TextField()

    class Meta:
        db_table = "workspace_key"

    def __str__(self) -> str:
        return f"key of {self.workspace_id}"


class Member(models.Model):
    """An account inside a workspace, under a username of its own there."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    username = models.CharField(max_length=255)
    email = models.CharField(max_length=255)
    is_admin = models.BooleanField(default=False)
    operator = models.BooleanField(default=False)
    disabled = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "usr"
        ordering = ("username",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "username"], name="usr_username_once_a_workspace"),
            models.UniqueConstraint(fields=["email", "workspace"], name="usr_email_once_a_workspace"),
            models.CheckConstraint(
                condition=~models.Q(is_admin=True, operator=True), name="usr_admin_is_not_operator"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.username}@{self.workspace_id}"


class Group(models.Model):
    """People of a workspace under one name. `all` holds every member without being listed in `usr_to_group`."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    name = models.CharField(max_length=50)
    summary = models.TextField(blank=True, default="")
    extra_perms = models.JSONField(default=dict, blank=True)  # {"u/alice": true}: who may manage the group

    class Meta:
        db_table = "group_"
        ordering = ("name",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="group_name_once_a_workspace")
        ]

    def __str__(self) -> str:
        return f"g/{self.name}"


class GroupMember(models.Model):
    """Username in group."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="memberships")
    member = models.ForeignKey(Member, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        db_table = "usr_to_group"
        constraints: ClassVar = [models.UniqueConstraint(fields=["group", "member"], name="usr_once_a_group")]

    def __str__(self) -> str:
        return f"{self.member_id} in {self.group_id}"


class Folder(models.Model):
    """`f/<name>/...`: items that share access rules. Owners manage it; extra_perms: true writes, false reads."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    name = models.CharField(max_length=50)
    display_name = models.CharField(max_length=100, blank=True, default="")
    summary = models.TextField(null=True, blank=True)
    owners = ArrayField(models.CharField(max_length=255), default=list, blank=True)
    extra_perms = models.JSONField(default=dict, blank=True)
    default_permissioned_as = models.JSONField(default=list, blank=True)
    labels = ArrayField(models.CharField(max_length=50), default=list, blank=True)
    created_by = models.CharField(max_length=255, null=True, blank=True)
    edited_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "folder"
        ordering = ("name",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="folder_name_once_a_workspace")
        ]

    def __str__(self) -> str:
        return f"f/{self.name}"


class Token(models.Model):
    """A bearer token. Only the SHA-256 is kept; the first ten characters name it in lists."""

    token_hash = models.CharField(max_length=64, primary_key=True)
    token_prefix = models.CharField(max_length=10)
    email = models.CharField(max_length=255, db_index=True)
    label = models.CharField(max_length=255, null=True, blank=True)
    expiration = models.DateTimeField(null=True, blank=True)
    scopes = ArrayField(
        models.CharField(max_length=1000), null=True, blank=True
    )  # null: all the account may do
    workspace = models.ForeignKey(Workspace, null=True, blank=True, on_delete=models.CASCADE)
    read_only = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "token"
        ordering = ("-created_at",)
        indexes: ClassVar = [models.Index(fields=["token_prefix"], name="token_prefix_idx")]

    def __str__(self) -> str:
        return f"{self.token_prefix}…"


class Variable(models.Model):
    """A named value. A secret one holds ciphertext (`workspaces.secrets`)."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    path = models.CharField(max_length=255)
    value = models.TextField()
    is_secret = models.BooleanField(default=False)
    description = models.TextField(blank=True, default="")
    extra_perms = models.JSONField(default=dict, blank=True)
    labels = ArrayField(models.CharField(max_length=50), default=list, blank=True)
    account = models.IntegerField(null=True, blank=True)
    is_oauth = models.BooleanField(default=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    edited_at = models.DateTimeField(db_default=Now())
    edited_by = models.CharField(max_length=255, blank=True, default="")

    class Meta:
        db_table = "variable"
        ordering = ("path",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "path"], name="variable_path_once_a_workspace")
        ]

    def __str__(self) -> str:
        return self.path


class ResourceType(models.Model):
    """The schema of a kind of resource. Those of workspace `admins` are shared with every workspace."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    name = models.CharField(max_length=50)
    schema = models.JSONField(null=True, blank=True)
    description = models.TextField(blank=True, default="")
    format_extension = models.CharField(max_length=20, null=True, blank=True)
    is_fileset = models.BooleanField(default=False)
    display_name = models.CharField(max_length=100, null=True, blank=True)
    created_by = models.CharField(max_length=255, null=True, blank=True)
    edited_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "resource_type"
        ordering = ("name",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="resource_type_once_a_workspace")
        ]

    def __str__(self) -> str:
        return self.name


class Resource(models.Model):
    """A JSON value of a type (a database connection, an API account). Secrets are referenced as `$var:path`."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    path = models.CharField(max_length=255)
    value = models.JSONField(null=True, blank=True)
    description = models.TextField(blank=True, default="")
    resource_type = models.CharField(max_length=50)
    extra_perms = models.JSONField(default=dict, blank=True)
    labels = ArrayField(models.CharField(max_length=50), default=list, blank=True)
    created_by = models.CharField(max_length=255, null=True, blank=True)
    edited_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "resource"
        ordering = ("path",)
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "path"], name="resource_path_once_a_workspace")
        ]

    def __str__(self) -> str:
        return self.path


class InstanceSetting(models.Model):
    """One setting of the whole instance, as JSON. Names: reference/governance.md section 8."""

    name = models.CharField(max_length=255, primary_key=True)
    value = models.JSONField()
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "global_settings"
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class ActionKind(models.TextChoices):
    """What kind of thing an audit entry tells of."""

    CREATE = "create", "Create"
    UPDATE = "update", "Update"
    DELETE = "delete", "Delete"
    EXECUTE = "execute", "Execute"


class AuditEntry(models.Model):
    """Who did what, when. Append-only; `parameters` never holds secrets."""

    workspace_id = models.CharField(max_length=50)
    timestamp = models.DateTimeField(db_default=Now())
    username = models.CharField(max_length=255)
    email = models.CharField(max_length=255, blank=True, default="")
    operation = models.CharField(max_length=50)
    action_kind = models.CharField(max_length=10, choices=ActionKind.choices)
    resource = models.CharField(max_length=255, null=True, blank=True)
    parameters = models.JSONField(null=True, blank=True)
    span = models.CharField(max_length=255, null=True, blank=True)

    class Meta:
        db_table = "audit"
        ordering = ("-id",)
        verbose_name_plural = "audit entries"
        indexes: ClassVar = [
            models.Index(fields=["workspace_id", "-id"], name="audit_workspace_idx"),
            models.Index(fields=["timestamp"], name="audit_timestamp_idx"),
            # Counted at every sign-in (workspaces.sign_in_limits), between millions of job entries.
            models.Index(
                fields=["timestamp"],
                name="audit_login_failure_idx",
                condition=models.Q(operation="users.login_failure"),
            ),
            # Looked at before output of a job is stored (jobs/sql/append_logs.sql).
            models.Index(
                fields=["span"],
                name="audit_secret_reads_idx",
                condition=models.Q(operation="variables.decrypt_secret"),
            ),
            # The history of a worker group, on its page.
            models.Index(
                fields=["resource", "-id"],
                name="audit_worker_config_idx",
                condition=models.Q(operation__in=["worker_config.update", "worker_config.delete"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operation} by {self.username}"


class Alert(models.Model):
    """Something that those who operate the instance should look at (workspaces.alerts)."""

    kind = models.CharField(max_length=50)  # too_few_workers, ...
    subject = models.CharField(max_length=255)  # what it is about: the name of a worker group, ...
    message = models.TextField()
    created_at = models.DateTimeField(db_default=Now())
    raised_at = models.DateTimeField(
        null=True, blank=True
    )  # null: it may be over in a moment, nobody is told yet
    resolved_at = models.DateTimeField(null=True, blank=True)  # null: it goes on
    acknowledged = models.BooleanField(default=False, db_default=False)
    acknowledged_by = models.CharField(max_length=255, blank=True, default="", db_default="")  # e-mail

    class Meta:
        db_table = "alerts"
        ordering = ("-id",)
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["kind", "subject"],
                name="alerts_open_once",
                condition=models.Q(resolved_at=None),
            ),
        ]

    def __str__(self) -> str:
        return self.message
