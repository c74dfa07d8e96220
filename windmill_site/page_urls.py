"""Addresses of the pages."""

from django.contrib import admin
from django.urls import include, path

from windmill_site import api_docs, home, palette

urlpatterns = [
    path("admin/", admin.site.urls),
    path("openapi/", api_docs.browse, name="openapi"),
    path("palette/", palette.palette, name="palette"),
    path("w/<str:workspace>/", home.home, name="home"),
    path("w/<str:workspace>/samples/run/", home.run_sample, name="run-sample"),
    path("w/<str:workspace>/archive/scripts/<path:path>/", home.archive_script, name="archive-script"),
    path("", include("workspaces.page_urls")),
    path("", include("jobs.page_urls")),
    path("", include("workers.page_urls")),
]
