"""Sign in and out."""

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces import accounts, middleware, tokens
from workspaces.api.base import InstanceView, read_body
from workspaces.api.fields import BOOLEAN_OK, TEXT_OK, Body, Text
from workspaces.api.protocol import text
from workspaces.errors import DomainError, PermissionDenied
from workspaces.sign_in_limits import address_of


class LoginBody(Body):
    """Credentials."""

    email = Text(max_length=255)
    password = Text(max_length=1000)


class Login(InstanceView):
    """Answers a token, as text and as the cookie `token`."""

    public = True

    @extend_schema(operation_id="login", tags=["user"], request=LoginBody, responses=TEXT_OK)
    def post(self, request: Request) -> HttpResponse:
        # Nobody's browser may be signed in to an account chosen by another site.
        if middleware.is_cross_site(request._request):
            raise PermissionDenied("this sign-in came from another site's page")
        body = read_body(LoginBody, request)
        account = accounts.sign_in(
            email=body["email"],
            password=body["password"],
            from_loopback=middleware.is_from_loopback(request._request),
            address=address_of(request._request),
        )
        token = tokens.create_session(account)
        response = text(token)
        middleware.set_session_cookie(response, token)
        return response


class Logout(InstanceView):
    """Forgets the token that was sent and clears the cookie. Works without one too."""

    public = True

    @extend_schema(operation_id="logout", tags=["user"], request=None, responses=TEXT_OK)
    def post(self, request: Request) -> HttpResponse:
        try:
            tokens.end_session(middleware.credentials(request._request))
        except DomainError:
            pass
        response = text("logged out")
        middleware.clear_session_cookie(response)
        return response


class IsSmtpConfigured(InstanceView):
    """Can this instance send mail (for example to reset a password)?"""

    public = True

    @extend_schema(operation_id="isSmtpConfigured", tags=["user"], responses=BOOLEAN_OK)
    def get(self, request: Request) -> Response:
        return Response(False)


class IsPasswordLoginDisabled(InstanceView):
    """Is signing in with a password switched off?"""

    public = True

    @extend_schema(operation_id="isPasswordLoginDisabled", tags=["user"], responses=BOOLEAN_OK)
    def get(self, request: Request) -> Response:
        return Response(False)
