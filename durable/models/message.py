"""The `Message`: what waits for a workflow's next turn."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from durable.kernel.history.events import MessageKind
from durable.models.fields import MarkField, MomentField


class Message(models.Model):
    """Start, activity result, end of a child, signal, cancel request or order to terminate, for the next turn.

    Inserted by start, acknowledge, dead-lettering, discard, signal and cancel, by turns for other workflows, and by
    what closes a child or a parent; removed by the turn that consumed it. Parked while the workflow is paused or
    blocked, and for good once it has ended: a signal or a request to cancel that was accepted and that nobody has read
    stays here, for people to see. The others go with the end. Starts have an index of their own: a backlog of them must
    not stand between a turn and what goes on.
    """

    id = models.BigAutoField(primary_key=True)
    workflow = models.ForeignKey("durable.Workflow", models.DO_NOTHING, db_constraint=False, db_index=False)
    run = models.PositiveIntegerField()
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in MessageKind])
    ordinal = models.PositiveIntegerField(null=True)
    payload = models.TextField()
    visible_at = MomentField()
    created_at = MomentField()
    parked = MarkField(default=False)
    dedup = models.CharField(max_length=200, null=True, blank=True)

    class Meta:
        verbose_name = gettext_lazy("message")
        verbose_name_plural = gettext_lazy("messages")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["workflow", "dedup"], condition=Q(dedup__isnull=False), name="durable_message_once"
            )
        ]
        indexes = [
            models.Index(fields=["workflow", "visible_at", "id"], name="durable_message_of_workflow"),
            models.Index(
                fields=["visible_at", "id"],
                condition=Q(parked=False) & ~Q(kind=MessageKind.START.value),
                name="durable_message_due",
            ),
            models.Index(
                fields=["visible_at", "id"],
                condition=Q(parked=False) & Q(kind=MessageKind.START.value),
                name="durable_message_start",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.workflow_id}"
