"""Windows on accounts, workspaces and what governs them. Changes go through the domain functions."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from workspaces import accounts, instance_settings, tokens, workspaces
from workspaces.access import Identity, enter_workspace
from workspaces.errors import DomainError
from workspaces.middleware import identify_or_raise
from workspaces.models import (
    Account,
    AuditEntry,
    Folder,
    Group,
    InstanceSetting,
    Member,
    ResourceType,
    Token,
    Workspace,
)


class Window(admin.ModelAdmin):
    """Rows to look at: nothing is added, changed or deleted but by the actions."""

    show_full_result_count = False  # counting a large table costs more than the page
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def carry_out(
    request: HttpRequest, rows: QuerySet[Any], deed: Callable[[Identity, Any], Any], *, done: str
) -> None:
    """Do the same to each row as the superadmin who asked, and say how it went; one failure stops no other."""
    identity = identify_or_raise(request)
    count = 0
    for row in rows:
        try:
            deed(identity, row)
            count += 1
        except DomainError as exc:
            messages.error(request, f"{row}: {exc.message}")
    if count:
        messages.success(request, f"{count} {done}")


@admin.register(Workspace)
class WorkspaceAdmin(Window):
    """Tenants."""

    list_display = ("id", "name", "owner", "deleted", "created_at")
    list_filter = ("deleted",)
    search_fields = ("id", "name", "owner")
    actions = ("archive", "unarchive")

    @admin.action(description="Archive: close for everybody but superadmins")
    def archive(self, request: HttpRequest, rows: QuerySet[Workspace]) -> None:
        carry_out(
            request,
            rows,
            lambda by, row: workspaces.archive_workspace(enter_workspace(by, row.pk)),
            done="archived",
        )

    @admin.action(description="Unarchive")
    def unarchive(self, request: HttpRequest, rows: QuerySet[Workspace]) -> None:
        carry_out(
            request, rows, lambda by, row: workspaces.unarchive_workspace(by, row.pk), done="opened again"
        )


@admin.register(Account)
class AccountAdmin(Window):
    """People of the instance. Password hashes are not shown."""

    list_display = ("email", "name", "login_type", "super_admin", "devops", "disabled", "created_at")
    list_filter = ("super_admin", "devops", "disabled", "login_type")
    search_fields = ("email", "name")
    exclude = ("password",)
    actions = ("disable", "enable")

    @admin.action(description="Disable: no sign-in, no tokens, no jobs")
    def disable(self, request: HttpRequest, rows: QuerySet[Account]) -> None:
        carry_out(
            request, rows, lambda by, row: accounts.update_account(by, row.pk, disabled=True), done="disabled"
        )

    @admin.action(description="Enable")
    def enable(self, request: HttpRequest, rows: QuerySet[Account]) -> None:
        carry_out(
            request, rows, lambda by, row: accounts.update_account(by, row.pk, disabled=False), done="enabled"
        )


@admin.register(Member)
class MemberAdmin(Window):
    """Who is in which workspace, as what."""

    list_display = ("username", "email", "workspace_id", "is_admin", "operator", "disabled")
    list_filter = ("is_admin", "operator", "disabled")
    search_fields = ("username", "email", "workspace__id")


@admin.register(Group)
class GroupAdmin(Window):
    """Groups of workspaces."""

    list_display = ("name", "workspace_id", "summary")
    search_fields = ("name", "workspace__id")


@admin.register(Folder)
class FolderAdmin(Window):
    """Folders of workspaces and their rules."""

    list_display = ("name", "workspace_id", "owners", "edited_at")
    search_fields = ("name", "workspace__id")


@admin.register(Token)
class TokenAdmin(Window):
    """Tokens by their first characters. Neither text nor hash is shown."""

    list_display = (
        "token_prefix",
        "email",
        "label",
        "workspace_id",
        "read_only",
        "expiration",
        "last_used_at",
    )
    list_filter = ("read_only",)
    search_fields = ("token_prefix", "email", "label")
    fields = (
        "token_prefix",
        "email",
        "label",
        "scopes",
        "workspace",
        "read_only",
        "expiration",
        "created_at",
        "last_used_at",
    )
    actions = ("revoke",)

    @admin.action(description="Revoke")
    def revoke(self, request: HttpRequest, rows: QuerySet[Token]) -> None:
        carry_out(request, rows, lambda by, row: tokens.revoke_tokens(by, [row.pk]), done="revoked")


@admin.register(ResourceType)
class ResourceTypeAdmin(Window):
    """Kinds of resources."""

    list_display = ("name", "workspace_id", "description", "created_by", "edited_at")
    search_fields = ("name", "workspace__id")


@admin.register(InstanceSetting)
class InstanceSettingAdmin(admin.ModelAdmin):
    """Settings of the instance, written through their domain functions."""

    list_display = ("name", "updated_at")
    search_fields = ("name",)
    fields = ("name", "value")
    actions = None

    def get_readonly_fields(
        self, request: HttpRequest, obj: InstanceSetting | None = None
    ) -> tuple[str, ...]:
        return () if obj is None else ("name",)

    def save_model(self, request: HttpRequest, obj: InstanceSetting, form: Any, change: bool) -> None:
        try:
            instance_settings.set_setting(identify_or_raise(request), obj.name, obj.value)
        except DomainError as exc:
            messages.set_level(request, messages.ERROR)
            messages.error(request, f"Not saved: {exc.message}")

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None  # the audit log has it

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return None

    def delete_model(self, request: HttpRequest, obj: InstanceSetting) -> None:
        instance_settings.set_setting(identify_or_raise(request), obj.name, None)


@admin.register(AuditEntry)
class AuditEntryAdmin(Window):
    """Who did what, when."""

    list_display = ("timestamp", "workspace_id", "username", "operation", "action_kind", "resource")
    list_filter = ("action_kind",)
    search_fields = ("username", "email", "operation", "resource", "workspace_id")
