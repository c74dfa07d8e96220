"""The value of a draft keeps the order of its keys: a draft of a flow compares with the flow line by line."""

from typing import Any, ClassVar

from django.db import migrations

import jobs.models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("jobs", "0011_former_paths_and_runs_without_steps")]
    operations: ClassVar[list[Any]] = [
        migrations.AlterField("draft", "value", jobs.models.OrderedJSONField()),
    ]
