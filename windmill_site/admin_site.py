"""Django's admin for superadmins, behind the one sign-in of the instance."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from workspaces.middleware import identify
from workspaces.pages import safe_next


class WindmillAdminSite(AdminSite):
    """The window on the tables. Signing in, out and changing passwords happen on the pages of the instance."""

    site_title = "Windmill admin"
    site_header = "Windmill administration"
    index_title = "Instance"
    enable_nav_sidebar = True

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        """As Django's, but for Django's own groups: rights here come from workspaces, those groups give none."""
        models: list[Any] = (
            [model_or_iterable] if isinstance(model_or_iterable, type) else [*model_or_iterable]
        )
        ours = [model for model in models if model._meta.label != "auth.Group"]
        super().register(ours, admin_class, **options)

    def has_permission(self, request: HttpRequest) -> bool:
        """Superadmins only, and only with a token that is good for everything: no scopes, no workspace, no job."""
        identity = identify(request)
        return (
            identity is not None
            and identity.account is not None
            and identity.super_admin
            and identity.scopes is None
            and identity.workspace_id is None
            and not identity.read_only
            and not identity.is_job
        )

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The sign-in page of the instance; somebody signed in who is no superadmin is told so."""
        if self.has_permission(request):
            return HttpResponseRedirect(safe_next(request, request.GET.get("next"), self.index_url))
        if identify(request) is not None:
            raise PermissionDenied("the administration is for superadmins of the instance")
        target = safe_next(request, request.GET.get("next"), self.index_url)
        return HttpResponseRedirect(f"{settings.LOGIN_URL}?{urlencode({'next': target})}")

    def logout(  # type: ignore[override]  # never a page of its own
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Sign-out is on the pages of the instance."""
        return HttpResponseRedirect("/")

    def password_change(  # type: ignore[override]  # never a page of its own
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """One's own password is on the account page."""
        return HttpResponseRedirect("/account/")

    @property
    def index_url(self) -> str:
        """Address of the admin's first page."""
        return "/admin/"
