"""Django app: what runs and when."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Scripts and jobs"

    def ready(self) -> None:
        from jobs.models import Script
        from workspaces import acls

        acls.register_paths("script", lambda: Script.objects.filter(archived=False, deleted=False))
