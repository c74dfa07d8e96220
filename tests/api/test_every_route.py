"""Every route under /api, as everybody who should not get through. A new route fails here until it is classified."""

import enum
import re
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.views import APIView

from tests.api.conftest import SECRET, World

# Routes that wait look things up in threads of their own, so what the tests make must be committed.
pytestmark = pytest.mark.django_db(transaction=True)


class Who(enum.Enum):
    """Who gets through."""

    PUBLIC = "anybody, signed in or not"
    LINK = "whoever holds a signed link"
    TOKEN = "whoever's token is in the address"
    ACCOUNT = "every account, about itself"
    CONFINED = "every account and every token confined to a workspace, about itself"
    SUPERADMIN = "superadmins"
    MEMBER = "every member: what they may see of it is filtered"
    OPERATOR_WRITES = "every member, operators too, on what is their own"
    READER = "those who may read the item"
    WRITER = "those who may write the item"
    RUNNER = "those who may read the script"
    DEVELOPER = "members who are not operators, to make things of their own"
    ADMIN = "admins of the workspace"


W = "w/<workspace>/"
ROUTES: dict[str, Who] = {
    "version": Who.PUBLIC,
    "uptodate": Who.PUBLIC,
    "ee_license": Who.PUBLIC,
    "health/status": Who.PUBLIC,
    "health/detailed": Who.ACCOUNT,
    "openapi.json": Who.PUBLIC,
    "openapi.yaml": Who.PUBLIC,
    "auth/login": Who.PUBLIC,
    "auth/logout": Who.PUBLIC,
    "auth/is_smtp_configured": Who.PUBLIC,
    "auth/is_password_login_disabled": Who.PUBLIC,
    "users/whoami": Who.CONFINED,
    "users/email": Who.CONFINED,
    "users/usage": Who.CONFINED,
    "users/create": Who.SUPERADMIN,
    "users/update/<email>": Who.SUPERADMIN,
    "users/delete/<email>": Who.SUPERADMIN,
    "users/exists/<email>": Who.SUPERADMIN,
    "users/setpassword": Who.ACCOUNT,
    "users/set_password_of/<email>": Who.SUPERADMIN,
    "users/list_as_super_admin": Who.SUPERADMIN,
    "users/tokens/create": Who.ACCOUNT,
    "users/tokens/impersonate": Who.SUPERADMIN,
    "users/tokens/list": Who.ACCOUNT,
    "users/tokens/delete/<token_prefix>": Who.ACCOUNT,
    "users/tokens/update_label/<token_prefix>": Who.ACCOUNT,
    "users/tokens/update_scopes/<token_prefix>": Who.ACCOUNT,
    "tokens/list/scopes": Who.ACCOUNT,
    "workspaces/list": Who.ACCOUNT,
    "workspaces/list_as_superadmin": Who.SUPERADMIN,
    "workspaces/users": Who.ACCOUNT,
    "workspaces/create": Who.SUPERADMIN,
    "workspaces/exists": Who.ACCOUNT,
    "workspaces/exists_username": Who.ACCOUNT,
    "workspaces/unarchive/<workspace_id>": Who.SUPERADMIN,
    "settings/list_global": Who.SUPERADMIN,
    "settings/global/<key>": Who.SUPERADMIN,
    W + "users/whoami": Who.MEMBER,
    W + "users/whois/<username>": Who.MEMBER,
    W + "users/get/<username>": Who.MEMBER,
    W + "users/list": Who.MEMBER,
    W + "users/list_usernames": Who.MEMBER,
    W + "users/username_to_email/<username>": Who.MEMBER,
    W + "users/is_owner/<path>": Who.MEMBER,
    W + "users/update/<username>": Who.ADMIN,
    W + "users/delete/<username>": Who.ADMIN,
    W + "workspaces/archive": Who.ADMIN,
    W + "workspaces/change_workspace_name": Who.ADMIN,
    W + "workspaces/change_workspace_color": Who.ADMIN,
    W + "workspaces/get_workspace_name": Who.MEMBER,
    W + "workspaces/get_settings": Who.MEMBER,
    W + "workspaces/add_user": Who.ADMIN,
    W + "workspaces/leave": Who.OPERATOR_WRITES,
    W + "folders/create": Who.DEVELOPER,
    W + "folders/update/<name>": Who.WRITER,
    W + "folders/get/<name>": Who.READER,
    W + "folders/list": Who.MEMBER,
    W + "folders/listnames": Who.MEMBER,
    W + "folders/exists/<name>": Who.MEMBER,
    W + "folders/getusage/<name>": Who.READER,
    W + "folders/delete/<name>": Who.WRITER,
    W + "folders/addowner/<name>": Who.WRITER,
    W + "folders/removeowner/<name>": Who.WRITER,
    W + "groups/create": Who.DEVELOPER,
    W + "groups/get/<name>": Who.MEMBER,
    W + "groups/list": Who.MEMBER,
    W + "groups/listnames": Who.MEMBER,
    W + "groups/update/<name>": Who.WRITER,
    W + "groups/adduser/<name>": Who.WRITER,
    W + "groups/removeuser/<name>": Who.WRITER,
    W + "groups/delete/<name>": Who.WRITER,
    W + "acls/get/<kind>/<path>": Who.READER,
    W + "acls/add/<kind>/<path>": Who.WRITER,
    W + "acls/remove/<kind>/<path>": Who.WRITER,
    W + "variables/create": Who.WRITER,
    W + "variables/update/<path>": Who.WRITER,
    W + "variables/get/<path>": Who.READER,
    W + "variables/get_value/<path>": Who.READER,
    W + "variables/list": Who.MEMBER,
    W + "variables/exists/<path>": Who.MEMBER,
    W + "variables/delete/<path>": Who.WRITER,
    W + "variables/encrypt": Who.DEVELOPER,
    W + "variables/list_contextual": Who.MEMBER,
    W + "resources/create": Who.WRITER,
    W + "resources/update/<path>": Who.WRITER,
    W + "resources/update_value/<path>": Who.WRITER,
    W + "resources/get/<path>": Who.READER,
    W + "resources/get_value/<path>": Who.READER,
    W + "resources/get_value_interpolated/<path>": Who.READER,
    W + "resources/list": Who.MEMBER,
    W + "resources/list_names/<name>": Who.MEMBER,
    W + "resources/list_search": Who.MEMBER,
    W + "resources/exists/<path>": Who.MEMBER,
    W + "resources/delete/<path>": Who.WRITER,
    W + "resources/file_resource_type_to_file_ext_map": Who.MEMBER,
    W + "resources/type/create": Who.DEVELOPER,
    W + "resources/type/update/<name>": Who.WRITER,
    W + "resources/type/get/<name>": Who.MEMBER,
    W + "resources/type/list": Who.MEMBER,
    W + "resources/type/listnames": Who.MEMBER,
    W + "resources/type/exists/<name>": Who.MEMBER,
    W + "resources/type/delete/<name>": Who.WRITER,
    W + "audit/list": Who.MEMBER,
    W + "audit/get/<id>": Who.READER,
    # scripts
    W + "scripts/create": Who.WRITER,
    W + "scripts/get/p/<path>": Who.READER,
    W + "scripts/get/h/<hash>": Who.READER,
    W + "scripts/raw/p/<path>": Who.READER,
    W + "scripts/raw_unpinned/p/<path>": Who.READER,
    W + "scripts/raw/h/<hash>": Who.READER,
    W + "scripts/exists/p/<path>": Who.MEMBER,
    W + "scripts/list": Who.MEMBER,
    W + "scripts/list_paths": Who.MEMBER,
    W + "scripts/list_search": Who.MEMBER,
    W + "scripts/history/p/<path>": Who.READER,
    W + "scripts/history_update/h/<hash>/p/<path>": Who.WRITER,
    W + "scripts/get_latest_version/<path>": Who.READER,
    W + "scripts/deployment_status/h/<hash>": Who.READER,
    W + "scripts/archive/p/<path>": Who.WRITER,
    W + "scripts/archive/h/<hash>": Who.WRITER,
    W + "scripts/delete/p/<path>": Who.WRITER,
    W + "scripts/delete/h/<hash>": Who.WRITER,
    W + "scripts/toggle_workspace_error_handler/p/<path>": Who.WRITER,
    W + "scripts/raw_temp/store": Who.DEVELOPER,
    W + "scripts/raw_temp/diff": Who.DEVELOPER,
    # dependency files
    W + "workspace_dependencies/create": Who.ADMIN,
    W + "workspace_dependencies/list": Who.MEMBER,
    W + "workspace_dependencies/get_latest/<language>": Who.MEMBER,
    W + "workspace_dependencies/archive/<language>": Who.ADMIN,
    W + "workspace_dependencies/delete/<language>": Who.ADMIN,
    # flows
    W + "flows/create": Who.WRITER,
    W + "flows/update/<path>": Who.WRITER,
    W + "flows/get/v/<version>": Who.READER,
    W + "flows/get/<path>": Who.READER,
    W + "flows/exists/<path>": Who.MEMBER,
    W + "flows/list": Who.MEMBER,
    W + "flows/list_paths": Who.MEMBER,
    W + "flows/list_search": Who.MEMBER,
    W + "flows/history/p/<path>": Who.READER,
    W + "flows/history_update/v/<version>": Who.WRITER,
    W + "flows/history_update/v/<version>/p/<path>": Who.WRITER,
    W + "flows/get_latest_version/<path>": Who.READER,
    W + "flows/deployment_status/p/<path>": Who.READER,
    W + "flows/archive/<path>": Who.WRITER,
    W + "flows/delete/<path>": Who.WRITER,
    W + "flows/toggle_workspace_error_handler/<path>": Who.WRITER,
    # runs: who may read a script may run it
    W + "jobs/run/p/<path>": Who.RUNNER,
    W + "jobs/run/h/<hash>": Who.RUNNER,
    W + "jobs/run/preview": Who.DEVELOPER,
    W + "jobs/run/batch_rerun_jobs": Who.MEMBER,
    W + "jobs/run_wait_result/p/<path>": Who.RUNNER,
    W + "jobs/run_wait_result/h/<hash>": Who.RUNNER,
    W + "jobs/run_wait_result/preview": Who.DEVELOPER,
    W + "jobs/run_inline/preview": Who.DEVELOPER,
    W + "jobs/run_and_stream/p/<path>": Who.RUNNER,
    W + "jobs/run_and_stream/h/<hash>": Who.RUNNER,
    W + "jobs/run/f/<path>": Who.RUNNER,
    W + "jobs/run/fv/<version>": Who.RUNNER,
    W + "jobs/run/preview_flow": Who.DEVELOPER,
    W + "jobs/run_wait_result/f/<path>": Who.RUNNER,
    W + "jobs/run_wait_result/fv/<version>": Who.RUNNER,
    W + "jobs/run_wait_result/preview_flow": Who.DEVELOPER,
    W + "jobs/run_and_stream/f/<path>": Who.RUNNER,
    W + "jobs/run_and_stream/fv/<version>": Who.RUNNER,
    W + "jobs/run/dependencies_async": Who.DEVELOPER,
    W + "jobs/run/flow_dependencies_async": Who.DEVELOPER,
    W + "jobs/restart/f/<id>": Who.RUNNER,
    W + "jobs/restart/f/<id>/from/<step_id>/<n>": Who.RUNNER,
    # jobs
    W + "jobs/list": Who.MEMBER,
    W + "jobs/queue/get_started_at_by_ids": Who.MEMBER,
    W + "jobs/result_by_id/<id>/<node_id>": Who.READER,
    W + "jobs_u/queue/cancel_persistent/<path>": Who.MEMBER,
    W + "jobs_u/completed/get_timing/<id>": Who.READER,
    W + "jobs_u/get_flow_debug_info/<id>": Who.READER,
    W + "jobs/list_filtered_uuids": Who.MEMBER,
    W + "jobs/delete": Who.ADMIN,
    W + "jobs/queue/list": Who.MEMBER,
    W + "jobs/queue/list_filtered_uuids": Who.MEMBER,
    W + "jobs/queue/count": Who.MEMBER,
    W + "jobs/queue/position/<scheduled_for>": Who.MEMBER,
    W + "jobs/queue/explain/<id>": Who.READER,
    W + "jobs/queue/cancel_selection": Who.MEMBER,
    W + "jobs/queue/run_now/<id>": Who.WRITER,
    W + "jobs/completed/list": Who.MEMBER,
    W + "jobs/completed/count": Who.MEMBER,
    W + "jobs/completed/count_jobs": Who.MEMBER,
    W + "jobs/completed/delete/<id>": Who.WRITER,
    W + "jobs/worker_is_draining/<id>": Who.READER,
    W + "jobs_u/get/<id>": Who.READER,
    W + "jobs_u/get_args/<id>": Who.READER,
    W + "jobs_u/get_logs/<id>": Who.READER,
    W + "jobs_u/getupdate/<id>": Who.READER,
    W + "jobs_u/getupdate_sse/<id>": Who.READER,
    W + "jobs_u/get_root_job_id/<id>": Who.READER,
    W + "jobs_u/completed/get/<id>": Who.READER,
    W + "jobs_u/completed/get_result/<id>": Who.READER,
    W + "jobs_u/completed/get_result_maybe/<id>": Who.READER,
    W + "jobs_u/queue/get_started_at_by_ids": Who.MEMBER,
    W + "jobs_u/queue/cancel/<id>": Who.WRITER,
    W + "jobs_u/queue/force_cancel/<id>": Who.WRITER,
    W + "job_metrics/set_progress/<id>": Who.WRITER,
    W + "job_metrics/get_progress/<id>": Who.READER,
    # approvals
    W + "jobs/resume_urls/<id>/<resume_id>": Who.READER,
    W + "jobs/job_signature/<id>/<resume_id>": Who.READER,
    W + "jobs/flow/resume/<id>": Who.WRITER,
    W + "jobs/flow/user_states/<id>/<key>": Who.READER,
    W + "jobs/slack_approval/<id>": Who.READER,
    W + "jobs/teams_approval/<id>": Who.READER,
    W + "jobs/wac_approval_urls/<id>/<step_key>": Who.READER,
    W + "jobs_u/resume/<id>/<resume_id>/<signature>": Who.LINK,
    W + "jobs_u/cancel/<id>/<resume_id>/<signature>": Who.LINK,
    W + "jobs_u/get_flow/<id>/<resume_id>/<signature>": Who.LINK,
    W + "jobs_u/flow/resume_suspended/<id>": Who.WRITER,
    W + "jobs_u/flow/approval_info/<id>": Who.READER,
    "scripts_u/tokened_raw/<workspace>/<token>/<path>": Who.TOKEN,
    # workers
    W + "concurrency_groups/list_jobs": Who.MEMBER,
    "concurrency_groups/list": Who.SUPERADMIN,
    "concurrency_groups/prune/<concurrency_key>": Who.SUPERADMIN,
    "concurrency_groups/<id>/key": Who.READER,
    "workers/list": Who.ACCOUNT,
    "workers/queue_counts": Who.ACCOUNT,
    "workers/queue_running_counts": Who.ACCOUNT,
    "workers/queue_status": Who.ACCOUNT,
    "workers/custom_tags": Who.ACCOUNT,
    "workers/get_default_tags": Who.ACCOUNT,
    "workers/is_default_tags_per_workspace": Who.ACCOUNT,
    W + "workers/custom_tags": Who.MEMBER,
    "workers/exists_workers_with_tags": Who.ACCOUNT,
    # worker groups; devops may do the same
    "configs/list_worker_groups": Who.ACCOUNT,
    "configs/list": Who.SUPERADMIN,
    "configs/get/<name>": Who.SUPERADMIN,
    "configs/update/<name>": Who.SUPERADMIN,
    "configs/list_autoscaling_events/<worker_group>": Who.SUPERADMIN,
    "configs/native_kubernetes_autoscaling_healthcheck": Who.SUPERADMIN,
    "configs/list_available_python_versions": Who.ACCOUNT,
    "settings/restart_worker_group/<worker_group>": Who.SUPERADMIN,
    "settings/critical_alerts": Who.SUPERADMIN,
    "settings/critical_alerts/<id>/acknowledge": Who.SUPERADMIN,
    "settings/critical_alerts/acknowledge_all": Who.SUPERADMIN,
    "jobs/db_clock": Who.ACCOUNT,
    "jobs/completed/count_by_tag": Who.SUPERADMIN,
}
# Two methods at one address, for different people.
BY_METHOD: dict[tuple[str, str], Who] = {
    ("POST", W + "jobs/flow/user_states/<id>/<key>"): Who.WRITER,
}

