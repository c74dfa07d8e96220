"""Addresses of the pages."""

from django.contrib import admin
from django.http import HttpResponseRedirect
from django.templatetags.static import static
from django.urls import include, path

from windmill_site import api_docs, home, palette

urlpatterns = [
    path("admin/", admin.site.urls),
    # Browsers ask for it on pages that are not ours to write, such as the admin's.
    path("favicon.ico", lambda request: HttpResponseRedirect(static("brand.svg"))),
    path("openapi/", api_docs.browse, name="openapi"),
    path("palette/", palette.palette, name="palette"),
    path("w/<str:workspace>/", home.home, name="home"),
    path("w/<str:workspace>/samples/run/", home.run_sample, name="run-sample"),
    path("", include("workspaces.page_urls")),
    path("", include("jobs.page_urls")),
    path("", include("workers.page_urls")),
]
