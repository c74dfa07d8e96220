"""Django app: who may do what."""

from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "workspaces"
    verbose_name = "Workspaces and people"

    def ready(self) -> None:
        from workspaces import acls
        from workspaces.models import Resource, Variable

        acls.register_paths("variable", Variable.objects.all)
        acls.register_paths("resource", Resource.objects.all)