# What the parameters of an address stand for: things of alice's, in her workspace.
PARAMETERS = {
    "workspace": "acme",
    "workspace_id": "acme",
    "email": "alice@example.com",
    "username": "alice",
    "path": "f/private/secret",
    "kind": "variable",
    "key": "smtp_settings",
    "token_prefix": "0123456789",
    "token": "0" * 32,
    "id": "018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a10",
    "hash": "00000000000000aa",
    "version": "7700",
    "node_id": "a",
    "language": "python3",
    "step_id": "a",
    "n": "0",
    "scheduled_for": "1700000000000",
    "resume_id": "1",
    "signature": "0" * 64,
    "step_key": "approval",
    "concurrency_key": "acme/script/f/private/script",
    "worker_group": "default",
}
SPECIAL = {
    "folders": {"name": "private"},
    "groups": {"name": "error_handler"},
    "resources": {"name": "postgresql", "path": "f/private/database"},
    "scripts": {"path": "f/private/script"},
    "flows": {"path": "f/private/flow"},
    "jobs": {"path": "f/private/script"},
    "audit": {"id": "1"},
    "configs": {"name": "worker__default"},
}
# Bodies that would work if the caller had the right.
BODIES: dict[str, Any] = {
    "users/create": {"email": "new@example.com", "password": "a long enough one"},
    "users/update/<email>": {"is_super_admin": True},
    "users/set_password_of/<email>": {"password": "a long enough one"},
    "users/tokens/impersonate": {"impersonate_email": "alice@example.com"},
    "workspaces/create": {"id": "new", "name": "New"},
    "settings/global/<key>": {"value": {"password": "x"}},
    W + "users/update/<username>": {"operator": True},
    W + "workspaces/change_workspace_name": {"new_name": "Taken over"},
    W + "workspaces/change_workspace_color": {"color": "#ff0000"},
    W + "workspaces/add_user": {"email": "olga@example.com", "is_admin": True, "operator": False},
    W + "folders/update/<name>": {"owners": ["u/dave"]},
    W + "folders/addowner/<name>": {"owner": "u/dave"},
    W + "folders/removeowner/<name>": {"owner": "u/alice"},
    W + "groups/update/<name>": {"summary": "Taken over"},
    W + "groups/adduser/<name>": {"username": "dave"},
    W + "groups/removeuser/<name>": {"username": "alice"},
    W + "acls/add/<kind>/<path>": {"owner": "u/dave", "write": True},
    W + "acls/remove/<kind>/<path>": {"owner": "u/alice"},
    W + "variables/create": {"path": "f/private/mine", "value": "x", "is_secret": False},
    W + "variables/update/<path>": {"value": "taken over"},
    W + "resources/create": {"path": "f/private/mine", "value": {}, "resource_type": "postgresql"},
    W + "resources/update/<path>": {"value": {"host": "taken over"}},
    W + "resources/update_value/<path>": {"value": {"host": "taken over"}},
    W + "resources/type/update/<name>": {"description": "taken over"},
    W + "scripts/create": {
        "path": "f/private/mine",
        "content": "def main(): ...",
        "language": "python3",
        "summary": "",
    },
    W + "scripts/history_update/h/<hash>/p/<path>": {"deployment_msg": "taken over"},
    W + "scripts/toggle_workspace_error_handler/p/<path>": {"muted": True},
    W + "workspace_dependencies/create": {"language": "python3", "content": "evil"},
    W + "flows/create": {"path": "f/private/mine", "summary": "", "value": {"modules": []}},
    W + "flows/update/<path>": {"summary": "Taken over", "value": {"modules": []}},
    W + "flows/history_update/v/<version>": {"deployment_msg": "taken over"},
    W + "flows/history_update/v/<version>/p/<path>": {"deployment_msg": "taken over"},
    W + "flows/archive/<path>": {"archived": True},
    W + "flows/toggle_workspace_error_handler/<path>": {"muted": True},
    W + "jobs/run/preview": {"content": "def main(): ...", "language": "python3", "args": {}},
    W + "jobs/run_wait_result/preview": {"content": "def main(): ...", "language": "python3", "args": {}},
    W + "jobs/run_inline/preview": {"content": "def main(): ...", "language": "python3", "args": {}},
    W + "jobs/restart/f/<id>": {"step_id": "a"},
    W + "jobs/run/dependencies_async": {"raw_scripts": [{"raw_code": "x", "language": "python3"}]},
    W + "jobs/run/flow_dependencies_async": {"flow_value": {"modules": []}},
    W + "jobs/run/preview_flow": {"value": {"modules": []}, "args": {}},
    W + "jobs/run_wait_result/preview_flow": {"value": {"modules": []}, "args": {}},
    W + "jobs/queue/get_started_at_by_ids": ["018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a10"],
    W + "jobs_u/queue/get_started_at_by_ids": ["018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a10"],
    W + "jobs/delete": ["018f3a52-6b1e-7c9a-9d2f-3f6d0e5b7a10"],
    W + "job_metrics/set_progress/<id>": {"percent": 50},
}


