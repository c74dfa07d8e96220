"""Pages of the dependency files that scripts of a workspace share: the list, and one file with its readers."""

import re
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs import workspace_dependencies
from jobs.dependencies.files import DEFAULT, FILE_NAMES, file_path
from jobs.file_readers import Readers, readers_of
from jobs.models import WorkspaceDependencies
from workspaces import pages
from workspaces.access import Caller
from workspaces.errors import BadRequest, Conflict, DomainError, NotFound
from workspaces.forms import PageForm
from workspaces.pages import workspace_page

MAX_SHOWN = 100  # readers
LANGUAGES = {
    "python3": "Python: requirements.in",
    "bun": "TypeScript: package.json",
    "go": "Go: go.mod",
    "php": "PHP: composer.json",
}
# What a script writes to be locked with a file, and how the editor reads the file.
COMMENTS = {
    "python3": "# requirements:",
    "bun": "// package_json:",
    "go": "// go_mod:",
    "php": "// composer_json:",
}
_HIGHLIGHTED = {"bun": "json", "php": "json"}
_URGENCY = {"failed": 0, "locking": 1, "ready": 2}


class FileForm(PageForm):
    """What a file says. The domain checks it."""

    description = forms.CharField(
        required=False,
        max_length=workspace_dependencies.MAX_DESCRIPTION,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    content = forms.CharField(required=False, strip=False, widget=forms.Textarea)

    def clean_content(self) -> str:
        """Lines end as the author wrote them: forms are sent with the ends of Windows."""
        text: str = self.cleaned_data["content"]
        return text.replace("\r\n", "\n")

    @property
    def error_line(self) -> int | None:
        """The line of the content that is wrong, where it is known."""
        found = re.search(
            r"\bline (\d{1,9})\b", " ".join(str(error) for error in self.errors.get("content", []))
        )
        return int(found[1]) if found else None


class NewFileForm(FileForm):
    """A file that is not there yet."""

    language = forms.ChoiceField(choices=list(LANGUAGES.items()))
    name = forms.CharField(
        required=False,
        max_length=workspace_dependencies.MAX_NAME,
        help_text="Scripts name the file by it. Without one, the file is for all scripts that name none.",
        widget=forms.TextInput(
            attrs={"class": "mono", "placeholder": "none: the default file", "autocomplete": "off"}
        ),
    )
    field_order = ("language", "name")


def file_url(workspace_id: str, language: str, name: str) -> str:
    """The page of a file."""
    parts = {"workspace": workspace_id, "language": language, "name": name or DEFAULT}
    return reverse("dependency-file", kwargs=parts)


@require_safe
@workspace_page
def file_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/dependencies/: the files, how many scripts read each, and whether those are locked again."""
    files = list(workspace_dependencies.list_files(caller))
    readers = readers_of(caller, files)
    context = {
        "rows": [
            {
                "file": file,
                "path": file_path(file.language, file.name),
                "url": file_url(caller.workspace_id, file.language, file.name),
                "readers": readers[file.pk],
            }
            for file in files
        ],
        "is_busy": any(one.locking_count for one in readers.values()),
        "may_write": workspace_dependencies.may_write(caller),
        "caller": caller,
    }
    return pages.respond(request, "dependencies/list.html", context, fragment="dependencies/_list.html")


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def new_file(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/dependencies/new/."""
    form = NewFileForm(request.POST or None, initial={"language": request.GET.get("language", "python3")})
    if request.method == "POST" and form.is_valid():
        language, name = form.cleaned_data["language"], form.cleaned_data["name"]
        try:
            _require_free(caller, language, name)
            return _save(request, caller, form, language, name)
        except DomainError as exc:
            pages.add_error(form, exc)
    language = form["language"].value()
    return _show(request, caller, form, language if language in FILE_NAMES else "python3", None)


def _require_free(caller: Caller, language: str, name: str) -> None:
    """Creating a file must not replace one that its author has not seen. Raises Conflict, BadRequest."""
    try:
        workspace_dependencies.get_latest(caller, language, name)
    except NotFound:
        return
    raise Conflict(
        f"name: {file_path(language, name)} exists already; choose another name, or edit that file"
    )


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def file(request: HttpRequest, caller: Caller, language: str, name: str) -> HttpResponse:
    """/w/<workspace>/dependencies/<language>/<name>/: a file, its editor and its readers. The default is `default`."""
    found = _found(caller, language, name)
    if request.method == "GET" and pages.is_fragment(request):
        return pages.respond(request, "dependencies/_readers.html", _about_readers(caller, found))
    form = FileForm(
        request.POST or None, initial={"content": found.content, "description": found.description}
    )
    if request.method == "POST" and form.is_valid():
        try:
            return _save(request, caller, form, found.language, found.name)
        except DomainError as exc:
            pages.add_error(form, exc)
    return _show(request, caller, form, found.language, found)


@require_POST
@workspace_page
def delete_file(request: HttpRequest, caller: Caller, language: str, name: str) -> HttpResponse:
    """/w/<workspace>/dependencies/<language>/<name>/delete/."""
    found = _found(caller, language, name)
    count = readers_of(caller, [found])[found.pk].count
    workspace_dependencies.delete(caller, found.language, found.name)
    pages.say(request, f"{file_path(found.language, found.name)} deleted{_follow_up(count)}")
    return pages.go(request, reverse("dependency-files", kwargs={"workspace": caller.workspace_id}))


def _found(caller: Caller, language: str, name: str) -> WorkspaceDependencies:
    try:
        return workspace_dependencies.get_latest(caller, language, "" if name == DEFAULT else name)
    except BadRequest as exc:  # no file has such an address
        raise NotFound(exc.message) from exc


def _save(request: HttpRequest, caller: Caller, form: FileForm, language: str, name: str) -> HttpResponse:
    data = form.cleaned_data
    made = workspace_dependencies.create(
        caller, language=language, name=name, content=data["content"], description=data["description"]
    )
    count = readers_of(caller, [made])[made.pk].locking_count
    pages.say(request, f"{file_path(language, name)} saved{_follow_up(count)}")
    return pages.go(request, file_url(caller.workspace_id, language, name))


def _follow_up(count: int) -> str:
    if not count:
        return ""
    what = "scripts and flows" if count > 1 else "script or flow"
    return f"; the dependencies of {count} {what} are being resolved again"


def _show(
    request: HttpRequest, caller: Caller, form: FileForm, language: str, file: WorkspaceDependencies | None
) -> HttpResponse:
    context = {
        "form": form,
        "file": file,
        "path": file_path(file.language, file.name) if file is not None else "",
        "language": language,
        "highlighted": _HIGHLIGHTED,
        "highlight": _HIGHLIGHTED.get(language, ""),
        "comment": COMMENTS[language],
        "comments": COMMENTS,
        "may_write": workspace_dependencies.may_write(caller),
        "list_url": reverse("dependency-files", kwargs={"workspace": caller.workspace_id}),
        **(_about_readers(caller, file) if file is not None else {}),
    }
    status = 422 if form.errors else 200
    return pages.respond(request, "dependencies/file.html", context, status=status)


def _about_readers(caller: Caller, file: WorkspaceDependencies) -> dict[str, Any]:
    """What _readers.html shows: failures first."""
    readers: Readers = readers_of(caller, [file])[file.pk]
    shown = sorted(readers.named, key=lambda one: (_URGENCY[one.state], one.path))[:MAX_SHOWN]
    return {
        "readers": readers,
        "shown": shown,
        "more_count": len(readers.named) - len(shown),
        "url": file_url(caller.workspace_id, file.language, file.name),
        "caller": caller,
    }
