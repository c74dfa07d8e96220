"""REST routes of concurrency limits: which keys are in use, by whom."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import concurrency, listings
from jobs.api.job import parse_job_id
from jobs.api.jobs import JobQuery, ListView, job_filters
from jobs.shapes import job_shape
from workspaces.api.base import InstanceView, page_bounds
from workspaces.api.parameters import PAGES, query


class ListGroups(InstanceView):
    """Every key in use on the instance, with the number of its jobs that run. For those who operate the instance."""

    domain = "jobs"

    @extend_schema(operation_id="listConcurrencyGroups", responses={200: list[dict]})
    def get(self, request: Request) -> Response:
        self.identity.require_devops()
        return Response(concurrency.list_groups())


class PruneGroup(InstanceView):
    """Forget what a key remembers of jobs that have ended. Superadmins only."""

    domain = "jobs"

    @extend_schema(operation_id="deleteConcurrencyGroup", responses={200: dict})
    def delete(self, request: Request, concurrency_key: str) -> Response:
        self.identity.require_super_admin()
        concurrency.prune_group(concurrency_key)
        return Response({})


class KeyOfJob(InstanceView):
    """The key that a job is counted by: {"concurrency_key": key or null}."""

    domain = "jobs"
    confined = True

    @extend_schema(operation_id="getConcurrencyKey", responses={200: dict})
    def get(self, request: Request, id: str) -> Response:
        return Response({"concurrency_key": concurrency.key_of_job(self.identity, parse_job_id(id))})


class ListJobsOfKey(ListView):
    """Jobs with a limit, newest first: {"jobs": [...], "obscured_jobs": [], "omitted_obscured_jobs": true}.

    What the caller may not see is not hinted at either.
    """

    @extend_schema(
        operation_id="listExtendedJobs",
        parameters=[*PAGES, query("concurrency_key", "Only jobs of this key", str), JobQuery],
        responses={200: dict},
    )
    def get(self, request: Request, workspace: str) -> Response:
        fixed: dict[str, Any] = {"concurrency_key": request.query_params.get("concurrency_key") or None}
        filters, oldest_first = job_filters(request, **fixed)
        rows = page_bounds(request)
        page = listings.list_jobs(
            self.caller, filters, limit=rows.stop - rows.start, offset=rows.start, oldest_first=oldest_first
        )
        shape = {"obscured_jobs": [], "omitted_obscured_jobs": True}
        return Response({"jobs": [job_shape(job) for job in page], **shape})
