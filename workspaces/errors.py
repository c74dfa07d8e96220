"""The errors that domain code raises for a person to read; one handler turns them into HTTP (workspaces.api.base).

The text is what the person sees: what was wrong, where, and what would be right. The prefix by class of error
("Not found: ...") is what Windmill's clients print.
"""


class DomainError(Exception):
    """Base of all errors meant for a reader. `code` is stable for programs, `http_status` for HTTP."""

    code = "bad_request"
    http_status = 400
    prefix = "Bad request"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def as_text(self) -> str:
        """The plain-text body of the API answer."""
        return f"{self.prefix}: {self.message}"


class BadRequest(DomainError):
    """The request itself is wrong: a value, a name, a combination."""


class NotSignedIn(DomainError):
    """No credentials, or credentials that are not (or no longer) valid."""

    code, http_status, prefix = "not_signed_in", 401, "Not authorized"


class PermissionDenied(DomainError):
    """Known caller, missing right; the message names the right."""

    code, http_status, prefix = "permission_denied", 403, "Permission denied"


class NotFound(DomainError):
    """Does not exist, or exists where this caller may not know of it."""

    code, http_status, prefix = "not_found", 404, "Not found"


class Conflict(DomainError):
    """Collides with what is there already. Windmill answers 400 here, and its clients rely on it."""

    code = "conflict"


class TooLarge(DomainError):
    """The body or value exceeds a limit."""

    code, http_status, prefix = "too_large", 413, "Too large"


class UnsupportedMedia(DomainError):
    """A content type that this route cannot read."""

    code, http_status, prefix = "unsupported_media", 415, "Unsupported media type"


class Unprocessable(DomainError):
    """Well-formed, but cannot be carried out (a failed synchronous run, a form with wrong fields)."""

    code, http_status, prefix = "unprocessable", 422, "Unprocessable"
