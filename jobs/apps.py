"""Django app: what runs and when."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Scripts and jobs"