def api_routes() -> list[tuple[str, str]]:
    """(method, address under /api) of every route, parameters as <name>."""
    found: list[tuple[str, str]] = []

    def walk(patterns: Any, prefix: str) -> None:
        for pattern in patterns:
            address = prefix + re.sub(r"<(?:\w+:)?(\w+)>", r"<\1>", str(pattern.pattern))
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, address)
            elif isinstance(pattern, URLPattern) and address.startswith("api/"):
                view = getattr(pattern.callback, "view_class", None) or getattr(pattern.callback, "cls", None)
                assert view is not None and issubclass(view, APIView), (
                    f"{address} is not a view of the REST framework"
                )
                methods = [name for name in ("get", "post", "put", "patch", "delete") if hasattr(view, name)]
                found.extend((method.upper(), address.removeprefix("api/")) for method in methods)

    walk(get_resolver().url_patterns, "")
    return found


API = api_routes()


def who_may(method: str, route: str) -> Who:
    return BY_METHOD.get((method, route)) or ROUTES[route]


def address(route: str, **instead: str) -> str:
    """The route with its parameters filled in, some of them with something else than usual."""
    part = route.removeprefix(W).split("/")[0]
    if route.endswith("/f/<path>"):
        part = "flows"
    values = {**PARAMETERS, **SPECIAL.get(part, {}), **instead}
    missing = [name for name in re.findall(r"<(\w+)>", route) if name not in values]
    assert not missing, f"{route}: say in PARAMETERS what {missing} stands for"
    return re.sub(r"<(\w+)>", lambda match: values[match[1]], route)


