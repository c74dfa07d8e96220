"""The sample script that an empty workspace offers: from nothing to a result in one click."""

from pathlib import Path
from uuid import UUID

from jobs import runs, scripts
from jobs.models import Language
from jobs.payloads import Payload
from workspaces.access import Caller
from workspaces.errors import NotFound

_CODE = Path(__file__).parent / "csv_to_table.py"


def run_sample(caller: Caller) -> UUID:
    """Deploy the sample as u/<me>/csv_to_table, unless there is one already, and run it; answers the job's id."""
    path = f"u/{caller.username}/csv_to_table"
    try:
        script = scripts.get_script(caller, path)
    except NotFound:
        draft = scripts.ScriptDraft(
            path=path,
            content=_CODE.read_text(),
            language=Language.PYTHON3,
            summary="CSV to table",
            description="Reads CSV text and returns its rows, sorted. Change it, or start your own script.",
        )
        script = scripts.deploy_script(caller, draft, deployment_message="Sample")
    return runs.run_script(caller, script, Payload(args={}), runs.RunOptions())
