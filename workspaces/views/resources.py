"""Resources and their types: list, create, edit, delete. The form of a resource comes from its type's schema."""

import json
from typing import Any

import jsonschema
from django import forms
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from workspaces import pages, resource_secrets, resource_types, resources
from workspaces.access import Caller, Right
from workspaces.errors import BadRequest, DomainError, NotFound
from workspaces.forms import LabelsField, PageForm
from workspaces.jsontext import parse_json
from workspaces.models import Resource, ResourceType
from workspaces.pages import Near, workspace_page
from workspaces.views.drawers import saved, show_form
from workspaces.views.paths import PATH_HINTS, PathForm

PAGE = 100  # resources


class ResourceForm(PathForm):
    """A resource. Its value is JSON text, typed by hand or made by the form of its type."""

    resource_type = forms.CharField(
        label="Type",
        max_length=50,
        widget=forms.TextInput(
            attrs={"list": "resource-types", "spellcheck": "false", "autocomplete": "off"}
        ),
    )
    value = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "class": "mono", "spellcheck": "false"}),
    )
    description = forms.CharField(required=False, max_length=10_000, widget=forms.Textarea(attrs={"rows": 2}))
    labels = LabelsField()
    field_order = ("resource_type", "owner", "name", "value", "description", "labels")

    def clean_value(self) -> Any:
        text = self.cleaned_data["value"]
        if not text.strip():
            return None
        try:
            return parse_json(text)
        except BadRequest as exc:
            raise forms.ValidationError(pages.sentence(exc.message.replace("the body", "the value"))) from exc


def _list_url(caller: Caller) -> str:
    return reverse("resources", kwargs={"workspace": caller.workspace_id})


def near_resources(caller: Caller, path: str = "", **parts: Any) -> list[Near]:
    """Resources whose path resembles one that does not exist."""
    known = resources.list_resources(caller).values_list("path", flat=True)[:5000]
    return pages.nearest(
        path, known, lambda found: pages.path_url("edit-resource", caller.workspace_id, found)
    )


@require_safe
@workspace_page
def resource_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/resources/?q=&type=&label=&after=: the list, a page by path at a time."""
    search, type_name, label, after = (
        request.GET.get(name, "").strip() for name in ("q", "type", "label", "after")
    )
    rows = resources.list_resources(
        caller, broad=search or None, types=[type_name] if type_name else None, label=label or None
    ).defer("value")
    if after:
        rows = rows.filter(path__gt=after)
    found = list(rows[: PAGE + 1])
    shown = [
        {"resource": row, "may_write": caller.right_on(row.path, row.extra_perms) >= Right.WRITE}
        for row in found[:PAGE]
    ]
    context = {
        "rows": shown,
        "more_after": found[PAGE - 1].path if len(found) > PAGE else None,
        "search": search,
        "type_name": type_name,
        "label": label,
        "list_url": _list_url(caller),
        "drawer": _opened(request, caller),
        "caller": caller,
    }
    if after and pages.is_fragment(request):
        return pages.respond(request, "assets/_resource_rows.html", context)
    response = pages.respond(request, "assets/resources.html", context, fragment="assets/_resources.html")
    if pages.is_fragment(request):
        query = pages.clean_query({"q": search, "type": type_name, "label": label})
        response.headers["HX-Replace-Url"] = request.path + query
    return response


def _opened(request: HttpRequest, caller: Caller) -> str | None:
    if request.GET.get("edit"):
        return pages.path_url("edit-resource", caller.workspace_id, request.GET["edit"])
    return (
        reverse("new-resource", kwargs={"workspace": caller.workspace_id}) if request.GET.get("new") else None
    )


@sensitive_post_parameters("value")
@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def new_resource(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/resources/new/?type=&owner=&name=: the form; it asks for itself again when the type changes."""
    if request.method != "POST":
        given = {
            name: request.GET.get(name, "")
            for name in ("owner", "name", "resource_type", "description", "labels")
        }
        form = ResourceForm(caller=caller, initial={name: value for name, value in given.items() if value})
        return _form(request, caller, form, None, type_name=given["resource_type"])
    form = ResourceForm(request.POST, caller=caller)
    if form.is_valid():
        data = form.cleaned_data
        schema = _schema(caller, data["resource_type"])
        try:
            check_against(schema, data["value"])
            with transaction.atomic():
                value = resource_secrets.store_secrets(
                    caller, path=form.path, value=data["value"], schema=schema
                )
                resources.create_resource(
                    caller,
                    path=form.path,
                    value=value,
                    resource_type=data["resource_type"],
                    description=data["description"],
                    labels=data["labels"],
                )
            return saved(request, f"Resource {form.path} created", list_url=_list_url(caller))
        except DomainError as exc:
            pages.add_error(form, exc, PATH_HINTS)
    return _form(request, caller, form, None, type_name=request.POST.get("resource_type", ""))


