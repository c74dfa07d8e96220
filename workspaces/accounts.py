"""Accounts: creation, passwords, sign-in, the first superadmin."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from workspaces import audit
from workspaces.access import Identity
from workspaces.errors import BadRequest, Conflict, DomainError, NotFound
from workspaces.models import Account, ActionKind, AuditEntry, Member, Token, Workspace
from workspaces.names import check_email, check_username
from workspaces.sign_in_limits import FAILURE, check_may_try

DEFAULT_PASSWORD = "changeme"
ADMINS_WORKSPACE = "admins"


class WrongCredentials(DomainError):
    """Unknown e-mail or wrong password; deliberately the same answer."""

    code, http_status, prefix = "wrong_credentials", 401, "Not authorized"


class MustChangePassword(DomainError):
    """Sign-in from another host while the account has its first, well-known password."""

    code, http_status, prefix = "must_change_password", 403, "Permission denied"


class PasswordBackend:
    """Django's hook for checking a password, for code of Django's own that asks for one."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **_: Any
    ) -> Account | None:
        try:
            return check_password(email=username or "", password=password or "")
        except DomainError:
            return None

    def get_user(self, user_id: str) -> Account | None:
        return Account.objects.filter(pk=user_id).first()


def check_password(*, email: str, password: str, address: str | None = None) -> Account:
    """The account of these credentials. Raises WrongCredentials; costs the same whether or not the account exists.

    `address` is where the attempt comes from; too many failures from there raise TooManyAttempts.
    """
    if "\x00" in email or "\x00" in password:
        raise WrongCredentials("wrong email or password")
    email = email.strip().lower()[:255]
    check_may_try(email=email, address=address)
    account = Account.objects.filter(pk=email).first()
    if account is None:
        Account().set_password(password)
    elif account.check_password(password) and not account.disabled:
        return account
    AuditEntry.objects.create(
        workspace_id=audit.INSTANCE,
        username=email,
        email=email,
        operation=FAILURE,
        action_kind=ActionKind.EXECUTE,
        parameters={"address": address or ""},
    )
    raise WrongCredentials("wrong email or password")


def sign_in(*, email: str, password: str, from_loopback: bool, address: str | None = None) -> Account:
    """Check credentials for a sign-in. Raises WrongCredentials, TooManyAttempts, MustChangePassword (not from here)."""
    account = check_password(email=email, password=password, address=address)
    if account.must_change_password and not from_loopback:
        raise MustChangePassword(
            f"{account.email} still has its default password; "
            f"choose a new one on the sign-in page {settings.BASE_URL}/login/ first"
        )
    audit.record(Identity(email=account.email), "users.login", ActionKind.EXECUTE)
    return account


def create_account(
    by: Identity,
    *,
    email: str,
    password: str | None,
    super_admin: bool = False,
    name: str | None = None,
    company: str | None = None,
) -> Account:
    """Make an account (superadmin only). Without a password it cannot sign in with one. BadRequest, Conflict."""
    by.require_super_admin()
    _check_texts(name, company)
    account = Account(email=check_email(email), super_admin=super_admin, name=name, company=company)
    if password is None:
        account.set_unusable_password()
    else:
        account.set_password(_good_password(password, account))
    try:
        with transaction.atomic():
            account.save(force_insert=True)
            audit.record(
                by,
                "users.add_global",
                ActionKind.CREATE,
                resource=account.email,
                parameters={"super_admin": super_admin},
            )
    except IntegrityError as exc:
        raise Conflict(f"an account with email {account.email} exists already") from exc
    return account


def get_account(by: Identity, email: str) -> Account:
    """One's own account, or anybody's as superadmin. Raises NotFound, PermissionDenied."""
    if email != by.email:
        by.require_super_admin()
    account = Account.objects.filter(pk=email).first()
    if account is None:
        raise NotFound(f"account {email[:255]} does not exist")
    return account


def account_exists(email: str) -> bool:
    """Has anybody this address here?"""
    return Account.objects.filter(pk=email.lower()).exists()


def list_accounts(by: Identity, *, active_only: bool = False) -> QuerySet[Account]:
    """All accounts by e-mail, for superadmins and devops. `active_only`: those that used a token in the last 30 days."""
    by.require_devops()
    rows = Account.objects.order_by("email")
    if active_only:
        recently = Token.objects.filter(last_used_at__gt=timezone.now() - timedelta(days=30))
        rows = rows.filter(email__in=recently.values("email"), disabled=False)
    return rows


def update_account(
    by: Identity,
    email: str,
    *,
    is_super_admin: bool | None = None,
    is_devops: bool | None = None,
    name: str | None = None,
    company: str | None = None,
    disabled: bool | None = None,
) -> None:
    """Change what is given (superadmin only). Disabling ends all use at once: every request looks.

    Raises BadRequest (the last superadmin), NotFound, PermissionDenied.
    """
    by.require_super_admin()
    given = {
        "super_admin": is_super_admin,
        "devops": is_devops,
        "name": name,
        "company": company,
        "disabled": disabled,
    }
    changes = {field: value for field, value in given.items() if value is not None}
    _check_texts(name, company)
    with transaction.atomic():
        account = _locked_account(email)
        if changes.get("super_admin") is False or changes.get("disabled"):
            _require_another_super_admin(account)
        Account.objects.filter(pk=account.pk).update(**changes)
        audit.record(by, "users.update", ActionKind.UPDATE, resource=email, parameters={"changes": changes})


