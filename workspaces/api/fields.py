"""Serializer fields that take what was meant and nothing else: no "true" for true, no 1 for "1", no trimmed texts."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema_field
from rest_framework import serializers

# The answer of routes that send plain text.
TEXT_OK = {(200, "text/plain"): OpenApiTypes.STR}
TEXT_CREATED = {(201, "text/plain"): OpenApiTypes.STR}
BOOLEAN_OK = {200: OpenApiTypes.BOOL}
NO_CONTENT = {204: OpenApiResponse(description="Done")}


class Text(serializers.CharField):
    """A text as it was sent: blanks at its ends may be part of a password. May be empty unless told otherwise."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("trim_whitespace", False)
        options.setdefault("allow_blank", True)
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Name(Text):
    """A text that may not be empty. What it may look like is the domain's business."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_blank=False, **options)


class Flag(serializers.BooleanField):
    """true or false."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Whole(serializers.IntegerField):
    """A whole number that fits a PostgreSQL integer."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("min_value", -(2**31))
        options.setdefault("max_value", 2**31 - 1)
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return super().to_internal_value(data)


class Texts(serializers.ListField):
    """A list of texts."""

    child = Text()

    def __init__(self, **options: Any) -> None:
        options.setdefault("max_length", 10_000)
        super().__init__(**options)


@extend_schema_field(OpenApiTypes.ANY)
class Json(serializers.Field):
    """Any JSON value, null included; parsed and checked already."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_null", True)
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field({"type": "object", "additionalProperties": True})
class JsonObject(Json):
    """Any JSON object."""

    default_error_messages = {"not_an_object": "Expected an object."}

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_null", False)
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            self.fail("not_an_object")
        return data


class Rules(serializers.DictField):
    """Access rules: {"u/alice": true (write), "g/team": false (read)}."""

    child = Flag()


class Time(serializers.DateTimeField):
    """A moment in ISO 8601 with a zone, such as 2030-01-31T12:00:00Z."""

    def to_internal_value(self, value: Any) -> Any:
        if not isinstance(value, str):
            self.fail("invalid", format="2030-01-31T12:00:00Z")
        try:
            return super().to_internal_value(value)
        except (OverflowError, ValueError):
            self.fail("invalid", format="2030-01-31T12:00:00Z")


class Body(serializers.Serializer[Any]):
    """Base of request bodies."""


class Shape(serializers.Serializer[Any]):
    """Base of the shapes that answers have. They document: the domain modules build the values."""


def map_of(value: dict[str, Any]) -> dict[Any, Any]:
    """The answer of a route that sends an object of which only the values have a known schema."""
    return {(200, "application/json"): {"type": "object", "additionalProperties": value}}