@sensitive_post_parameters("value")
@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(near=near_resources)
def edit_resource(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/<workspace>/resources/<path>/edit/."""
    resource = resources.get_resource(caller, path)
    caller.require_write(path, resource.extra_perms)
    schema = _schema(caller, resource.resource_type)
    initial = {
        "resource_type": resource.resource_type,
        "value": json.dumps(
            resource_secrets.without_secrets(resource.value, schema), indent=2, ensure_ascii=False
        ),
        "description": resource.description,
        "labels": resource.labels,
    }
    form = ResourceForm(request.POST or None, caller=caller, path=path, initial=initial)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            with transaction.atomic():
                value = resource_secrets.store_secrets(
                    caller, path=form.path, value=data["value"], schema=schema, stored=resource.value
                )
                check_against(schema, value)
                resources.update_resource(
                    caller,
                    path,
                    new_path=form.path,
                    value=value,
                    resource_type=data["resource_type"],
                    description=data["description"],
                    labels=data["labels"],
                )
            return saved(request, f"Resource {form.path} saved", list_url=_list_url(caller))
        except DomainError as exc:
            pages.add_error(form, exc, PATH_HINTS)
    return _form(request, caller, form, resource, type_name=resource.resource_type)


def _form(
    request: HttpRequest, caller: Caller, form: ResourceForm, resource: Resource | None, *, type_name: str
) -> HttpResponse:
    stored = resource.value if resource is not None else None
    schema = resource_secrets.form_schema(_schema(caller, type_name), stored)
    value: Any = resource_secrets.without_secrets(stored, schema) if stored is not None else {}
    if form.is_bound:
        typed = form.cleaned_data.get("value") if hasattr(form, "cleaned_data") else None
        value = resource_secrets.without_secrets(typed, schema) if typed is not None else value
        if resource_secrets.password_fields(schema):
            # What was typed as a password must not come back in HTML.
            form.data = {**form.data.dict(), "value": json.dumps(value)}  # type: ignore[attr-defined]
    context = {
        "form": form,
        "resource": resource,
        "action": request.path,
        "schema": schema,
        "value": value,
        "types": resource_types.list_resource_types(caller),
        "type_name": type_name,
        "caller": caller,
    }
    title = f"Edit {resource.path}" if resource else "New resource"
    status = 422 if form.errors else 200
    return show_form(
        request, "assets/_resource_form.html", context, title=title, list_url=_list_url(caller), status=status
    )


def _schema(caller: Caller, type_name: str) -> dict[str, Any] | None:
    """The schema of a type when a form can be made of it."""
    if not type_name:
        return None
    try:
        schema = resource_types.get_resource_type(caller, type_name).schema
    except NotFound:
        return None
    return (
        schema
        if isinstance(schema, dict) and isinstance(schema.get("properties"), dict) and schema["properties"]
        else None
    )


def check_against(schema: dict[str, Any] | None, value: Any) -> None:
    """Raises BadRequest naming the first field that the type's schema refuses. References stand for any value."""
    if schema is None or value is None:
        return
    try:
        validator = jsonschema.Draft202012Validator(schema)
        for problem in validator.iter_errors(value):
            if isinstance(problem.instance, str) and problem.instance.startswith(("$var:", "$res:")):
                continue
            where = ".".join(str(part) for part in problem.absolute_path)
            raise BadRequest(f"value{f'.{where}' if where else ''}: {problem.message[:300]}")
    except jsonschema.SchemaError as exc:
        raise BadRequest(
            f"value cannot be checked: the schema of the type is not valid ({exc.message[:200]})"
        ) from exc


@require_POST
@workspace_page
def delete_resource(request: HttpRequest, caller: Caller, path: str) -> HttpResponse:
    """/w/<workspace>/resources/<path>/delete/."""
    resources.delete_resource(caller, path)
    return saved(request, f"Resource {path} deleted", list_url=_list_url(caller))


# --- types --------------------------------------------------------------------------------------------------------


class ResourceTypeForm(PageForm):
    """A type: its name and the JSON Schema of its values."""

    name = forms.CharField(
        max_length=50,
        help_text="Letters, digits, _ and -; types of your own are usually named c_<name>.",
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "autocapitalize": "off"}),
    )
    description = forms.CharField(required=False, max_length=10_000, widget=forms.Textarea(attrs={"rows": 2}))
    schema = forms.CharField(
        help_text='JSON Schema of an object. Mark a field with "password": true to keep it as a secret variable.',
        widget=forms.Textarea(attrs={"rows": 14, "class": "mono", "spellcheck": "false"}),
    )

    def clean_schema(self) -> dict[str, Any]:
        try:
            schema = parse_json(self.cleaned_data["schema"])
        except BadRequest as exc:
            raise forms.ValidationError(
                pages.sentence(exc.message.replace("the body", "the schema"))
            ) from exc
        if not isinstance(schema, dict) or not isinstance(schema.get("properties", {}), dict):
            raise forms.ValidationError(
                'Expected an object such as {"type": "object", "properties": {"host": {"type": "string"}}}.'
            )
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as exc:
            where = ".".join(str(part) for part in exc.absolute_path)
            raise forms.ValidationError(
                f"Not a valid JSON Schema{f' at {where}' if where else ''}: {exc.message[:300]}."
            ) from exc
        return schema


