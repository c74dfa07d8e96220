"""Addresses of the REST routes of scripts, flows, jobs and workers. Paths are greedy, nothing ends in a slash."""

from django.urls import URLPattern, path

from jobs.api import approvals, concurrency, dependencies, flow_runs, flows, job, jobs, runs, scripts, workers

W = "w/<str:workspace>"

_scripts = [
    ("create", scripts.CreateScript),
    ("get/p/<path:path>", scripts.GetByPath),
    ("get/h/<str:hash>", scripts.GetByHash),
    ("raw/p/<path:path>", scripts.RawByPath),
    ("raw_unpinned/p/<path:path>", scripts.RawByPath),
    ("raw/h/<str:hash>", scripts.RawByHash),
    ("exists/p/<path:path>", scripts.Exists),
    ("list", scripts.List),
    ("list_paths", scripts.ListPaths),
    ("list_search", scripts.ListSearch),
    ("history/p/<path:path>", scripts.History),
    ("history_update/h/<str:hash>/p/<path:path>", scripts.UpdateHistory),
    ("get_latest_version/<path:path>", scripts.LatestVersion),
    ("deployment_status/h/<str:hash>", scripts.DeploymentStatus),
    ("archive/p/<path:path>", scripts.ArchivePath),
    ("archive/h/<str:hash>", scripts.ArchiveHash),
    ("delete/p/<path:path>", scripts.DeletePath),
    ("delete/h/<str:hash>", scripts.DeleteHash),
    ("toggle_workspace_error_handler/p/<path:path>", scripts.ToggleErrorHandler),
    ("raw_temp/store", dependencies.StoreText),
    ("raw_temp/diff", dependencies.DiffTexts),
]
_workspace_dependencies = [
    ("create", dependencies.CreateFile),
    ("list", dependencies.ListFiles),
    ("get_latest/<str:language>", dependencies.GetLatestFile),
    ("archive/<str:language>", dependencies.ArchiveFile),
    ("delete/<str:language>", dependencies.DeleteFile),
]
_scripts_u = [
    ("tokened_raw/<str:workspace>/<str:token>/<path:path>", scripts.RawByPathTokened),
]
_flows = [
    ("create", flows.CreateFlow),
    ("update/<path:path>", flows.UpdateFlow),
    ("get/v/<str:version>", flows.GetVersion),
    ("get/<path:path>", flows.GetByPath),
    ("exists/<path:path>", flows.Exists),
    ("list", flows.List),
    ("list_paths", flows.ListPaths),
    ("list_search", flows.ListSearch),
    ("history/p/<path:path>", flows.History),
    ("history_update/v/<str:version>", flows.UpdateHistory),
    ("history_update/v/<str:version>/p/<path:path>", flows.UpdateHistoryAtPath),
    ("get_latest_version/<path:path>", flows.LatestVersion),
    ("deployment_status/p/<path:path>", flows.DeploymentStatus),
    ("archive/<path:path>", flows.Archive),
    ("delete/<path:path>", flows.Delete),
    ("toggle_workspace_error_handler/<path:path>", flows.ToggleErrorHandler),
]
_jobs = [
    ("run/p/<path:path>", runs.QueuePath),
    ("run/h/<str:hash>", runs.QueueHash),
    ("run/preview", runs.QueuePreview),
    ("run/batch_rerun_jobs", runs.RerunJobs),
    ("run_wait_result/p/<path:path>", runs.WaitPath),
    ("run_wait_result/h/<str:hash>", runs.WaitHash),
    ("run_wait_result/preview", runs.WaitPreview),
    ("run_inline/preview", runs.WaitPreview),  # what clients beside their worker call
    ("run_and_stream/p/<path:path>", runs.StreamPath),
    ("run_and_stream/h/<str:hash>", runs.StreamHash),
    ("run/f/<path:path>", flow_runs.QueueFlowPath),
    ("run/fv/<str:version>", flow_runs.QueueFlowVersion),
    ("run/preview_flow", flow_runs.QueueFlowPreview),
    ("run_wait_result/f/<path:path>", flow_runs.WaitFlowPath),
    ("run_wait_result/fv/<str:version>", flow_runs.WaitFlowVersion),
    ("run_wait_result/preview_flow", flow_runs.WaitFlowPreview),
    ("run_and_stream/f/<path:path>", flow_runs.StreamFlowPath),
    ("run_and_stream/fv/<str:version>", flow_runs.StreamFlowVersion),
    ("list", jobs.ListJobs),
    ("list_filtered_uuids", jobs.FilteredJobIds),
    ("delete", jobs.DeleteJobs),
    ("queue/list", jobs.ListQueue),
    ("queue/list_filtered_uuids", jobs.FilteredIds),
    ("queue/count", jobs.CountQueue),
    ("queue/position/<str:scheduled_for>", jobs.QueuePosition),
    ("queue/explain/<str:id>", job.Explain),
    ("queue/cancel_selection", jobs.CancelSelection),
    ("queue/run_now/<str:id>", jobs.RunNow),
    ("queue/get_started_at_by_ids", jobs.StartedAt),
    ("result_by_id/<str:id>/<str:node_id>", job.GetResultOfStep),
    ("restart/f/<str:id>/from/<str:step_id>/<str:n>", flow_runs.RestartFrom),
    ("restart/f/<str:id>", flow_runs.Restart),
    ("run/dependencies_async", dependencies.QueueDependencies),
    ("run/flow_dependencies_async", flow_runs.QueueFlowDependencies),
    ("completed/list", jobs.ListCompleted),
    ("completed/count", jobs.CountCompleted),
    ("completed/count_jobs", jobs.CountCompletedJobs),
    ("completed/delete/<str:id>", jobs.DeleteCompleted),
    ("worker_is_draining/<str:id>", job.WorkerIsDraining),
]
_jobs_u = [
    ("get/<str:id>", job.GetJob),
    ("get_args/<str:id>", job.GetArgs),
    ("get_logs/<str:id>", job.GetLogs),
    ("getupdate/<str:id>", job.GetUpdate),
    ("getupdate_sse/<str:id>", job.GetUpdateSse),
    ("get_root_job_id/<str:id>", job.GetRootJobId),
    ("completed/get/<str:id>", job.GetCompleted),
    ("completed/get_result/<str:id>", job.GetResult),
    ("completed/get_result_maybe/<str:id>", job.GetResultMaybe),
    ("queue/get_started_at_by_ids", jobs.StartedAt),
    ("queue/cancel/<str:id>", job.Cancel),
    ("queue/force_cancel/<str:id>", job.ForceCancel),
    ("queue/cancel_persistent/<path:path>", jobs.CancelPersistent),
    ("completed/get_timing/<str:id>", job.GetTiming),
    ("get_flow_debug_info/<str:id>", job.GetFlowDebugInfo),
]
_approvals = [
    ("jobs/resume_urls/<str:id>/<str:resume_id>", approvals.LinkUrls),
    ("jobs/job_signature/<str:id>/<str:resume_id>", approvals.JobSignature),
    ("jobs/flow/resume/<str:id>", approvals.ResumeAsOwner),
    ("jobs/flow/user_states/<str:id>/<str:key>", approvals.UserState),
    ("jobs/slack_approval/<str:id>", approvals.SlackApproval),
    ("jobs/teams_approval/<str:id>", approvals.TeamsApproval),
    ("jobs/wac_approval_urls/<str:id>/<str:step_key>", approvals.CodeApprovalUrls),
    ("jobs_u/resume/<str:id>/<str:resume_id>/<str:signature>", approvals.Resume),
    ("jobs_u/cancel/<str:id>/<str:resume_id>/<str:signature>", approvals.Disapprove),
    ("jobs_u/get_flow/<str:id>/<str:resume_id>/<str:signature>", approvals.SuspendedFlow),
    ("jobs_u/flow/resume_suspended/<str:id>", approvals.ResumeSuspended),
    ("jobs_u/flow/approval_info/<str:id>", approvals.ApprovalInfo),
]
_job_metrics = [
    ("set_progress/<str:id>", job.SetProgress),
    ("get_progress/<str:id>", job.GetProgress),
]
_workers = [
    ("list", workers.ListWorkers),
    ("queue_counts", workers.QueueCounts),
    ("queue_running_counts", workers.QueueRunningCounts),
    ("queue_status", workers.QueueStatus),
    ("custom_tags", workers.CustomTags),
    ("get_default_tags", workers.DefaultTags),
    ("is_default_tags_per_workspace", workers.DefaultTagsPerWorkspace),
    ("exists_workers_with_tags", workers.ExistsWithTags),
]
_concurrency_groups = [
    ("list", concurrency.ListGroups),
    ("prune/<path:concurrency_key>", concurrency.PruneGroup),
    ("<str:id>/key", concurrency.KeyOfJob),
]
_instance_jobs = [
    ("db_clock", jobs.DbClock),
    ("completed/count_by_tag", jobs.CountByTag),
]


def _under(prefix: str, routes: list) -> list[URLPattern]:
    return [path(f"{prefix}/{route}", view.as_view()) for route, view in routes]


urlpatterns = [
    *_under(f"{W}/scripts", _scripts),
    *_under("scripts_u", _scripts_u),
    *_under(f"{W}/workspace_dependencies", _workspace_dependencies),
    *_under(f"{W}/flows", _flows),
    *_under(f"{W}/jobs", _jobs),
    *_under(W, _approvals),
    *_under(f"{W}/jobs_u", _jobs_u),
    *_under(f"{W}/job_metrics", _job_metrics),
    *_under(f"{W}/concurrency_groups", [("list_jobs", concurrency.ListJobsOfKey)]),
    *_under("concurrency_groups", _concurrency_groups),
    *_under("workers", _workers),
    *_under(f"{W}/workers", [("custom_tags", workers.CustomTagsOfWorkspace)]),
    *_under("jobs", _instance_jobs),
]
