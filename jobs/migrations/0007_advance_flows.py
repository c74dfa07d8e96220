"""The functions that write flows: see jobs/sql/functions/advance_flows.sql. A later change of that file needs a migration
like this one."""

from pathlib import Path
from typing import ClassVar

from django.db import migrations

SQL = (Path(__file__).parent.parent / "sql" / "functions" / "advance_flows.sql").read_text()


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0006_view_knows_flows")]
    operations: ClassVar = [
        migrations.RunSQL(
            SQL, "DROP FUNCTION advance_flows(json, text[]); DROP FUNCTION flow_result_value(json)"
        )
    ]
