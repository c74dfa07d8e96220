"""Variables and secrets."""

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces import variables
from workspaces.api.base import WorkspaceView, flag, page_bounds, read_body, text_body
from workspaces.api.fields import (
    BOOLEAN_OK,
    TEXT_CREATED,
    TEXT_OK,
    Body,
    Flag,
    Name,
    Rules,
    Text,
    Texts,
    Time,
    Whole,
)
from workspaces.api.parameters import PAGES, query, switch
from workspaces.api.protocol import text
from workspaces.api.shapes import ContextualVariable, VariableShape
from workspaces.contextual import contextual_variables
from workspaces.models import Variable

ALREADY_ENCRYPTED = switch(
    "already_encrypted", "The value is ciphertext of this workspace, as an export holds it"
)


class CreateVariableBody(Body):
    """A new variable."""

    path = Name()
    value = Text()
    is_secret = Flag()
    description = Text(required=False, allow_null=True, default="")
    labels = Texts(required=False, allow_null=True)
    account = Whole(required=False, allow_null=True)
    is_oauth = Flag(required=False, allow_null=True)
    expires_at = Time(required=False, allow_null=True)
    extra_perms = Rules(required=False, allow_null=True)


class CreateVariable(WorkspaceView):
    """Makes a variable; a secret one is encrypted at rest."""

    domain = "variables"
    operators_may_write = True  # through a job; the domain decides

    @extend_schema(
        operation_id="createVariable",
        tags=["variable"],
        parameters=[ALREADY_ENCRYPTED],
        request=CreateVariableBody,
        responses=TEXT_CREATED,
    )
    def post(self, request: Request, workspace: str) -> HttpResponse:
        body = read_body(CreateVariableBody, request)
        variable = variables.create_variable(
            self.caller,
            **{
                **body,
                "description": body["description"] or "",
                "is_oauth": bool(body.get("is_oauth")),
                "already_encrypted": flag(request, "already_encrypted", default=False),
            },
        )
        return text(f"variable {variable.path} created", 201)


class UpdateVariableBody(Body):
    """What to change of a variable; what is not given stays."""

    path = Name(required=False, allow_null=True)
    value = Text(required=False, allow_null=True)
    is_secret = Flag(required=False, allow_null=True)
    description = Text(required=False, allow_null=True)
    labels = Texts(required=False, allow_null=True)
    account = Whole(required=False, allow_null=True)
    is_oauth = Flag(required=False, allow_null=True)
    expires_at = Time(required=False, allow_null=True)


class UpdateVariable(WorkspaceView):
    """Changes a variable; with a new path, moves it."""

    domain = "variables"
    operators_may_write = True

    @extend_schema(
        operation_id="updateVariable",
        tags=["variable"],
        parameters=[ALREADY_ENCRYPTED],
        request=UpdateVariableBody,
        responses=TEXT_OK,
    )
    def post(self, request: Request, workspace: str, path: str) -> HttpResponse:
        body = read_body(UpdateVariableBody, request)
        path = variables.update_variable(
            self.caller,
            path,
            new_path=body.pop("path", None),
            already_encrypted=flag(request, "already_encrypted", default=False),
            **body,
        )
        return text(f"variable {path} updated (npath: {path})")


class GetVariable(WorkspaceView):
    """A variable; the value of a secret is decrypted (and that recorded) unless decrypt_secret=false."""

    domain = "variables"

    @extend_schema(
        operation_id="getVariable",
        tags=["variable"],
        parameters=[
            switch("decrypt_secret", "true unless given"),
            switch("include_encrypted", "With decrypt_secret=false: show the ciphertext instead of null"),
        ],
        responses=VariableShape,
    )
    def get(self, request: Request, workspace: str, path: str) -> Response:
        variable = variables.get_variable(self.caller, path)
        return Response(variables.variable_shape(variable, value=self._value(request, variable)))

    def _value(self, request: Request, variable: Variable) -> str | None:
        decrypt = flag(request, "decrypt_secret", default=True)
        encrypted = flag(request, "include_encrypted", default=False)
        if not variable.is_secret or decrypt:
            return variables.read_value(self.caller, variable)
        if not encrypted:
            return None
        self.caller.require_not_operator()
        return variable.value


class GetVariableValue(WorkspaceView):
    """The value of a variable, as a JSON text. Reading a secret is recorded."""

    domain = "variables"

    @extend_schema(operation_id="getVariableValue", tags=["variable"], responses={200: OpenApiTypes.STR})
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(variables.get_value(self.caller, path))


class ListVariables(WorkspaceView):
    """The variables one may read. The value of a secret is null."""

    domain = "variables"

    @extend_schema(
        operation_id="listVariable",
        tags=["variable"],
        parameters=[
            *PAGES,
            query("path_start", "Paths that start with this"),
            query("path", "Paths that contain this"),
            query("value", "Plain values that contain this"),
            query("description", "Descriptions that contain this"),
            query("broad_filter", "Path, description or plain value contains this"),
            query("label"),
        ],
        responses=VariableShape(many=True),
    )
    def get(self, request: Request, workspace: str) -> Response:
        wanted = request.query_params
        rows = variables.list_variables(
            self.caller,
            path_start=wanted.get("path_start"),
            path=wanted.get("path"),
            value=wanted.get("value"),
            description=wanted.get("description"),
            broad=wanted.get("broad_filter"),
            label=wanted.get("label"),
        )[page_bounds(request)]
        return Response(
            [variables.variable_shape(row, value=None if row.is_secret else row.value) for row in rows]
        )


class ExistsVariable(WorkspaceView):
    """Is there a variable at this path?"""

    domain = "variables"

    @extend_schema(operation_id="existsVariable", tags=["variable"], responses=BOOLEAN_OK)
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(variables.variable_exists(self.caller, path))


class DeleteVariable(WorkspaceView):
    """Deletes a variable."""

    domain = "variables"
    operators_may_write = True

    @extend_schema(operation_id="deleteVariable", tags=["variable"], responses=TEXT_OK)
    def delete(self, request: Request, workspace: str, path: str) -> HttpResponse:
        variables.delete_variable(self.caller, path)
        return text(f"variable {path} deleted")


class EncryptValue(WorkspaceView):
    """Ciphertext of the body under the key of this workspace, for `already_encrypted` values."""

    domain = "variables"

    @extend_schema(
        operation_id="encryptValue",
        tags=["variable"],
        request={"text/plain": OpenApiTypes.STR},
        responses=TEXT_OK,
    )
    def post(self, request: Request, workspace: str) -> HttpResponse:
        return text(variables.encrypt_text(self.caller, text_body(request)))


class ListContextual(WorkspaceView):
    """The variables that every job finds in its environment, with examples."""

    domain = "variables"

    @extend_schema(
        operation_id="listContextualVariables", tags=["variable"], responses=ContextualVariable(many=True)
    )
    def get(self, request: Request, workspace: str) -> Response:
        return Response(contextual_variables(self.caller))
