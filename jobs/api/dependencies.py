"""REST routes of dependencies, below /api/w/<workspace>/: workspace_dependencies/..., scripts/raw_temp/... and
jobs/run/dependencies_async.

Shapes as in reference/routes-cli.md sections 7 and 8.
"""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import dependency_runs, temporary_code, workspace_dependencies
from jobs.api.flow_runs import StandInsBody
from jobs.api.runs import RunQuery, RunView, run_options, run_query
from jobs.api.scripts import ScriptView
from jobs.models import WorkspaceDependencies
from jobs.temporary_code import LocalFile
from workspaces.api.base import WorkspaceView, read_body, text_body
from workspaces.api.fields import TEXT_CREATED, TEXT_OK, JsonObject, Name, Text
from workspaces.api.parameters import query
from workspaces.api.protocol import text
from workspaces.errors import BadRequest
from workspaces.jsontext import parse_json

# --- dependency files ---


class FileView(WorkspaceView):
    domain = workspace_dependencies.SCOPE

    def name(self, request: Request) -> str:
        """Of the file that the query names; without one it is the default file."""
        return request.query_params.get("name") or ""


NAME = query("name", "Of the file; without it, the default one of the language")


class DependencyFileBody(serializers.Serializer):
    """A dependency file as it shall be from now on."""

    language = Name()
    name = Text(required=False, allow_null=True)
    content = Text()
    description = Text(required=False, allow_null=True)
    workspace_id = Text(required=False, allow_null=True)


class CreateFile(FileView):
    """Create or replace a dependency file; scripts that read it are locked again. Answers the version's id."""

    @extend_schema(
        operation_id="createWorkspaceDependencies", request=DependencyFileBody, responses=TEXT_CREATED
    )
    def post(self, request: Request, workspace: str) -> Any:
        body = read_body(DependencyFileBody, request)
        if body.get("workspace_id") not in (None, "", workspace):
            raise BadRequest(
                f"workspace_id is {body['workspace_id'][:60]!r}, and the address says {workspace}; send the same or none"
            )
        file = workspace_dependencies.create(
            self.caller,
            language=body["language"],
            name=body.get("name") or "",
            content=body["content"],
            description=body.get("description") or "",
        )
        return text(str(file.pk), 201)


class ListFiles(FileView):
    """The dependency files of the workspace."""

    @extend_schema(operation_id="listWorkspaceDependencies", responses={200: list[dict]})
    def get(self, request: Request, workspace: str) -> Response:
        return Response([file_json(file) for file in workspace_dependencies.list_files(self.caller)])


class GetLatestFile(FileView):
    """A dependency file as it is now."""

    @extend_schema(operation_id="getLatestWorkspaceDependencies", parameters=[NAME], responses={200: dict})
    def get(self, request: Request, workspace: str, language: str) -> Response:
        return Response(
            file_json(workspace_dependencies.get_latest(self.caller, language, self.name(request)))
        )


class ArchiveFile(FileView):
    """Take a dependency file out of use."""

    @extend_schema(
        operation_id="archiveWorkspaceDependencies", request=None, parameters=[NAME], responses=TEXT_OK
    )
    def post(self, request: Request, workspace: str, language: str) -> Any:
        workspace_dependencies.archive(self.caller, language, self.name(request))
        return text("archived")


class DeleteFile(FileView):
    """Forget a dependency file and its versions."""

    @extend_schema(
        operation_id="deleteWorkspaceDependencies", request=None, parameters=[NAME], responses=TEXT_OK
    )
    def post(self, request: Request, workspace: str, language: str) -> Any:
        workspace_dependencies.delete(self.caller, language, self.name(request))
        return text("deleted")


def file_json(file: WorkspaceDependencies) -> dict[str, Any]:
    """A file as clients get it. The default one has the name null."""
    return {
        "id": file.pk,
        "workspace_id": file.workspace_id,
        "language": file.language,
        "name": file.name or None,
        "description": file.description,
        "content": file.content,
        "archived": file.archived,
        "created_at": file.created_at,
        "created_by": file.created_by,
    }


# --- scripts that a client has on disk ---


class StoreText(ScriptView):
    """Keep a script for a day, so that dependency jobs can count with it. Answers its name.

    The body is the script's text, or that as a JSON string when the request says that it is JSON.
    """

    @extend_schema(
        operation_id="storeRawScriptTemp",
        request={"application/json": str, "text/plain": str},
        responses=TEXT_OK,
    )
    def post(self, request: Request, workspace: str) -> Any:
        content = text_body(request)
        if (request.content_type or "").partition(";")[0].strip() == "application/json":
            content = parse_json(content)
            if not isinstance(content, str):
                raise BadRequest("expected the text of a script as a JSON string, or as text/plain")
        return text(temporary_code.store(self.caller, content))


class LocalFileBody(serializers.Serializer):
    path = Text()
    language = Text()
    name = Text(required=False, allow_null=True)
    hash = Text()


class DiffBody(serializers.Serializer):
    """SHA-256 (hex) of scripts by path, and of dependency files."""

    scripts = JsonObject(required=False, allow_null=True)
    workspace_deps = LocalFileBody(many=True, required=False, allow_null=True)


class DiffTexts(ScriptView):
    """Paths of those that differ from what is deployed."""

    @extend_schema(operation_id="diffRawScriptsWithDeployed", request=DiffBody, responses={200: list[str]})
    def post(self, request: Request, workspace: str) -> Response:
        body = read_body(DiffBody, request)
        files = [
            LocalFile(
                path=one["path"], language=one["language"], name=one.get("name") or "", hash=one["hash"]
            )
            for one in body.get("workspace_deps") or ()
        ]
        return Response(temporary_code.mismatched(self.caller, body.get("scripts") or {}, files))


# --- dependency jobs for what is not deployed ---


class RawScriptBody(serializers.Serializer):
    raw_code = Text()
    language = Name()
    script_path = Text(required=False, allow_null=True)


class DependenciesBody(StandInsBody):
    """One script to find the dependencies of."""

    raw_scripts = RawScriptBody(many=True)
    entrypoint = Text(required=False, allow_null=True)


class QueueDependencies(RunView):
    """Queue a job that answers what a script depends on: {lock}. None of it is deployed or run. Answers the job's id."""

    @extend_schema(
        operation_id="runRawScriptDependencies",
        request=DependenciesBody,
        parameters=[RunQuery],
        responses=TEXT_CREATED,
    )
    def post(self, request: Request, workspace: str) -> Any:
        body = read_body(DependenciesBody, request)
        if len(body["raw_scripts"]) != 1:
            raise BadRequest(f"raw_scripts has {len(body['raw_scripts'])} entries; send one script a job")
        [script] = body["raw_scripts"]
        job_id = dependency_runs.run_dependencies(
            self.caller,
            code=script["raw_code"],
            language=script["language"],
            path=script.get("script_path") or body.get("entrypoint") or None,
            stand_ins=dependency_runs.checked_stand_ins(
                body.get("raw_workspace_dependencies"), body.get("temp_script_refs")
            ),
            options=run_options(request, run_query(request)),
        )
        return text(str(job_id), 201)
