"""`manage.py seed_demo`: demo data for every page."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from windmill_site import demo
from workspaces.models import Account


class Command(BaseCommand):
    help = "Fill workspace `demo` with people, scripts, variables, resources and runs. Safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        admin = Account.objects.filter(super_admin=True, disabled=False).order_by("created_at").first()
        if admin is None:
            raise CommandError("there is no superadmin yet; start the instance once with ./windmill up")
        queued = demo.seed(admin)
        self.stdout.write(
            f"workspace {demo.WORKSPACE} is filled; {queued} runs were queued (a running worker executes them)"
        )
        self.stdout.write(
            f"people: {', '.join(f'{name}@example.com' for name in demo.PEOPLE)}, password {demo.PASSWORD}"
        )
