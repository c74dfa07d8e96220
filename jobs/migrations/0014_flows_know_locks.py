"""advance_flows writes the locks of inline scripts."""

from pathlib import Path
from typing import ClassVar

from django.db import migrations

SQL = (Path(__file__).parent.parent / "sql" / "functions" / "advance_flows.sql").read_text()


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0013_dependencies_of_scripts")]
    operations: ClassVar = [migrations.RunSQL(SQL, migrations.RunSQL.noop)]