_NEW_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "host": {"type": "string", "description": "Name or address of the server"},
        "token": {"type": "string", "password": True},
    },
    "required": ["host"],
}


def _types_url(caller: Caller) -> str:
    return reverse("resource-types", kwargs={"workspace": caller.workspace_id})


def _may_edit_type(caller: Caller, row: ResourceType) -> bool:
    return row.workspace_id == caller.workspace_id and (caller.is_admin or row.created_by == caller.username)


@require_safe
@workspace_page
def type_list(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/resource-types/?q=: the workspace's own types and the shared ones."""
    search = request.GET.get("q", "").strip()
    words = search.lower().split()
    rows = [
        {
            "type": row,
            "may_edit": _may_edit_type(caller, row),
            "is_shared": row.workspace_id != caller.workspace_id,
        }
        for row in resource_types.list_resource_types(caller)
        if all(word in f"{row.name} {row.description}".lower() for word in words)
    ]
    context = {
        "rows": rows,
        "search": search,
        "list_url": _types_url(caller),
        "caller": caller,
        "drawer": None,
    }
    response = pages.respond(request, "assets/types.html", context, fragment="assets/_types.html")
    if pages.is_fragment(request):
        response.headers["HX-Replace-Url"] = request.path + pages.clean_query({"q": search})
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def new_type(request: HttpRequest, caller: Caller) -> HttpResponse:
    """/w/<workspace>/resource-types/new/."""
    form = ResourceTypeForm(request.POST or None, initial={"schema": json.dumps(_NEW_SCHEMA, indent=2)})
    if request.method == "POST" and form.is_valid():
        try:
            resource_types.create_resource_type(caller, **form.cleaned_data)
            return saved(request, f"Type {form.cleaned_data['name']} created", list_url=_types_url(caller))
        except DomainError as exc:
            pages.add_error(form, exc, {"resource type": "name"})
    return _type_form(request, caller, form, None)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page
def edit_type(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """/w/<workspace>/resource-types/<name>/edit/: also shows types that cannot be changed here."""
    row = resource_types.get_resource_type(caller, name)
    initial = {
        "name": row.name,
        "description": row.description,
        "schema": json.dumps(row.schema or {}, indent=2, ensure_ascii=False),
    }
    form = ResourceTypeForm(
        {**request.POST.dict(), "name": name} if request.method == "POST" else None, initial=initial
    )
    form.fields["name"].widget.attrs["readonly"] = True
    if not _may_edit_type(caller, row):
        for field in form.fields.values():
            field.widget.attrs["readonly"] = True
    if request.method == "POST" and form.is_valid():
        try:
            data = form.cleaned_data
            resource_types.update_resource_type(
                caller, name, schema=data["schema"], description=data["description"]
            )
            return saved(request, f"Type {name} saved", list_url=_types_url(caller))
        except DomainError as exc:
            pages.add_error(form, exc)
    return _type_form(request, caller, form, row)


def _type_form(
    request: HttpRequest, caller: Caller, form: ResourceTypeForm, row: ResourceType | None
) -> HttpResponse:
    may_edit = row is None or _may_edit_type(caller, row)
    context = {
        "form": form,
        "type": row,
        "may_edit": may_edit,
        "action": request.path,
        "schema": row.schema if row else None,
    }
    title = (f"Edit {row.name}" if may_edit else row.name) if row else "New resource type"
    status = 422 if form.errors else 200
    return show_form(
        request, "assets/_type_form.html", context, title=title, list_url=_types_url(caller), status=status
    )


@require_POST
@workspace_page
def delete_type(request: HttpRequest, caller: Caller, name: str) -> HttpResponse:
    """/w/<workspace>/resource-types/<name>/delete/."""
    resource_types.delete_resource_type(caller, name)
    return saved(request, f"Type {name} deleted", list_url=_types_url(caller))
