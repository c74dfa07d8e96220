"""The workers that reported lately, summed up for those who ask about all of them."""

import re
from datetime import timedelta

from django.db.models import Count, QuerySet
from django.db.models.functions import Now

from jobs.models import WorkerPing
from jobs.waiting import ALIVE_S

_PYTHON = re.compile(r"(?<![\d.])(3\.\d+)\.\d+")  # in "Python 3.12.1, 3.11.7; uv 0.5.1"


def live() -> QuerySet[WorkerPing]:
    """Workers that take jobs, or will in a moment."""
    return WorkerPing.objects.filter(
        ping_at__gt=Now() - timedelta(seconds=ALIVE_S), state__in=("starting", "running")
    )


def count_by_group() -> dict[str, int]:
    """Live workers of each group that has any."""
    rows = live().values("worker_group").annotate(count=Count("worker")).order_by("worker_group")
    return {row["worker_group"]: row["count"] for row in rows}


def python_versions() -> list[str]:
    """The Pythons that live workers run scripts with, newest first: ["3.12", "3.11"]."""
    told = live().values_list("runtimes__python3__version", flat=True)
    found = {minor for text in told if text for minor in _PYTHON.findall(text)}
    return sorted(found, key=lambda minor: int(minor.partition(".")[2]), reverse=True)