READ_BY_POST = {
    "workspaces/exists",
    "workspaces/exists_username",
    W + "jobs/queue/get_started_at_by_ids",
    W + "jobs_u/queue/get_started_at_by_ids",
}


def is_write(method: str, route: str) -> bool:
    runs_by_get = "/jobs/run" in route
    return runs_by_get or (method != "GET" and route not in READ_BY_POST)


def test_every_route_is_classified() -> None:
    routes = {route for _, route in API}

    assert sorted(routes - set(ROUTES)) == [], "say in ROUTES who may call these"
    assert sorted(set(ROUTES) - routes) == [], "these are classified, but not there"


def test_routes_end_without_a_slash_and_none_redirects(world: World) -> None:
    for method, route in API:
        assert not route.endswith("/")
        answer = world.call("alice", "HEAD" if method == "GET" else "OPTIONS", address(route) + "/")
        assert answer.status_code not in (301, 302, 307, 308), route


def refused(
    statuses: set[int], world: World, who: str | None, method: str, route: str, unchanged: Any
) -> None:
    answer = world.call(who, method, address(route), BODIES.get(route, {} if method != "GET" else None))
    doing = f"{who or 'anonymous'}: {method} {route}"
    assert answer.status_code in statuses, f"{doing} answered {answer.status_code} {answer.content[:200]!r}"
    assert answer["Content-Type"].startswith("text/plain"), doing
    assert len(answer.content) > 15, f"{doing} explains nothing: {answer.content!r}"
    assert SECRET.encode() not in answer.content, doing
    unchanged(doing)


