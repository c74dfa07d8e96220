"""REST routes of workers and tags: /api/workers/..."""

from typing import Any

from django.db import connection
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import listings, tags
from jobs.models import WorkerPing
from jobs.shapes import worker_json
from jobs.waiting import ALIVE_S
from workspaces.api.base import InstanceView, WorkspaceView, flag, page_bounds
from workspaces.api.parameters import PAGES, query, switch
from workspaces.errors import BadRequest

DEFAULT_PING_SINCE_S = 300


class WorkersView(InstanceView):
    domain = "workers"


class ListWorkers(WorkersView):
    """The workers that reported lately. What they run is shown to superadmins and devops only."""

    @extend_schema(
        operation_id="listWorkers",
        parameters=[*PAGES, query("ping_since", "Seconds; 300 unless given", int)],
        responses={200: list[dict]},
    )
    def get(self, request: Request) -> Response:
        raw = request.query_params.get("ping_since") or str(DEFAULT_PING_SINCE_S)
        if not (raw.isascii() and raw.isdigit() and len(raw) <= 9):
            raise BadRequest(f"query: ping_since is {raw[:40]!r}; expected a number of seconds")
        rows = WorkerPing.objects.extra(
            select={"ago_s": "extract(epoch FROM statement_timestamp() - ping_at)"},
            where=["ping_at > statement_timestamp() - make_interval(secs => %s)"],
            params=[int(raw)],
        )
        reveal = self.identity.operates
        page = rows[page_bounds(request)]
        return Response([worker_json(row, last_ping_s=float(row.ago_s), reveal=reveal) for row in page])


class QueueCounts(WorkersView):
    """Due jobs by tag."""

    @extend_schema(operation_id="getCountsOfJobsWaitingPerTag", responses={200: dict})
    def get(self, request: Request) -> Response:
        return Response(listings.queue_counts(running=False))


class QueueRunningCounts(WorkersView):
    """Running jobs by tag."""

    @extend_schema(operation_id="getCountsOfRunningJobsPerTag", responses={200: dict})
    def get(self, request: Request) -> Response:
        return Response(listings.queue_counts(running=True))


class QueueStatus(WorkersView):
    """By tag: due jobs, how long the oldest waits (seconds), running jobs, live workers."""

    @extend_schema(operation_id="getQueueStatus", responses={200: list[dict]})
    def get(self, request: Request) -> Response:
        with connection.cursor() as cursor:
            cursor.execute(_QUEUE_STATUS, {"alive_s": ALIVE_S})
            names = [column.name for column in cursor.description]
            rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return Response(rows)


_QUEUE_STATUS = """
WITH jobs AS (
    SELECT tag,
           count(*) FILTER (WHERE NOT running AND suspend <= 0 AND scheduled_for <= statement_timestamp()) AS waiting,
           extract(epoch FROM statement_timestamp() - min(scheduled_for) FILTER (WHERE NOT running AND suspend <= 0
                   AND scheduled_for <= statement_timestamp()))::float8 AS delay,
           count(*) FILTER (WHERE running) AS running
      FROM queue GROUP BY tag
),
listening AS (
    SELECT tag, count(*) AS workers
      FROM worker_ping, unnest(custom_tags) AS tag
     WHERE ping_at > statement_timestamp() - make_interval(secs => %(alive_s)s) AND state = 'running'
     GROUP BY tag
)
SELECT tag, coalesce(waiting, 0) AS waiting, delay, coalesce(running, 0) AS running, coalesce(workers, 0) AS workers
  FROM jobs FULL JOIN listening USING (tag)
 ORDER BY tag
"""


class CustomTags(WorkersView):
    """The tags that the instance adds to the default ones."""

    @extend_schema(
        operation_id="getCustomTags",
        parameters=[switch("show_workspace_restriction"), query("workspace")],
        responses={200: list[str]},
    )
    def get(self, request: Request) -> Response:
        workspace = request.query_params.get("workspace")
        if workspace:
            return Response(tags.custom_tags_for(workspace))
        # A restriction names workspaces, which is no business of everybody's.
        shows_restrictions = self.identity.operates and flag(
            request, "show_workspace_restriction", default=False
        )
        return Response([tag.text if shows_restrictions else tag.name for tag in tags.custom_tags()])


class CustomTagsOfWorkspace(WorkspaceView):
    """The custom tags that jobs of the workspace may ask for."""

    domain = "workers"

    @extend_schema(operation_id="getCustomTagsForWorkspace", responses={200: list[str]})
    def get(self, request: Request, workspace: str) -> Response:
        return Response(tags.custom_tags_for(self.caller.workspace_id))


class DefaultTagsPerWorkspace(WorkersView):
    """Whether default tags are those of each workspace (`python3-acme`)."""

    @extend_schema(operation_id="isDefaultTagsPerWorkspace", responses={200: bool})
    def get(self, request: Request) -> Response:
        return Response(tags.are_default_tags_per_workspace())


class DefaultTags(WorkersView):
    """The tags that workers of group `default` listen to."""

    @extend_schema(operation_id="getDefaultTags", responses={200: list[str]})
    def get(self, request: Request) -> Response:
        return Response(list(tags.DEFAULT_TAGS))


class ExistsWithTags(WorkersView):
    """For each tag, whether a live worker listens to it: {tag: bool}. `$workspace` in a tag stands for `workspace`."""

    @extend_schema(
        operation_id="existsWorkersWithTags",
        parameters=[query("tags", "Comma list"), query("workspace")],
        responses={200: dict},
    )
    def get(self, request: Request) -> Response:
        workspace = request.query_params.get("workspace") or ""
        asked = [tag for tag in (request.query_params.get("tags") or "").split(",") if tag][:1000]
        # Told by the tag as it was asked for: that is what the client has.
        wanted = {tag: tag.replace("$workspace", workspace) if workspace else tag for tag in asked}
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT DISTINCT tag FROM worker_ping, unnest(custom_tags) AS tag WHERE tag = ANY(%s::text[])"
                " AND ping_at > statement_timestamp() - make_interval(secs => %s) AND state = 'running'",
                [list(wanted.values()), ALIVE_S],
            )
            present = {row[0] for row in cursor.fetchall()}
        return Response({tag: meant in present for tag, meant in wanted.items()})
