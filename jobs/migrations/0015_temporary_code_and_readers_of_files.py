import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

# Until now nobody wrote down which scripts read the default dependency file of their language: those that say nothing of
# dependency files. Writing it down for one that says something in a way that this does not see costs one job too many.
SCRIPTS = r"""
INSERT INTO dependency_map (workspace_id, importer_kind, importer_path, importer_node, imported_path)
SELECT script.workspace_id, 'script', script.path, '', 'dependencies/' || family.files || '/default'
  FROM script
  JOIN (VALUES ('python3', 'python3'), ('bun', 'bun'), ('bunnative', 'bun'), ('nativets', 'bun'), ('go', 'go'),
               ('php', 'php')) AS family (language, files) ON family.language = script.language
 WHERE NOT script.archived AND NOT script.deleted
   AND script.content !~ '(^|\n)(#\s?(extra_)?requirements:|# /// script)'
   AND script.content !~ '(^|\n)//[ \t]*(extra[_-])?(package_json|go_mod|composer_json):'
    ON CONFLICT DO NOTHING
"""
FLOWS = r"""
INSERT INTO dependency_map (workspace_id, importer_kind, importer_path, importer_node, imported_path)
SELECT flow.workspace_id, 'flow', flow.path, left(module ->> 'id', 255), 'dependencies/' || family.files || '/default'
  FROM flow
  JOIN flow_version ON flow_version.id = flow.version_id
 CROSS JOIN LATERAL jsonb_path_query(flow_version.value::jsonb, 'strict $.** ? (@.value.type == "rawscript")') AS module
  JOIN (VALUES ('python3', 'python3'), ('bun', 'bun'), ('bunnative', 'bun'), ('nativets', 'bun'), ('go', 'go'),
               ('php', 'php')) AS family (language, files) ON family.language = module -> 'value' ->> 'language'
 WHERE NOT flow.archived AND module ->> 'id' IS NOT NULL
   AND module -> 'value' ->> 'content' !~ '(^|\n)(#\s?(extra_)?requirements:|# /// script)'
   AND module -> 'value' ->> 'content' !~ '(^|\n)//[ \t]*(extra[_-])?(package_json|go_mod|composer_json):'
    ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0014_flows_know_locks"),
        ("workspaces", "0002_audit_login_failure_index"),
    ]

    operations = [
        migrations.CreateModel(
            name="TemporaryCode",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hash", models.CharField(max_length=64)),
                ("content", models.TextField()),
                ("size", models.IntegerField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "workspace",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="workspaces.workspace"),
                ),
            ],
            options={
                "db_table": "raw_script_temp",
                "indexes": [models.Index(fields=["created_at"], name="raw_script_temp_created_idx")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("workspace", "hash"), name="raw_script_temp_once_a_workspace"
                    )
                ],
            },
        ),
        migrations.RunSQL(SCRIPTS, migrations.RunSQL.noop),
        migrations.RunSQL(FLOWS, migrations.RunSQL.noop),
    ]