def allowed(world: World, who: str, method: str, route: str) -> None:
    """Gets through to the domain; whatever it answers, it holds nothing of alice's and is not our fault."""
    answer = world.call(who, method, address(route), {} if method != "GET" else None)
    doing = f"{who}: {method} {route} answered {answer.status_code} {answer.content[:200]!r}"
    assert answer.status_code < 500, doing
    assert SECRET.encode() not in answer.content, doing


@pytest.fixture
def unchanged_here(world: World, unchanged: Any) -> Any:
    unchanged()
    return unchanged


def test_signed_out_nobody_gets_past_the_public_routes(world: World, unchanged_here: Any) -> None:
    for method, route in API:
        if who_may(method, route) is Who.LINK:
            refused({403}, world, None, method, route, unchanged_here)
        elif who_may(method, route) is Who.PUBLIC:
            assert world.call(None, method, address(route), {}).status_code < 500, route
        else:
            # Jobs started without an account can be followed without one; others do not exist for strangers.
            statuses = {401, 404} if "/jobs_u/" in route else {401}
            refused(statuses, world, None, method, route, unchanged_here)


def test_an_outsider_sees_no_workspace_but_their_own(world: World, unchanged_here: Any) -> None:
    for method, route in API:
        if who_may(method, route) is Who.LINK:
            refused({403}, world, "olga", method, route, unchanged_here)
        elif route.startswith(W):
            refused({404}, world, "olga", method, route, unchanged_here)
        elif who_may(method, route) is Who.SUPERADMIN:
            refused({403}, world, "olga", method, route, unchanged_here)


