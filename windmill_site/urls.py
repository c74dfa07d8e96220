"""The address space: /api (REST), /w (pages), /admin (superadmins), /ws (websockets, see asgi.py)."""

from django.urls import include, path, re_path

from windmill_site import views

urlpatterns = [
    path("api/", include("windmill_site.api_urls")),
    path("", include("windmill_site.page_urls")),
    re_path(r"^api(/.*)?$", views.api_not_found),
]
handler404 = "windmill_site.views.not_found"
handler500 = "windmill_site.views.server_error"
handler403 = "windmill_site.views.forbidden"
handler400 = "windmill_site.views.bad_request"
