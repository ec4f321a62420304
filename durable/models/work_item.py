"""The `WorkItem`: one delivery of an outbox row to a worker."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy

from durable.errors.showing import visible
from durable.models.fields import MomentField


class WorkItem(models.Model):
    """Exists only while a delivery is out: made by claim, or by the turn that claims what it stages, and removed by
    whatever ends the delivery. The worker of a delivery that a transport takes to another process holds it until that
    process begins it, under a new token.

    The columns from `attempts` on are copies of the row at the claim. They tell the verb that ends the delivery which
    locks it will need before it takes the first one.
    """

    outbox_row = models.OneToOneField("durable.OutboxRow", models.DO_NOTHING, primary_key=True, db_constraint=False)
    workflow = models.ForeignKey("durable.Workflow", models.DO_NOTHING, db_constraint=False, db_index=False)
    lock_token = models.UUIDField()
    locked_until = MomentField()
    worker = models.CharField(max_length=200)
    queue = models.CharField(max_length=100, db_default="", blank=True)  # of a delivery that is sent
    begun_at = MomentField(null=True)  # of a delivery that was sent: when another process began it
    cancel_requested_at = MomentField(null=True)
    heartbeat = models.TextField(null=True)
    attempts = models.PositiveIntegerField()
    attempt_budget = models.PositiveIntegerField(null=True)
    delivery_failures = models.PositiveIntegerField()
    delivery_budget = models.PositiveIntegerField()
    single = models.BooleanField()

    class Meta:
        verbose_name = gettext_lazy("work item")
        verbose_name_plural = gettext_lazy("work items")
        default_permissions = ("view",)
        indexes = [models.Index(fields=["locked_until"], name="durable_work_item_expiry")]

    def __str__(self) -> str:
        return f"{self.outbox_row_id} held by {visible(self.worker)}"
