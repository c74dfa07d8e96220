"""Choosing the path of an item: an owner the caller may write to, and a name."""

from typing import Any

from django import forms

from workspaces.access import Caller
from workspaces.forms import PageForm


def writable_owners(caller: Caller, path: str | None = None) -> list[tuple[str, list[tuple[str, str]]]]:
    """Choices by heading: the caller's own place, folders, groups; and the owner of `path`, whoever that is."""
    own = f"u/{caller.username}"
    folders = [f"f/{name}" for name in caller.folders_write]
    groups = sorted(f"g/{name}" for name in caller.groups if name != "all")
    other = "/".join(path.split("/")[:2]) if path else None
    headings = [("Yours", [own]), ("Folders", folders), ("Groups", groups)]
    if other and other not in (own, *folders, *groups):
        headings.insert(0, ("Now", [other]))
    return [(heading, [(owner, owner) for owner in owners]) for heading, owners in headings if owners]


class PathForm(PageForm):
    """A form whose first two fields make up a path: `owner` (u/ada, f/billing) and `name` (stripe/key)."""

    owner = forms.ChoiceField(label="Owner")
    name = forms.CharField(
        label="Name",
        max_length=200,
        help_text="Letters, digits, _ - and .; slashes make levels, as in stripe/api_key.",
        widget=forms.TextInput(
            attrs={"class": "mono", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}
        ),
    )

    def __init__(self, *args: Any, caller: Caller, path: str | None = None, **kwargs: Any) -> None:
        initial = kwargs.setdefault("initial", {})
        if path:
            kind, owner, name = path.split("/", 2)
            initial |= {"owner": f"{kind}/{owner}", "name": name}
        super().__init__(*args, **kwargs)
        self.fields["owner"].choices = writable_owners(caller, path)  # type: ignore[attr-defined]

    @property
    def path(self) -> str:
        """The path that was chosen, of a valid form."""
        return f"{self.cleaned_data['owner']}/{self.cleaned_data['name'].strip('/')}"


# Where the messages of paths belong (workspaces.names, workspaces.access).
PATH_HINTS = {
    "exists already": "name",
    "path ": "name",
    "folder ": "owner",
    "group ": "owner",
    "you need the right": "owner",
    "labels": "labels",
    "resource type": "resource_type",
}
