"""The common ground of all REST routes: one access check, bodies and queries read by serializers.

A route is a small class on `InstanceView` or `WorkspaceView`. What clients rely on (reference/routes-cli.md section 0):
exact paths, JSON as application/json, texts as text/plain, errors as plain text with the right status, never HTML.
"""

from typing import Any, ClassVar

from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from workspaces.access import Caller, Identity, enter_workspace
from workspaces.api.protocol import SAFE_METHODS
from workspaces.errors import BadRequest, NotSignedIn
from workspaces.jsontext import check_storable

MAX_PER_PAGE = 10_000


class InstanceView(APIView):
    """A route outside any workspace. `identity` is who called."""

    public: ClassVar[bool] = False  # True: works signed out
    domain: ClassVar[str] = "users"  # scope domain
    verb: ClassVar[str | None] = (
        None  # scope action: read, write or run; default read for GET, write otherwise
    )
    confined: ClassVar[bool] = False  # True: also for tokens confined to one workspace (job tokens)

    @property
    def identity(self) -> Identity:
        auth = self.request.auth
        if not isinstance(auth, Identity):
            raise NotSignedIn("sign in first, or send a token: Authorization: Bearer <token>")
        return auth

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.public:
            return
        if not self.confined:
            self.identity.require_global()
        self.identity.require_scope(self.domain, self.scope_action())

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Which methods work here, in the Allow header."""
        return HttpResponse(status=204, headers={"Allow": ", ".join(self.allowed_methods)})

    def scope_action(self) -> str:
        """read, write or run, as scopes name it. (Not `action`: REST framework gives that name a meaning.)"""
        return self.verb or ("read" if self.request.method in SAFE_METHODS else "write")


class WorkspaceView(InstanceView):
    """A route under /api/w/<workspace>/. `caller` is who called, with the rights in that workspace."""

    operators_may_write: ClassVar[bool] = False
    admins_only: ClassVar[bool] = False
    caller: Caller

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        APIView.initial(self, request, *args, **kwargs)
        self.caller = enter_workspace(self.identity, kwargs["workspace"])
        self.identity.require_scope(self.domain, self.scope_action())
        if self.admins_only:
            self.caller.require_admin()
        if self.scope_action() == "write" and not self.operators_may_write:
            self.caller.require_not_operator()


def read_body(serializer_class: type[serializers.Serializer], request: Request) -> dict[str, Any]:
    """The body, checked for shape. Raises BadRequest naming each field that is wrong."""
    if not isinstance(request.data, dict):
        raise BadRequest(f"expected a JSON object, got {_json_kind(request.data)}")
    serializer = serializer_class(data=request.data)
    if not serializer.is_valid():
        raise BadRequest(describe_problems(serializer.errors))
    return dict(serializer.validated_data)


def text_body(request: Request) -> str:
    """The body as text, whatever its type says. Raises BadRequest (not UTF-8, NUL), RequestDataTooBig."""
    try:
        value = request._request.body.decode()
    except UnicodeDecodeError as exc:
        raise BadRequest(f"the body is not UTF-8 text (byte {exc.start})") from exc
    check_storable(value)
    return value


def read_query(serializer_class: type[serializers.Serializer], request: Request) -> dict[str, Any]:
    """The query string, checked likewise; unknown parameters are ignored."""
    serializer = serializer_class(data=request.query_params.dict())
    if not serializer.is_valid():
        raise BadRequest("query: " + describe_problems(serializer.errors))
    return dict(serializer.validated_data)


def describe_problems(errors: Any, where: str = "") -> str:
    """DRF's nested errors as one sentence: `args.x: A valid integer is required.`"""
    if isinstance(errors, dict):
        return "; ".join(
            describe_problems(inner, f"{where}.{key}" if where else str(key)) for key, inner in errors.items()
        )
    if isinstance(errors, list) and errors and all(isinstance(item, dict | list) for item in errors):
        return "; ".join(describe_problems(inner, f"{where}[{i}]") for i, inner in enumerate(errors) if inner)
    text = " ".join(str(item) for item in errors) if isinstance(errors, list) else str(errors)
    return f"{where}: {text}" if where else text


def page_bounds(request: Request, *, default_per_page: int = 1000) -> slice:
    """Rows of the asked page. `page` counts from 1 and 0 means the same (reference/routes-cli.md section 0)."""
    per_page = _whole(request, "per_page", default_per_page)
    page = max(_whole(request, "page", 1), 1)
    per_page = min(max(per_page, 1), MAX_PER_PAGE)
    if page > 1_000_000_000:
        raise BadRequest("query: page is out of range")
    return slice((page - 1) * per_page, page * per_page)


def _whole(request: Request, name: str, default: int) -> int:
    raw = request.query_params.get(name)
    if raw in (None, ""):
        return default
    if not (isinstance(raw, str) and raw.isascii() and raw.isdigit() and len(raw) < 12):
        raise BadRequest(f"query: {name} is {str(raw)[:40]!r}; expected a whole number")
    return int(raw)


def flag(request: Request, name: str, *, default: bool | None = None) -> Any:
    """A boolean query parameter: true/false (1/0). Raises BadRequest for anything else."""
    raw = request.query_params.get(name)
    if raw in (None, ""):
        return default
    if raw.lower() in ("true", "1"):
        return True
    if raw.lower() in ("false", "0"):
        return False
    raise BadRequest(f"query: {name} is {raw[:40]!r}; expected true or false")


def _json_kind(value: Any) -> str:
    return {
        list: "a list",
        str: "a text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        type(None): "null",
    }.get(type(value), "something else")
