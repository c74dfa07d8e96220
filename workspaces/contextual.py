"""The variables that every job finds in its environment, for people who write scripts."""

from typing import Any

from django.conf import settings

from workspaces.access import Caller

_JOB = "018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a10"  # an example of a job id


def contextual_variables(caller: Caller) -> list[dict[str, Any]]:
    """[{name, value, description, is_custom}] with examples, as the caller's own job would see them."""
    path = f"u/{caller.username}/example"
    examples = (
        (
            "WM_TOKEN",
            "jwt_...",
            "Token of this job, good until it ends, with the rights of WM_PERMISSIONED_AS",
        ),
        ("WM_WORKSPACE", caller.workspace_id, "Id of the workspace"),
        ("WM_EMAIL", caller.email, "E-mail address of the person whose rights the job has"),
        ("WM_USERNAME", caller.username, "Username of who started the job"),
        ("WM_PERMISSIONED_AS", caller.permissioned_as, "Whose rights the job has: u/<username> or g/<group>"),
        ("WM_BASE_URL", settings.BASE_URL, "Address of this instance as people see it"),
        ("BASE_INTERNAL_URL", settings.BASE_INTERNAL_URL, "Address of this instance as jobs reach it"),
        ("WM_JOB_ID", _JOB, "Id of the job"),
        ("WM_ROOT_FLOW_JOB_ID", _JOB, "Id of the outermost flow, empty outside of flows"),
        ("WM_FLOW_JOB_ID", _JOB, "Id of the flow, empty outside of flows"),
        ("WM_FLOW_STEP_ID", "a", "Id of the step in its flow, empty outside of flows"),
        ("WM_JOB_PATH", path, "Path of the script, empty for previews of new ones"),
        ("WM_FLOW_PATH", f"u/{caller.username}/example_flow", "Path of the flow, empty outside of flows"),
        (
            "WM_SCHEDULE_PATH",
            f"u/{caller.username}/every_night",
            "Path of the schedule, empty unless it started the job",
        ),
        ("WM_STATE_PATH", f"{path}/state", "Path of the state that the script keeps between runs"),
        ("WM_STATE_PATH_NEW", f"{path}/state", "The same, under the name that new clients read"),
    )
    return [
        {"name": name, "value": value, "description": description, "is_custom": False}
        for name, value, description in examples
    ]
