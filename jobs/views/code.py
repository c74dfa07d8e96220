"""The code that a run ran, for its page and for the page of the flow that it is a step of."""

from typing import Any

from jobs import scripts
from jobs.shapes import JobRow
from workspaces.access import Caller
from workspaces.errors import NotFound


def code_of(caller: Caller, job: JobRow) -> dict[str, Any]:
    """{code, language, version}: the code at its version; for a test and an inline step, as it was written.

    `job` was read with its arguments. Code is None when it is gone, or is not the caller's to read.
    """
    if job.runnable_id is None:
        return {"code": job.raw_code, "language": job.script_lang, "version": None}
    try:
        version = scripts.get_by_hash(caller, job.runnable_id, scope=None)
    except NotFound:  # deleted since, or no longer this caller's to read
        return {"code": None, "language": job.script_lang, "version": None}
    return {
        "code": None if version.deleted else version.content,
        "language": version.language,
        "version": version,
    }
