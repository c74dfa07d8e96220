"""Accounts of the instance and one's own tokens."""

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces import accounts, scopes, tokens
from workspaces.api.base import InstanceView, flag, page_bounds, read_body
from workspaces.api.fields import BOOLEAN_OK, TEXT_CREATED, TEXT_OK, Body, Flag, Name, Text, Texts, Time
from workspaces.api.parameters import PAGES, switch
from workspaces.api.protocol import text
from workspaces.api.shapes import GlobalUserInfo, ScopeDomain, TruncatedToken


class WhoAmI(InstanceView):
    """The account that calls."""

    confined = True

    @extend_schema(operation_id="globalWhoami", tags=["user"], responses=GlobalUserInfo)
    def get(self, request: Request) -> Response:
        return Response(accounts.who_am_i(self.identity))


class Email(InstanceView):
    """The e-mail address that calls."""

    confined = True

    @extend_schema(operation_id="getCurrentEmail", tags=["user"], responses=TEXT_OK)
    def get(self, request: Request) -> HttpResponse:
        return text(self.identity.email)


class Usage(InstanceView):
    """Executions counted against a quota: 0, since there is none."""

    confined = True

    @extend_schema(operation_id="getUsage", tags=["user"], responses={200: OpenApiTypes.INT})
    def get(self, request: Request) -> Response:
        return Response(0)


class CreateUserBody(Body):
    """A new account."""

    email = Name(max_length=255)
    password = Text(required=False, allow_null=True, max_length=1000)
    super_admin = Flag(required=False, default=False)
    name = Text(required=False, allow_null=True, max_length=255)
    company = Text(required=False, allow_null=True, max_length=255)


class CreateUser(InstanceView):
    """Makes an account. Superadmins only."""

    @extend_schema(
        operation_id="createUserGlobally", tags=["user"], request=CreateUserBody, responses=TEXT_CREATED
    )
    def post(self, request: Request) -> HttpResponse:
        body = read_body(CreateUserBody, request)
        account = accounts.create_account(
            self.identity,
            email=body["email"],
            password=body.get("password"),
            super_admin=body["super_admin"],
            name=body.get("name"),
            company=body.get("company"),
        )
        return text(f"email {account.email} created", 201)


class UpdateUserBody(Body):
    """What to change of an account."""

    is_super_admin = Flag(required=False, allow_null=True)
    is_devops = Flag(required=False, allow_null=True)
    name = Text(required=False, allow_null=True)
    company = Text(required=False, allow_null=True)
    disabled = Flag(required=False, allow_null=True)


class UpdateUser(InstanceView):
    """Changes an account. Superadmins only; the last one stays superadmin."""

    @extend_schema(operation_id="globalUserUpdate", tags=["user"], request=UpdateUserBody, responses=TEXT_OK)
    def post(self, request: Request, email: str) -> HttpResponse:
        accounts.update_account(self.identity, email, **read_body(UpdateUserBody, request))
        return text(f"user {email} updated")


class DeleteUser(InstanceView):
    """Deletes an account, its tokens and memberships. Superadmins only."""

    @extend_schema(operation_id="globalUserDelete", tags=["user"], responses=TEXT_OK)
    def delete(self, request: Request, email: str) -> HttpResponse:
        accounts.delete_account(self.identity, email)
        return text(f"user {email} deleted")


class UserExists(InstanceView):
    """Is there an account with this address? Superadmins only: others could collect addresses."""

    @extend_schema(operation_id="existsEmail", tags=["user"], responses=BOOLEAN_OK)
    def get(self, request: Request, email: str) -> Response:
        self.identity.require_super_admin()
        return Response(accounts.account_exists(email))


class PasswordBody(Body):
    """A new password."""

    password = Text(max_length=1000)


class SetPassword(InstanceView):
    """Changes one's own password and ends one's other sign-ins."""

    @extend_schema(operation_id="setPassword", tags=["user"], request=PasswordBody, responses=TEXT_OK)
    def post(self, request: Request) -> HttpResponse:
        body = read_body(PasswordBody, request)
        accounts.set_password(self.identity, email=self.identity.email, new_password=body["password"])
        return text("password updated")


class SetPasswordOf(InstanceView):
    """Changes anybody's password. Superadmins only."""

    @extend_schema(operation_id="setPasswordForUser", tags=["user"], request=PasswordBody, responses=TEXT_OK)
    def post(self, request: Request, email: str) -> HttpResponse:
        body = read_body(PasswordBody, request)
        self.identity.require_super_admin()
        accounts.set_password(self.identity, email=email, new_password=body["password"])
        return text(f"password of {email} updated")