def rename(by: Identity, *, name: str) -> None:
    """Change how one's own account is called; "" forgets the name. BadRequest."""
    if by.account is None:
        raise BadRequest("this identity has no account, so it has no name to change")
    _check_texts(name, None)
    with transaction.atomic():
        Account.objects.filter(pk=by.email).update(name=name.strip() or None)
        audit.record(
            by, "users.update", ActionKind.UPDATE, resource=by.email, parameters={"changes": {"name": name}}
        )


def delete_account(by: Identity, email: str) -> None:
    """Delete an account, its tokens and its memberships; what it made stays (superadmin only). BadRequest, NotFound."""
    by.require_super_admin()
    with transaction.atomic():
        account = _locked_account(email)
        _require_another_super_admin(account)
        Token.objects.filter(email=email).delete()
        Member.objects.filter(email=email).delete()
        account.delete()
        audit.record(by, "users.delete", ActionKind.DELETE, resource=email)


def _locked_account(email: str) -> Account:
    account = Account.objects.select_for_update().filter(pk=email).first()
    if account is None:
        raise NotFound(f"account {email[:255]} does not exist")
    return account


def _require_another_super_admin(account: Account) -> None:
    if not account.super_admin or account.disabled:
        return
    others = (
        Account.objects.select_for_update().filter(super_admin=True, disabled=False).exclude(pk=account.pk)
    )
    if not others.exists():
        raise BadRequest(
            f"{account.email} is the last superadmin of the instance; make somebody else superadmin first"
        )


def account_shape(account: Account, *, operator_only: bool | None = None) -> dict[str, Any]:
    """GlobalUserInfo of the API."""
    return {
        "email": account.email,
        "login_type": account.login_type,
        "super_admin": account.super_admin,
        "devops": account.devops,
        "verified": account.verified,
        "name": account.name,
        "company": account.company,
        "username": account.username,
        "first_time_user": account.first_time_user,
        "role_source": "manual",
        "disabled": account.disabled,
        **({} if operator_only is None else {"operator_only": operator_only}),
    }


def who_am_i(identity: Identity) -> dict[str, Any]:
    """GlobalUserInfo of whoever calls, also where there is no account (superadmin secret, jobs of deleted people)."""
    account = identity.account or Account(email=identity.email, super_admin=identity.super_admin)
    roles = Member.objects.filter(email=identity.email, disabled=False).values_list("operator", flat=True)
    return account_shape(account, operator_only=bool(roles) and all(roles) and not identity.super_admin)


def set_password(by: Identity, *, email: str, new_password: str) -> None:
    """Change a password: one's own, or anyone's as superadmin. Ends the other sessions of the account."""
    account = get_account(by, email)
    account.set_password(_good_password(new_password, account))
    account.must_change_password = False
    with transaction.atomic():
        account.save(update_fields=["password", "must_change_password"])
        Token.objects.filter(email=email, label="session").exclude(token_hash=by.token_hash or "").delete()
        audit.record(by, "users.setpassword", ActionKind.UPDATE, resource=email)


def _check_texts(name: str | None, company: str | None) -> None:
    for field, value in (("name", name), ("company", company)):
        if value is not None and len(value) > 255:
            raise BadRequest(f"{field} is longer than 255 characters")


def _good_password(password: str, account: Account) -> str:
    if not isinstance(password, str) or "\x00" in password or len(password) > 1000:
        raise BadRequest("password must be text of at most 1000 characters")
    try:
        validate_password(password, account)
    except ValidationError as exc:
        raise BadRequest("password: " + " ".join(exc.messages)) from exc
    return password


def bootstrap() -> tuple[str, bool]:
    """The first superadmin and the `admins` workspace; does nothing where they exist. Answers (email, made now).

    The account comes from SUPERADMIN_EMAIL and SUPERADMIN_PASSWORD. With the well-known default password it is marked,
    so that every page says so and sign-in from elsewhere must change it first.
    """
    from workspaces.resource_types import add_well_known_types
    from workspaces.workspaces import add_default_groups

    made = False
    with transaction.atomic():
        workspace, _ = Workspace.objects.get_or_create(
            pk=ADMINS_WORKSPACE, defaults={"name": "Admins", "owner": settings.SUPERADMIN_EMAIL}
        )
        add_default_groups(workspace)
        add_well_known_types(workspace)
        if not Account.objects.filter(super_admin=True).exists():
            email = check_email(settings.SUPERADMIN_EMAIL)
            account = Account(
                email=email,
                super_admin=True,
                must_change_password=settings.SUPERADMIN_PASSWORD == DEFAULT_PASSWORD,
            )
            account.set_password(settings.SUPERADMIN_PASSWORD)
            account.save()
            made = True
            username = check_username("admin")
            Member.objects.get_or_create(
                workspace=workspace, email=email, defaults={"username": username, "is_admin": True}
            )
    first = (
        Account.objects.filter(super_admin=True)
        .order_by("created_at")
        .values_list("email", flat=True)
        .first()
    )
    return str(first), made