def test_outsiders_learn_nothing_of_others_from_instance_routes(world: World) -> None:
    for method, route in API:
        if not route.startswith(W) and who_may(method, route) in (Who.ACCOUNT, Who.CONFINED):
            answer = world.call("olga", method, address(route), {})
            assert answer.status_code < 500, route
            assert b"alice" not in answer.content and b"acme" not in answer.content, route


def test_a_token_confined_elsewhere_opens_nothing_here(world: World, unchanged_here: Any) -> None:
    for method, route in API:
        if route.startswith(W) or who_may(method, route) in (Who.ACCOUNT, Who.SUPERADMIN):
            refused({403}, world, "alice confined to other", method, route, unchanged_here)


def test_a_token_with_a_scope_for_something_else_opens_nothing(world: World, unchanged_here: Any) -> None:
    for method, route in API:
        if who_may(method, route) not in (Who.PUBLIC, Who.TOKEN):  # these do not read the header
            refused({403}, world, "scoped alice", method, route, unchanged_here)


def test_a_read_only_token_changes_nothing(world: World, unchanged_here: Any) -> None:
    for method, route in API:
        if is_write(method, route) and who_may(method, route) is not Who.PUBLIC:
            refused({403}, world, "read-only alice", method, route, unchanged_here)


DENIED_TO_DEVELOPERS = {
    Who.SUPERADMIN: {403},
    Who.ADMIN: {403},
    Who.READER: {404},
    Who.RUNNER: {404},
    Who.LINK: {403},
    Who.WRITER: {403, 404},
}
DENIED_TO_OPERATORS = {**DENIED_TO_DEVELOPERS, Who.DEVELOPER: {403}}


