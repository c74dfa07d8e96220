"""What a workspace id, a username, a folder name and a path may look like (reference/governance.md sections 2 and 3).

Every function returns the value it was given or raises BadRequest with what would be right.
"""

import re
from typing import NamedTuple

from workspaces.errors import BadRequest

MAX_WORKSPACE_ID = 50  # characters
MAX_NAME = 50
MAX_PATH = 255

# re.ASCII: \w must not admit letters that look like others in another alphabet.
_WORKSPACE_ID = re.compile(r"\w+(?:-\w+)*", re.ASCII)
_USERNAME = re.compile(r"[a-zA-Z_][a-zA-Z_0-9-]*", re.ASCII)
# A superadmin outside the workspace acts under the e-mail address (governance section 1), so a path may hold one.
_OWNER = re.compile(r"[a-zA-Z_0-9][a-zA-Z_0-9.@+-]*", re.ASCII)
_FOLDER = re.compile(r"[a-zA-Z_0-9]+", re.ASCII)
_SEGMENT = re.compile(r"[a-zA-Z_0-9.-]+", re.ASCII)
_RESOURCE_TYPE = re.compile(r"[a-zA-Z_0-9-]+", re.ASCII)
_EMAIL = re.compile(r"[^@\s/\\\x00<>\"']+@[^@\s/\\\x00<>\"']+", re.ASCII)
# Jobs that were started signed out bear this name, and whoever holds the id of one may look at it.
RESERVED_USERNAMES = frozenset({"anonymous"})
# Pages put a fixed word after the path (/scripts/<path>/edit/), so a path may not end in one.
RESERVED_LAST_SEGMENTS = frozenset({"edit", "run", "versions"})


class ItemPath(NamedTuple):
    """`u/alice/report` -> kind "u", owner "alice", name "report"."""

    kind: str  # "u", "f" or "g"
    owner: str
    name: str


def check_workspace_id(value: str) -> str:
    """`acme`, `acme-prod`: at most 50 letters, digits and _, with single dashes inside."""
    if not isinstance(value, str) or len(value) > MAX_WORKSPACE_ID or not _WORKSPACE_ID.fullmatch(value):
        raise BadRequest(
            f"workspace id {_shown(value)} is not valid; use at most {MAX_WORKSPACE_ID} letters, digits and _, "
            "with single dashes inside, such as acme-prod"
        )
    return value


def check_username(value: str) -> str:
    """`alice`: a letter or _ first, then letters, digits, _ and -; at most 50."""
    if not isinstance(value, str) or len(value) > MAX_NAME or not _USERNAME.fullmatch(value):
        raise BadRequest(
            f"username {_shown(value)} is not valid; start with a letter or _, go on with letters, digits, _ and -, "
            f"at most {MAX_NAME} characters"
        )
    if value in RESERVED_USERNAMES:
        raise BadRequest(f"username {value} stands for people who are not signed in; choose another")
    return value


def check_email(value: str) -> str:
    """An address in lower case. Only the shape is checked: name@host, no spaces, at most 255 characters."""
    if not isinstance(value, str) or len(value) > 255 or not _EMAIL.fullmatch(value):
        raise BadRequest(f"email {_shown(value)} is not valid; expected an address such as ada@example.com")
    return value.lower()


def check_folder_name(value: str) -> str:
    """`billing`: letters, digits and _, at most 50."""
    if not isinstance(value, str) or len(value) > MAX_NAME or not _FOLDER.fullmatch(value):
        raise BadRequest(
            f"folder name {_shown(value)} is not valid; use letters, digits and _, at most {MAX_NAME}"
        )
    return value


def check_group_name(value: str) -> str:
    """Same alphabet as usernames; groups are written g/<name>."""
    if not isinstance(value, str) or len(value) > MAX_NAME or not _USERNAME.fullmatch(value):
        raise BadRequest(
            f"group name {_shown(value)} is not valid; start with a letter or _, go on with letters, digits, _ and -"
        )
    return value


def check_resource_type_name(value: str) -> str:
    """`postgresql`, `c_crm`: letters, digits, _ and -."""
    if not isinstance(value, str) or len(value) > MAX_NAME or not _RESOURCE_TYPE.fullmatch(value):
        raise BadRequest(
            f"resource type {_shown(value)} is not valid; use letters, digits, _ and -, at most {MAX_NAME}"
        )
    return value


def parse_path(value: str) -> ItemPath:
    """Split and check an item path: `u/<user>/...`, `f/<folder>/...` or `g/<group>/...`, three segments or more."""
    problem = _path_problem(value)
    if problem:
        raise BadRequest(
            f"path {_shown(value)} is not valid: {problem}; expected for example f/billing/charge or u/alice/report"
        )
    kind, owner, name = value.split("/", 2)
    return ItemPath(kind, owner, name)


def check_path(value: str) -> str:
    """The path itself, checked as `parse_path` does."""
    parse_path(value)
    return value


def _path_problem(value: str) -> str | None:
    if not isinstance(value, str):
        return "it must be text"
    if len(value) > MAX_PATH:
        return f"it is longer than {MAX_PATH} characters"
    segments = value.split("/")
    if segments[0] not in ("u", "f", "g"):
        return "it must start with u/, f/ or g/"
    if len(segments) < 3 or not all(segments):
        return "it needs at least three parts, none of them empty"
    if not (_FOLDER if segments[0] == "f" else _OWNER).fullmatch(segments[1]):
        return (
            f"{segments[1]!r} cannot be the name of a {'folder' if segments[0] == 'f' else 'user or group'}"
        )
    for segment in segments[2:]:
        if not _SEGMENT.fullmatch(segment) or set(segment) == {"."}:
            return f"{segment!r} holds characters other than letters, digits, _ - and ."
    if segments[-1] in RESERVED_LAST_SEGMENTS:
        return f"it may not end in {segments[-1]!r}, which is the address of a page"
    return None


def check_owner(value: str) -> str:
    """An owner in access rules: `u/<username>` or `g/<group>`."""
    if (
        isinstance(value, str)
        and value[:2] in ("u/", "g/")
        and len(value) <= MAX_PATH
        and _OWNER.fullmatch(value[2:])
    ):
        return value
    raise BadRequest(f"owner {_shown(value)} is not valid; expected u/<username> or g/<group>")


def _shown(value: object) -> str:
    """Quote a hostile value for a message: short, printable."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return repr(text if len(text) <= 60 else text[:57] + "...")