class ListUsers(InstanceView):
    """All accounts. Superadmins and devops only."""

    @extend_schema(
        operation_id="listUsersAsSuperAdmin",
        tags=["user"],
        parameters=[*PAGES, switch("active_only", "Only those that did something in the last 30 days")],
        responses=GlobalUserInfo(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = accounts.list_accounts(self.identity, active_only=flag(request, "active_only", default=False))
        return Response([accounts.account_shape(account) for account in rows[page_bounds(request)]])


class CreateTokenBody(Body):
    """What the token may do; without limits it may do all that its owner may."""

    label = Text(required=False, allow_null=True)  # type: ignore[assignment]  # a field of that name
    expiration = Time(required=False, allow_null=True)
    scopes = Texts(required=False, allow_null=True, max_length=1000)
    workspace_id = Name(required=False, allow_null=True)
    read_only = Flag(required=False, default=False)  # type: ignore[assignment]  # a field of that name


class CreateToken(InstanceView):
    """Makes a token of one's own and answers its text, which is shown this once."""

    @extend_schema(operation_id="createToken", tags=["user"], request=CreateTokenBody, responses=TEXT_CREATED)
    def post(self, request: Request) -> HttpResponse:
        return text(tokens.create_token(self.identity, **read_body(CreateTokenBody, request)), 201)


class ImpersonateBody(Body):
    """Whom to act as."""

    impersonate_email = Name(max_length=255)
    label = Text(required=False, allow_null=True)  # type: ignore[assignment]  # a field of that name
    expiration = Time(required=False, allow_null=True)
    workspace_id = Name(required=False, allow_null=True)


class ImpersonateToken(InstanceView):
    """Makes a token that acts as somebody else. Superadmins only; audited."""

    @extend_schema(
        operation_id="createTokenImpersonate", tags=["user"], request=ImpersonateBody, responses=TEXT_CREATED
    )
    def post(self, request: Request) -> HttpResponse:
        body = read_body(ImpersonateBody, request)
        email = body.pop("impersonate_email")
        return text(tokens.create_impersonation(self.identity, email=email, **body), 201)


class ListTokens(InstanceView):
    """One's own tokens, without their texts."""

    @extend_schema(
        operation_id="listTokens",
        tags=["user"],
        parameters=[*PAGES, switch("exclude_ephemeral", "Without those made by the system for a short time")],
        responses=TruncatedToken(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = tokens.list_tokens(
            self.identity, exclude_ephemeral=flag(request, "exclude_ephemeral", default=False)
        )
        return Response([tokens.token_shape(token) for token in rows[page_bounds(request)]])


class DeleteToken(InstanceView):
    """Deletes one's own token, named by its first ten characters."""

    @extend_schema(operation_id="deleteToken", tags=["user"], responses=TEXT_OK)
    def delete(self, request: Request, token_prefix: str) -> HttpResponse:
        tokens.delete_token(self.identity, token_prefix)
        return text("deleted token")


class LabelBody(Body):
    """A label."""

    label = Text(required=False, allow_null=True, default=None)  # type: ignore[assignment]  # a field of that name


class UpdateTokenLabel(InstanceView):
    """Renames one's own token."""

    @extend_schema(operation_id="updateTokenLabel", tags=["user"], request=LabelBody, responses=TEXT_OK)
    def post(self, request: Request, token_prefix: str) -> HttpResponse:
        tokens.relabel_token(self.identity, token_prefix, label=read_body(LabelBody, request)["label"])
        return text("updated token")


class ScopesBody(Body):
    """Scopes; null for no limit."""

    scopes = Texts(allow_null=True, max_length=1000)


class UpdateTokenScopes(InstanceView):
    """Changes what one's own token may do."""

    @extend_schema(operation_id="updateTokenScopes", tags=["user"], request=ScopesBody, responses=TEXT_OK)
    def post(self, request: Request, token_prefix: str) -> HttpResponse:
        tokens.rescope_token(self.identity, token_prefix, scopes=read_body(ScopesBody, request)["scopes"])
        return text("updated token")


class ListScopes(InstanceView):
    """The scopes that a token can be limited to."""

    domain = "users"

    @extend_schema(operation_id="listAvailableScopes", tags=["token"], responses=ScopeDomain(many=True))
    def get(self, request: Request) -> Response:
        return Response(scopes.known_domains())
