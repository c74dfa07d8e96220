"""REST routes of scripts: /api/w/<workspace>/scripts/..."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import locks, scripts
from jobs.models import Script
from jobs.shapes import hash_hex, script_json, script_summary
from workspaces.api.base import WorkspaceView, flag, page_bounds, read_body
from workspaces.api.fields import BOOLEAN_OK, TEXT_CREATED, TEXT_OK, Flag, Json, Name, Text, Texts, Whole
from workspaces.api.parameters import PAGES, query, switch
from workspaces.api.protocol import TokenInAddress, text
from workspaces.errors import BadRequest


class ScriptView(WorkspaceView):
    domain = scripts.SCOPE


class NewScript(serializers.Serializer):
    """A version to deploy. Fields of Windmill that this instance does not act on are kept and given back."""

    path = Name(max_length=255)
    content = Text()
    language = Name(max_length=20)
    parent_hash = Text(required=False, allow_null=True)
    summary = Text(required=False, allow_null=True, max_length=10_000)
    description = Text(required=False, allow_null=True, max_length=1_000_000)
    schema = Json(required=False)
    kind = Name(required=False, allow_null=True, max_length=20)
    lock = Text(required=False, allow_null=True)
    tag = Text(required=False, allow_null=True)
    envs = Texts(required=False, allow_null=True)
    timeout = Whole(required=False, allow_null=True)
    priority = Whole(required=False, allow_null=True)
    is_template = Flag(required=False, allow_null=True)
    visible_to_runner_only = Flag(required=False, allow_null=True)
    on_behalf_of_email = Text(required=False, allow_null=True, max_length=255)
    labels = Texts(required=False, allow_null=True)
    deployment_message = Text(required=False, allow_null=True)
    auto_parent = Flag(required=False, allow_null=True)


class CreateScript(ScriptView):
    """Deploy a new version. Answers its hash."""

    @extend_schema(
        operation_id="createScript",
        request=NewScript,
        parameters=[switch("skip_if_noop", "Answer the live version when nothing differs")],
        responses=TEXT_CREATED,
    )
    def post(self, request: Request, workspace: str) -> Any:
        body = read_body(NewScript, request)
        sent: dict[str, Any] = dict(request.data)  # read_body refused anything but an object
        schema = body.get("schema")
        if schema is not None and not isinstance(schema, dict):
            raise BadRequest("schema must be a JSON Schema object")
        draft = scripts.ScriptDraft(
            path=body["path"],
            content=body["content"],
            language=body["language"],
            summary=body.get("summary") or "",
            description=body.get("description") or "",
            schema=schema,
            kind=body.get("kind") or "script",
            lock=body.get("lock"),
            tag=body.get("tag"),
            envs=body.get("envs"),
            timeout_s=body.get("timeout"),
            priority=body.get("priority"),
            is_template=bool(body.get("is_template")),
            visible_to_runner_only=body.get("visible_to_runner_only"),
            on_behalf_of_email=body.get("on_behalf_of_email"),
            labels=body.get("labels"),
            extra={name: sent[name] for name in scripts.EXTRA_FIELDS if sent.get(name) is not None},
        )
        parent = body.get("parent_hash")
        script = scripts.deploy_script(
            self.caller,
            draft,
            parent_hash=scripts.parse_hash(parent) if parent else None,
            auto_parent=bool(body.get("auto_parent")),
            skip_if_noop=flag(request, "skip_if_noop", default=False),
            deployment_message=body.get("deployment_message") or "",
        )
        return text(script.hash_hex, 201)


class GetByPath(ScriptView):
    """The newest version at a path, archived or not."""

    @extend_schema(operation_id="getScriptByPath", responses={200: dict})
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(script_json(scripts.get_newest(self.caller, path)))


class GetByHash(ScriptView):
    """One version."""

    @extend_schema(operation_id="getScriptByHash", responses={200: dict})
    def get(self, request: Request, workspace: str, hash: str) -> Response:
        return Response(script_json(scripts.get_by_hash(self.caller, scripts.parse_hash(hash))))


class RawByPath(ScriptView):
    """The code of the live version; the address may carry the extension of its language."""

    @extend_schema(operation_id="rawScriptByPath", responses=TEXT_OK)
    def get(self, request: Request, workspace: str, path: str) -> Any:
        return text(scripts.get_raw(self.caller, path))


class RawByPathTokened(ScriptView):
    """The code of the live version, for loaders: they are given one address, with the token in it."""

    authentication_classes = (TokenInAddress,)

    @extend_schema(operation_id="rawScriptByPathTokened", responses=TEXT_OK)
    def get(self, request: Request, workspace: str, token: str, path: str) -> Any:
        return text(scripts.get_raw(self.caller, path))


class RawByHash(ScriptView):
    """The code of one version."""

    @extend_schema(operation_id="rawScriptByHash", responses=TEXT_OK)
    def get(self, request: Request, workspace: str, hash: str) -> Any:
        return text(scripts.get_by_hash(self.caller, scripts.parse_hash(hash.split(".", 1)[0])).content)


class Exists(ScriptView):
    """Is the path taken by a live script?"""

    @extend_schema(operation_id="existsScriptByPath", responses=BOOLEAN_OK)
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(scripts.script_exists(self.caller, path))


class List(ScriptView):
    """The newest version of each script, without code."""

    @extend_schema(
        operation_id="listScripts",
        parameters=[
            *PAGES,
            switch("order_desc"),
            query("created_by"),
            query("path_start"),
            query("path_exact"),
            query("first_parent_hash"),
            query("last_parent_hash"),
            query("parent_hash"),
            switch("show_archived"),
            switch("include_without_main"),
            switch("is_template"),
            query("kinds", "Comma list"),
            query("languages", "Comma list"),
            switch("starred_only"),
            switch("with_deployment_msg"),
            switch("without_description"),
            switch("dedicated_worker"),
            query("label"),
        ],
        responses={200: list[dict]},
    )
    def get(self, request: Request, workspace: str) -> Response:
        given = {name: value for name, value in request.query_params.dict().items() if value}
        hashes = {
            name: scripts.parse_hash(given[name]) if name in given else None
            for name in ("first_parent_hash", "last_parent_hash", "parent_hash")
        }
        rows = scripts.list_scripts(
            self.caller,
            show_archived=flag(request, "show_archived", default=False),
            include_without_main=flag(request, "include_without_main", default=True),
            created_by=given.get("created_by"),
            path_start=given.get("path_start"),
            path_exact=given.get("path_exact"),
            is_template=flag(request, "is_template"),
            kinds=_comma_list(given.get("kinds")),
            languages=_comma_list(given.get("languages")),
            label=given.get("label"),
            dedicated_worker=flag(request, "dedicated_worker"),
            order_desc=flag(request, "order_desc", default=True),
            **hashes,
        )
        if flag(request, "starred_only", default=False):
            rows = rows.none()  # nothing can be starred yet
        with_message = flag(request, "with_deployment_msg", default=False)
        page = [
            script_summary(row, with_deployment_message=with_message) for row in rows[page_bounds(request)]
        ]
        if flag(request, "without_description", default=False):
            for shape in page:
                shape["description"] = None
        return Response(page)


class ListPaths(ScriptView):
    """Every live path."""

    @extend_schema(operation_id="listScriptPaths", responses={200: list[str]})
    def get(self, request: Request, workspace: str) -> Response:
        return Response(scripts.list_paths(self.caller))


class ListSearch(ScriptView):
    """Path and code of every live script: what a search over code looks at."""

    @extend_schema(operation_id="listSearchScript", responses={200: list[dict]})
    def get(self, request: Request, workspace: str) -> Response:
        return Response(
            [{"path": path, "content": content} for path, content in scripts.list_contents(self.caller)]
        )


class History(ScriptView):
    """All versions at a path, newest first."""

    @extend_schema(operation_id="getScriptHistoryByPath", parameters=PAGES, responses={200: list[dict]})
    def get(self, request: Request, workspace: str, path: str) -> Response:
        versions = scripts.history(self.caller, path)[page_bounds(request)]
        return Response([_version(version) | {"created_by": version.created_by} for version in versions])


class LatestVersion(ScriptView):
    """Hash and time of the newest version."""

    @extend_schema(operation_id="getScriptLatestVersion", responses={200: dict})
    def get(self, request: Request, workspace: str, path: str) -> Response:
        return Response(_version(scripts.get_newest(self.caller, path)))


# Bodies have names of their own: the schema of the API tells them apart by these.
class DeploymentMessageBody(serializers.Serializer):
    deployment_msg = Text(allow_null=True, required=False, max_length=10_000)


class UpdateHistory(ScriptView):
    """Change the message of a version."""

    @extend_schema(operation_id="updateScriptHistory", request=DeploymentMessageBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, hash: str, path: str) -> Any:
        message = read_body(DeploymentMessageBody, request).get("deployment_msg") or ""
        scripts.set_deployment_message(self.caller, scripts.parse_hash(hash), path, message)
        return text(f"updated the message of {hash}")


class DeploymentStatus(ScriptView):
    """Whether a version can run: its lock, or what went wrong computing it."""

    @extend_schema(operation_id="getScriptDeploymentStatus", responses={200: dict})
    def get(self, request: Request, workspace: str, hash: str) -> Response:
        script = scripts.get_by_hash(self.caller, scripts.parse_hash(hash))
        return Response(
            {"lock": script.lock, "lock_error_logs": locks.state_of(script)[1], "job_id": script.lock_job}
        )


class ArchivePath(ScriptView):
    """Take a script out of use."""

    @extend_schema(operation_id="archiveScriptByPath", request=None, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, path: str) -> Any:
        scripts.archive_path(self.caller, path)
        return text(f"archived {path}")


class ArchiveHash(ScriptView):
    """Take one version out of use."""

    @extend_schema(operation_id="archiveScriptByHash", request=None, responses={200: dict})
    def post(self, request: Request, workspace: str, hash: str) -> Response:
        return Response(script_json(scripts.archive_version(self.caller, scripts.parse_hash(hash))))


class DeletePath(ScriptView):
    """Forget a script and its history. Admins only."""

    @extend_schema(operation_id="deleteScriptByPath", request=None, responses={200: str})
    def post(self, request: Request, workspace: str, path: str) -> Response:
        scripts.delete_path(self.caller, path)
        return Response(path)


class DeleteHash(ScriptView):
    """Empty one version. Admins only."""

    @extend_schema(operation_id="deleteScriptByHash", request=None, responses={200: dict})
    def post(self, request: Request, workspace: str, hash: str) -> Response:
        return Response(script_json(scripts.delete_version(self.caller, scripts.parse_hash(hash))))


class MuteBody(serializers.Serializer):
    muted = Flag(required=False, allow_null=True)


class ToggleErrorHandler(ScriptView):
    """Switch the workspace's error handler off or on for a script."""

    @extend_schema(operation_id="toggleWorkspaceErrorHandlerForScript", request=MuteBody, responses=TEXT_OK)
    def post(self, request: Request, workspace: str, path: str) -> Any:
        muted = bool(read_body(MuteBody, request).get("muted"))
        scripts.mute_error_handler(self.caller, path, muted=muted)
        return text(f"the workspace error handler is {'muted' if muted else 'active'} for {path}")


def _version(script: Script) -> dict[str, Any]:
    return {
        "script_hash": hash_hex(script.hash),
        "created_at": script.created_at,
        "deployment_msg": script.deployment_message or None,
    }


def _comma_list(value: str | None) -> list[str] | None:
    return [part.strip() for part in value.split(",") if part.strip()] if value else None
