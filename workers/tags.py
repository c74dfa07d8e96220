"""Which tags a worker listens to, and what it is called (reference/worker.md section 1)."""

import random
import re
import string
from collections.abc import Sequence

from jobs.models import ALL_LANGUAGES

# Tags of work that is no language of its own.
_OTHER_TAGS = ("dependency", "flow", "other")

# What a native worker runs: languages whose jobs wait for others most of the time and need little of the machine, so
# that one process has room for many.
NATIVE_LANGUAGES = (
    "nativets",
    "bunnative",
    "postgresql",
    "mysql",
    "graphql",
    "bigquery",
    "snowflake",
    "mssql",
    "oracledb",
)
NATIVE_SLOTS = 8  # of a native worker, unless NUM_WORKERS says otherwise


def worker_name(*, group: str, hostname: str) -> str:
    """`wk-<group>-<end of the hostname>-<5 random characters>`: unique among all processes that ever ran."""
    suffix = re.sub(r"[^A-Za-z0-9-]", "", hostname)[-12:].strip("-") or "host"
    return f"wk-{group}-{suffix}-{''.join(random.choices(string.ascii_letters + string.digits, k=5))}"


def resolve_tags(
    *,
    group: str,
    languages: Sequence[str],
    forced: Sequence[str],
    configured: Sequence[str] | None,
    from_environment: Sequence[str],
    dedicated: Sequence[str] = (),
    native: bool = False,
) -> tuple[list[str], list[str]]:
    """The tags to claim, and those left out because they stand for work that this worker does not do.

    FORCE_WORKER_TAGS, else the group's configuration (for group `default`, unless it is dedicated, together with
    WORKER_TAGS) and the `dedicated` tags, else those, else WORKER_TAGS, else everything that the worker can run.
    `languages`: those that it can run, on a `native` worker native ones only.
    """
    if forced:
        wanted = list(forced)
    elif configured is not None:
        also = from_environment if group == "default" and not dedicated else ()
        wanted = [*configured, *dedicated, *also]
    elif dedicated:
        wanted = list(dedicated)
    elif from_environment:
        wanted = list(from_environment)
    else:
        wanted = [*languages, *(() if native else _OTHER_TAGS)]
    cannot = set(ALL_LANGUAGES) - set(languages) | set(_OTHER_TAGS if native else ())
    left_out = [tag for tag in wanted if tag in cannot]
    return [tag for tag in dict.fromkeys(wanted) if tag not in cannot], left_out