@pytest.mark.parametrize(("who", "denied"), [("dave", DENIED_TO_DEVELOPERS), ("oscar", DENIED_TO_OPERATORS)])
def test_members_without_rights_reach_only_what_is_theirs(
    who: str, denied: dict[Who, set[int]], world: World, unchanged: Any
) -> None:
    # First what must be refused, then the rest: among that is leaving the workspace.
    unchanged()
    for method, route in API:
        if who_may(method, route) in denied:
            refused(denied[who_may(method, route)], world, who, method, route, unchanged)
    for method, route in sorted(API, key=lambda item: item[1].endswith("/leave")):
        if who_may(method, route) not in denied and route != "auth/logout":
            allowed(world, who, method, route)


# Addresses whose subject this world does not have, or whose answer depends on more than rights.
NOT_THERE = {
    W + "jobs/result_by_id/<id>/<node_id>",
    W + "jobs/flow/user_states/<id>/<key>",
    W + "jobs/slack_approval/<id>",
    W + "jobs/teams_approval/<id>",
    W + "jobs/wac_approval_urls/<id>/<step_key>",
    W + "jobs_u/flow/approval_info/<id>",
    W + "audit/get/<id>",
    W + "workspace_dependencies/get_latest/<language>",
    W + "jobs/queue/explain/<id>",
}


def test_the_owner_gets_through(world: World) -> None:
    for method, route in API:
        if method == "GET" and who_may(method, route) in (Who.READER, Who.MEMBER, Who.ACCOUNT):
            if route in NOT_THERE or "_sse" in route:
                continue
            answer = world.get("alice", address(route))
            assert answer.status_code == 200, f"{route}: {answer.content[:200]!r}"
