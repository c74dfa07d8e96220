"""Table of worker-group configuration (reference/worker.md section 1)."""

from django.db import models


class Config(models.Model):
    """Configuration by name; `worker__<group>` holds that of a worker group (fields: reference/worker.md section 1),
    `restart__<group>` the time at which its workers were last told to start again."""

    name = models.CharField(max_length=255, primary_key=True)
    config = models.JSONField(default=dict)

    class Meta:
        db_table = "config"
        ordering = ("name",)
        verbose_name = "configuration of a worker group"
        verbose_name_plural = "configurations of worker groups"

    def __str__(self) -> str:
        return self.name
