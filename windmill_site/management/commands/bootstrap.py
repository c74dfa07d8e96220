"""`manage.py bootstrap`: make the first superadmin and the admins workspace; harmless when they exist."""

from typing import Any

from django.core.management.base import BaseCommand

from workspaces.accounts import bootstrap


class Command(BaseCommand):
    help = "Make the first superadmin (SUPERADMIN_EMAIL, SUPERADMIN_PASSWORD) and the admins workspace."

    def handle(self, *args: Any, **options: Any) -> None:
        email, made = bootstrap()
        self.stdout.write(f"superadmin {email} {'created' if made else 'exists'}")
