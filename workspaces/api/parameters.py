"""Query parameters for the schema of the API."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter


def query(name: str, description: str = "", kind: Any = OpenApiTypes.STR) -> OpenApiParameter:
    """A query parameter."""
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=description)


def switch(name: str, description: str = "") -> OpenApiParameter:
    """A query parameter that is true or false."""
    return query(name, description, OpenApiTypes.BOOL)


PAGES = [
    query("page", "Counts from 1; 0 means the same", OpenApiTypes.INT),
    query("per_page", "Rows a page, 1000 unless given", OpenApiTypes.INT),
]
