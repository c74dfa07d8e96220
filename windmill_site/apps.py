"""Django app of the site itself: template tags, the `bootstrap` command, the pages that belong to no app."""

from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "windmill_site"
    verbose_name = "Site"
