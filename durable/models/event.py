"""The `Event` row: an appended fact. Never changed, never deleted singly."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy

from durable.models.fields import JsonTextField, MomentField


class Event(models.Model):
    """One fact of a workflow's history, in order of `seq`.

    The composite primary key is the only index: histories are read in its order and by nothing else.
    """

    pk = models.CompositePrimaryKey("workflow_id", "seq")
    workflow = models.ForeignKey("durable.Workflow", models.DO_NOTHING, db_constraint=False, db_index=False)
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=40)  # an `EventType`; without choices, so that a new one needs no migration
    ordinal = models.PositiveIntegerField(null=True)
    data = JsonTextField(default=dict)
    recorded_at = MomentField()

    class Meta:
        verbose_name = gettext_lazy("event")
        verbose_name_plural = gettext_lazy("events")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.workflow_id} #{self.seq} {self.type}"
