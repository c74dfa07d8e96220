"""Sign in, sign out, and the first password that must be changed."""

from typing import Any

from django import forms
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from workspaces import accounts, middleware, pages, tokens
from workspaces.access import Identity
from workspaces.errors import DomainError
from workspaces.forms import PageForm
from workspaces.models import Account
from workspaces.sign_in_limits import address_of

_TICKET_SALT = "first-password"
_TICKET_S = 600  # how long one may take to choose a password


class SignInForm(PageForm):
    """E-mail address and password."""

    email = forms.CharField(
        max_length=255,
        widget=forms.EmailInput(attrs={"autocomplete": "username", "autofocus": True, "spellcheck": "false"}),
    )
    password = forms.CharField(
        max_length=1000, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class NewPasswordForm(PageForm):
    """A password, twice."""

    new_password = forms.CharField(
        label="New password",
        max_length=1000,
        strip=False,
        help_text="At least 8 characters, not one of the common ones.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    repeated = forms.CharField(
        label="New password again",
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if data.get("new_password") and data.get("repeated") and data["new_password"] != data["repeated"]:
            self.add_error("repeated", "The two passwords differ.")
        return data


@never_cache
@sensitive_post_parameters("password", "new_password", "repeated")
@require_http_methods(["GET", "HEAD", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """/login/?next=: sign in. From elsewhere than this machine, the default password must be changed first."""
    target = pages.safe_next(request, request.POST.get("next") or request.GET.get("next"))
    if request.method != "POST":
        if middleware.identify(request) is not None:
            return HttpResponseRedirect(target)
        return _show(request, SignInForm(), target)
    if "ticket" in request.POST:
        return _choose_first_password(request, target)
    form = SignInForm(request.POST)
    if not form.is_valid():
        return _show(request, form, target, status=422)
    try:
        account = accounts.sign_in(
            **form.cleaned_data,
            from_loopback=middleware.is_from_loopback(request),
            address=address_of(request),
        )
    except accounts.MustChangePassword:
        ticket = signing.dumps(form.cleaned_data["email"].strip().lower(), salt=_TICKET_SALT)
        return _show(request, NewPasswordForm(), target, ticket=ticket)
    except DomainError as exc:
        form.add_error(None, pages.sentence(exc.message))
        return _show(request, form, target, status=422)
    return _enter(account, target)


def _choose_first_password(request: HttpRequest, target: str) -> HttpResponse:
    """Second step: the ticket proves that the default password was given; it is good while that password stands."""
    ticket = request.POST["ticket"]
    try:
        email = signing.loads(ticket, salt=_TICKET_SALT, max_age=_TICKET_S)
    except signing.BadSignature:
        return _show(request, SignInForm(), target, status=422, problem="That took too long; sign in again.")
    account = Account.objects.filter(pk=email, must_change_password=True, disabled=False).first()
    if account is None:
        return HttpResponseRedirect(reverse("login"))
    form = NewPasswordForm(request.POST)
    if form.is_valid():
        try:
            accounts.set_password(
                Identity(email=email, account=account),
                email=email,
                new_password=form.cleaned_data["new_password"],
            )
            return _enter(account, target)
        except DomainError as exc:
            pages.add_error(form, exc, {"password": "new_password"})
    return _show(request, form, target, status=422, ticket=ticket)


def _show(
    request: HttpRequest,
    form: PageForm,
    target: str,
    *,
    status: int = 200,
    ticket: str | None = None,
    problem: str = "",
) -> HttpResponse:
    context = {"form": form, "next": target, "ticket": ticket, "problem": problem}
    return render(request, "accounts/login.html", context, status=status)


def _enter(account: Account, target: str) -> HttpResponse:
    response = HttpResponseRedirect(target)
    middleware.set_session_cookie(response, tokens.create_session(account))
    return response


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """/logout/: forget this browser's session."""
    tokens.end_session(request.COOKIES.get(middleware.TOKEN_COOKIE, ""))
    response = HttpResponseRedirect(reverse("login"))
    middleware.clear_session_cookie(response)
    return response
