"""Which tags a worker listens to, and what it is called (reference/worker.md section 1)."""

import random
import re
import string
from collections.abc import Sequence

from jobs.models import ALL_LANGUAGES

# Tags of work that is no language of its own.
_OTHER_TAGS = ("dependency", "flow", "other")


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
) -> tuple[list[str], list[str]]:
    """The tags to claim, and those left out because they name a language that this worker cannot run.

    FORCE_WORKER_TAGS, else the group's configuration (for group `default` together with WORKER_TAGS), else WORKER_TAGS,
    else everything that the worker can run.
    """
    if forced:
        wanted = list(forced)
    elif configured is not None:
        wanted = [*configured, *(from_environment if group == "default" else ())]
    elif from_environment:
        wanted = list(from_environment)
    else:
        wanted = [*languages, *_OTHER_TAGS]
    unknown = [tag for tag in wanted if tag in ALL_LANGUAGES and tag not in languages]
    return [tag for tag in dict.fromkeys(wanted) if tag not in unknown], unknown
