"""Django app: who may do what."""

from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "workspaces"
    verbose_name = "Workspaces and people"

    def ready(self) -> None:
        from workspaces import acls, folders, groups
        from workspaces.api import schema  # noqa: F401  registers itself with drf-spectacular
        from workspaces.models import Resource, Variable

        acls.register_paths("variable", Variable.objects.all)
        acls.register_paths("resource", Resource.objects.all)
        acls.register_kind("folder", folders.fetch_for_acls)
        acls.register_kind("group_", groups.fetch_for_acls)
