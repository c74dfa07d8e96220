"""How drf-spectacular describes our way to sign in, and the errors every route can answer."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """A token as bearer, query parameter or cookie."""

    target_class = "workspaces.api.protocol.TokenAuthentication"
    name = ["bearerAuth", "queryAuth", "cookieAuth"]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, str]]:
        """Security schemes in the order of `name`."""
        return [
            {"type": "http", "scheme": "bearer"},
            {"type": "apiKey", "in": "query", "name": "token"},
            {"type": "apiKey", "in": "cookie", "name": "token"},
        ]

    def get_security_requirement(self, auto_schema: Any) -> list[dict[str, list[Any]]]:
        """Any one of them is enough."""
        return [{name: []} for name in self.name]


_ERRORS = {
    "400": "Bad request: a sentence that says what is wrong",
    "401": "Not authorized: no token, or one that is not valid",
    "403": "Permission denied: the missing right by name",
    "404": "Not found: does not exist, or not for this caller",
}


def add_errors(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Postprocessing hook: every operation may answer these, as plain text."""
    for operations in result["paths"].values():
        for operation in operations.values():
            for status, description in _ERRORS.items():
                operation["responses"].setdefault(
                    status,
                    {"description": description, "content": {"text/plain": {"schema": {"type": "string"}}}},
                )
    return result
