"""Everything under /api: the routes of the apps, and the site's own (version, health, schema)."""

from django.urls import include, path

urlpatterns = [
    path("", include("workspaces.api.urls")),
    path("", include("jobs.api.urls")),
    path("", include("workers.api.urls")),
    path("", include("windmill_site.instance_urls")),
]
