"""One's own account: name, password, tokens."""

from datetime import timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from workspaces import access, accounts, middleware, pages, tokens
from workspaces.access import Identity
from workspaces.errors import BadRequest, DomainError
from workspaces.forms import PageForm, SwitchField
from workspaces.models import Account, Member
from workspaces.pages import page
from workspaces.sign_in_limits import address_of
from workspaces.views.sign_in import NewPasswordForm


class NameForm(PageForm):
    """How one is called."""

    name = forms.CharField(
        label="Name", max_length=255, required=False, widget=forms.TextInput(attrs={"autocomplete": "name"})
    )


class PasswordForm(NewPasswordForm):
    """A new password, and the present one as proof that it is really the owner."""

    current = forms.CharField(
        label="Current password",
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    field_order = ("current", "new_password", "repeated")


def _own_account(identity: Identity) -> Account:
    if identity.account is None:
        raise BadRequest("you are signed in with the superadmin secret, which has no account of its own")
    return identity.account


@require_http_methods(["GET", "HEAD", "POST"])
@page
def account(request: HttpRequest, identity: Identity) -> HttpResponse:
    """/account/: who one is, and in which workspaces."""
    own = _own_account(identity)
    form = NameForm(request.POST or None, initial={"name": own.name or ""})
    if request.method == "POST" and form.is_valid():
        try:
            accounts.rename(identity, name=form.cleaned_data["name"])
            pages.say(request, "Saved")
            return HttpResponseRedirect(reverse("account"))
        except DomainError as exc:
            pages.add_error(form, exc)
    memberships = (
        Member.objects.filter(email=own.email, workspace__deleted=False)
        .select_related("workspace")
        .order_by("workspace__name")
    )
    context = {"form": form, "own": own, "memberships": memberships}
    return render(request, "accounts/account.html", context, status=422 if form.errors else 200)


@sensitive_post_parameters("current", "new_password", "repeated")
@require_http_methods(["GET", "HEAD", "POST"])
def change_password(request: HttpRequest) -> HttpResponse:
    """/account/password/: also where those are sent whose default password must be changed first."""
    try:
        identity = middleware.identify_or_raise(request)
        own = _own_account(identity)
    except DomainError as exc:
        return pages.error_page(request, exc)
    target = pages.safe_next(request, request.POST.get("next") or request.GET.get("next"), reverse("account"))
    form = PasswordForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            accounts.check_password(
                email=own.email, password=form.cleaned_data["current"], address=address_of(request)
            )
        except accounts.WrongCredentials:
            form.add_error("current", "This is not your current password.")
        except DomainError as exc:  # too many attempts
            pages.add_error(form, exc)
        else:
            try:
                accounts.set_password(
                    identity, email=own.email, new_password=form.cleaned_data["new_password"]
                )
                pages.say(request, "Password changed; your other sessions were signed out")
                return HttpResponseRedirect(target)
            except DomainError as exc:
                pages.add_error(form, exc, {"password": "new_password"})
    forced = own.must_change_password and not middleware.is_from_loopback(request)
    context = {"form": form, "own": own, "next": target, "forced": forced}
    return render(request, "accounts/password.html", context, status=422 if form.errors else 200)


# --- tokens -------------------------------------------------------------------------------------------------------

_LIFETIMES = {"1": "1 day", "7": "7 days", "30": "30 days", "90": "90 days", "365": "1 year", "": "Never"}


class TokenForm(PageForm):
    """A new token."""

    label = forms.CharField(
        max_length=255,
        help_text="What it is for, for example Deploy from CI.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    lifetime = forms.ChoiceField(
        label="Expires after", required=False, choices=list(_LIFETIMES.items()), initial="90"
    )
    workspace = forms.ChoiceField(label="Works in", required=False)
    scopes = forms.CharField(
        required=False,
        help_text="One a line, such as jobs:run:scripts:f/billing/* or variables:read. Empty: all that you may do.",
        widget=forms.Textarea(attrs={"rows": 3, "class": "mono", "spellcheck": "false"}),
    )
    read_only = SwitchField(label="Read only")

    def __init__(self, *args: Any, identity: Identity, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = access.workspaces_of(identity).order_by("name").values_list("pk", "name")
        self.fields["workspace"].choices = [("", "Every workspace"), *rows]  # type: ignore[attr-defined]


@require_http_methods(["GET", "HEAD", "POST"])
@page
def account_tokens(request: HttpRequest, identity: Identity) -> HttpResponse:
    """/account/tokens/: the list, and making one. The text of a new token is in this one answer only."""
    _own_account(identity)
    if request.method != "POST":
        return _tokens(request, identity, TokenForm(identity=identity))
    form = TokenForm(request.POST, identity=identity)
    if form.is_valid():
        data = form.cleaned_data
        try:
            text = tokens.create_token(
                identity,
                label=data["label"],
                expiration=timezone.now() + timedelta(days=int(data["lifetime"]))
                if data["lifetime"]
                else None,
                scopes=[line.strip() for line in data["scopes"].splitlines() if line.strip()] or None,
                workspace_id=data["workspace"] or None,
                read_only=data["read_only"],
            )
            answer = _tokens(request, identity, TokenForm(identity=identity), made=text)
            answer.headers["Cache-Control"] = "no-store"
            return answer
        except DomainError as exc:
            pages.add_error(form, exc, {"scope": "scopes"})
    return _tokens(request, identity, form, status=422)


@require_POST
@page
def delete_token(request: HttpRequest, identity: Identity, prefix: str) -> HttpResponse:
    """/account/tokens/<prefix>/delete/: at once unusable."""
    tokens.delete_token(identity, prefix)
    return pages.toast(_tokens(request, identity, TokenForm(identity=identity)), f"Token {prefix}… deleted")


def _tokens(
    request: HttpRequest, identity: Identity, form: TokenForm, *, status: int = 200, made: str | None = None
) -> HttpResponse:
    rows = list(tokens.list_tokens(identity))
    context = {
        "form": form,
        "made": made,
        "own_tokens": [row for row in rows if row.label != tokens.SESSION],
        "sessions": [row for row in rows if row.label == tokens.SESSION],
        "current_hash": identity.token_hash,
        "now": timezone.now(),
    }
    return pages.respond(
        request, "accounts/tokens.html", context, fragment="accounts/_tokens.html", status=status
    )
