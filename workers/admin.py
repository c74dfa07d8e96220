"""Windows on worker groups and workers. A group's configuration is written by the function that everybody else calls."""

import json
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from jobs.models import WorkerPing
from workers.fleet import dead_workers, restarts
from workers.groups import changes, configs, schema
from workers.groups.changes import ShownChange
from workers.models import Config
from workspaces.admin import Window, carry_out
from workspaces.errors import DomainError
from workspaces.middleware import identify_or_raise

SHOWN_CHANGES = 20


class IndentedJSONField(forms.JSONField):
    """JSON that people read and change: an entry a line."""

    widget = forms.Textarea(attrs={"rows": 24, "cols": 100, "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


class GroupConfigForm(forms.ModelForm):
    """The configuration as JSON, checked like everywhere. Values of variables are not in the page."""

    config = IndentedJSONField(
        required=False,
        help_text=f"Its fields: docs/worker-groups.md. Values of env_vars_static are hidden: {schema.HIDDEN} keeps the "
        "one that is there. The page of the group shows them.",
    )

    group = forms.CharField(max_length=configs.MAX_NAME, help_text="As WORKER_GROUP names it.")
    seen = forms.CharField(widget=forms.HiddenInput, required=False)  # what the change was made from

    class Meta:
        model = Config
        fields = ("config",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        is_new = self.instance._state.adding
        if not is_new:
            self.initial["config"] = schema.hide_variables(_config(self.instance) or {})
        self.fields["seen"].initial = "" if is_new else configs.fingerprint(_config(self.instance))
        self.fields["group"].initial = "" if is_new else self.instance.name.removeprefix(configs.PREFIX)
        self.fields["group"].disabled = not is_new

    def clean_group(self) -> str:
        name: str = self.cleaned_data["group"]
        try:
            return configs.check_name(name)
        except DomainError as exc:
            raise forms.ValidationError(exc.message) from exc

    def clean_config(self) -> dict[str, Any]:
        try:
            given = self.cleaned_data["config"]
            config = schema.checked({} if given is None else given)
            return schema.keep_hidden(config, None if self.instance._state.adding else _config(self.instance))
        except DomainError as exc:
            raise forms.ValidationError(exc.message) from exc

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        name = data.get("group")
        if name and data.get("seen", "") != configs.fingerprint(configs.get(name)):
            raise forms.ValidationError(configs.changed_meanwhile(name).message)
        return data

    def validate_unique(self) -> None:
        """The name is compared in `clean`, with what was seen."""


@admin.register(Config)
class GroupConfigAdmin(admin.ModelAdmin):
    """Configurations of worker groups."""

    form = GroupConfigForm
    fields = ("group", "config", "seen", "changes")
    readonly_fields = ("changes",)
    list_display = ("group", "tags", "says")
    search_fields = ("name",)
    actions = ("restart",)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Ours: a configuration is deleted on its page, by the function that everybody else calls."""
        return {name: act for name, act in super().get_actions(request).items() if name != "delete_selected"}

    @admin.action(description="Restart the group's workers, when they are done with what they run")
    def restart(self, request: HttpRequest, rows: QuerySet[Config]) -> None:
        carry_out(
            request,
            rows,
            lambda by, row: restarts.restart(name=row.name.removeprefix(configs.PREFIX), actor=by),
            done="told to restart",
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Config]:
        return super().get_queryset(request).filter(name__startswith=configs.PREFIX)

    @admin.display(description="Group", ordering="name")
    def group(self, row: Config) -> str:
        return row.name.removeprefix(configs.PREFIX)

    @admin.display(description="Tags")
    def tags(self, row: Config) -> str:
        tags = row.config.get("worker_tags") if isinstance(row.config, dict) else None
        return ", ".join(map(str, tags)) if isinstance(tags, list) else "-"

    @admin.display(description="Says something of")
    def says(self, row: Config) -> str:
        return ", ".join(map(str, row.config)) if row.config else "nothing"

    @admin.display(description="Last changes")
    def changes(self, row: Config) -> SafeString | str:
        """Who changed what, newest first; of variables the names only."""
        lines = [
            (f"{entry.timestamp:%Y-%m-%d %H:%M:%S} UTC", entry.email, _told(_of_entry(entry.parameters)))
            for entry in configs.history(row.name.removeprefix(configs.PREFIX), limit=SHOWN_CHANGES)
        ]
        return format_html_join("", "<p>{} {}: {}</p>", lines) or "-"

    def save_model(self, request: HttpRequest, obj: Config, form: Any, change: bool) -> None:
        data = form.cleaned_data
        try:
            done = configs.update(
                name=data["group"], config=obj.config, actor=identify_or_raise(request), seen=data["seen"]
            )
        except DomainError as exc:  # somebody was faster, between the check of the form and here
            messages.set_level(request, messages.ERROR)
            messages.error(request, f"Not saved: {exc.message}")
            return
        obj.name = configs.PREFIX + done.name
        told = _told([changes.shown(*found) for found in done.differences])
        messages.info(request, f"Group {done.name}: {told}")
        for warning in done.warnings:
            messages.warning(request, warning)

    def delete_model(self, request: HttpRequest, obj: Config) -> None:
        configs.delete(name=obj.name.removeprefix(configs.PREFIX), actor=identify_or_raise(request))

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None  # the audit log has it

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return None


def _config(row: Config) -> dict[str, Any] | None:
    return configs.get(row.name.removeprefix(configs.PREFIX))


def _of_entry(parameters: Any) -> list[ShownChange]:
    found = parameters.get("changes", ()) if isinstance(parameters, dict) else ()
    return [changes.shown(one["field"], one["before"], one["after"], one["effect"]) for one in found]


def _told(changes: list[ShownChange]) -> str:
    """Changes in one line of text."""
    parts = []
    for change in changes:
        what = [
            *(f"added {text}" for text in change.added),
            *(f"removed {text}" for text in change.removed),
            *(f"changed {text}" for text in change.changed),
        ]
        if change.lines:
            what.append("changed")
        elif change.before or change.after:
            what.append(f"{change.before} → {change.after}")
        effect = f" ({change.effect_words})" if change.effect_words else ""
        parts.append(f"{change.title}: {', '.join(what)}{effect}")
    return "; ".join(parts) or "nothing changed"


@admin.register(WorkerPing)
class WorkerAdmin(Window):
    """Workers as they last reported."""

    list_display = (
        "worker",
        "worker_group",
        "worker_instance",
        "state",
        "state_note",
        "ping_at",
        "job_isolation",
        "native_mode",
        "slots",
        "busy_slots",
        "jobs_executed",
        "occupancy_rate_5m",
        "wm_version",
    )
    list_filter = ("worker_group", "state", "job_isolation", "native_mode")
    search_fields = ("worker", "worker_instance", "worker_group")
    ordering = ("-ping_at",)
    actions = ("forget",)

    @admin.action(description="Take off the list (dead ones only)")
    def forget(self, request: HttpRequest, rows: QuerySet[WorkerPing]) -> None:
        carry_out(
            request,
            rows,
            lambda by, row: dead_workers.forget(actor=by, worker=row.pk),
            done="taken off the list",
        )
