"""Error results that the worker itself gives a job, in the shape that every failed job has."""

import json


def as_result(name: str, message: str) -> str:
    """JSON text of a failed job's result: {"error": {"name", "message"}}."""
    return json.dumps({"error": {"name": name, "message": message}}, ensure_ascii=False)


def error_as_result(error: dict[str, object]) -> str:
    """JSON text of a result that holds this error object."""
    return json.dumps({"error": error}, ensure_ascii=False)
