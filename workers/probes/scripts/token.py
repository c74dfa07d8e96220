"""Uses its token beyond its workspace: instance-wide routes, superadmins' routes, another workspace."""

import json
import os
import urllib.error
import urllib.request

# Refused to every job, whoever it runs as.
CLOSED = (
    ("GET", "users/list_as_super_admin"),
    ("GET", "settings/list_global"),
    ("GET", "settings/global/jwt_secret"),
    ("POST", "users/create"),
    ("POST", "workspaces/create"),
    ("GET", "configs/list_worker_groups"),
)


def main(other_workspace: str = "") -> str:
    base = os.environ["BASE_INTERNAL_URL"].rstrip("/")
    closed = list(CLOSED)
    if other_workspace:
        for path in ("jobs/list", "scripts/list", "variables/list", "resources/list", "users/list"):
            closed.append(("GET", f"w/{other_workspace}/{path}"))
        closed.append(("POST", f"w/{other_workspace}/jobs/run/preview"))
    found = []
    for method, path in closed:
        body = (
            json.dumps({"content": "echo", "language": "bash", "args": {}}).encode()
            if method == "POST"
            else None
        )
        asked = urllib.request.Request(f"{base}/api/{path}", body, method=method)
        asked.add_header("Authorization", f"Bearer {os.environ['WM_TOKEN']}")
        asked.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                found.append(f"{method} {path}: {answer.status}")
        except urllib.error.HTTPError as error:
            if error.code not in (401, 403, 404):
                found.append(f"{method} {path}: {error.code}")
        except OSError as error:
            return f"untried: the API was not reached ({error})"
    return f"exposed: {found}" if found else "contained"
