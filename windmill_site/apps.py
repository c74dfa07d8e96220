"""Django app of the site itself: template tags, the `bootstrap` command, the pages that belong to no app."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class SiteConfig(AppConfig):
    name = "windmill_site"
    verbose_name = "Site"


class WindmillAdminConfig(AdminConfig):
    """Django's admin with our site class: our sign-in instead of the session's."""

    default_site = "windmill_site.admin_site.WindmillAdminSite"
