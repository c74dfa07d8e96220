"""Django app: what runs and when."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Scripts and jobs"

    def ready(self) -> None:
        from django.db.models import Q, QuerySet

        from jobs.models import Flow, Script
        from workspaces import acls

        def versions(script: Script) -> QuerySet[Script]:
            """Each of its versions, and those at the path that it had before it was moved."""
            of_line = Q(path=script.path) | Q(hash__in=script.parent_hashes)
            return Script.objects.filter(of_line, workspace_id=script.workspace_id)

        acls.register_paths(
            "script", lambda: Script.objects.filter(archived=False, deleted=False), versions=versions
        )
        acls.register_paths("flow", lambda: Flow.objects.filter(archived=False))
