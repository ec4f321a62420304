"""The `StaffAction`: the audit of operators' actions and, under `RECORD_VIEWS`, of their views of payloads."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy

from durable.models.fields import JsonTextField, MomentField


class StaffAction(models.Model):
    """Who did what to a workflow or to one of its activities, when, through what and why. Appended, kept; survives its
    actor.

    `request` is the form or the batch that asked for it, if there is one: under it each row moves once.
    `job` is the workflow in the background that did it for the actor. `was_judged` is said of dead letters only.
    `through` is empty for what was recorded before it was asked.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    verb = models.CharField(max_length=20, db_default="")
    workflow = models.ForeignKey(
        "durable.Workflow", models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    ordinal = models.PositiveIntegerField(null=True)
    outbox_row = models.ForeignKey(
        "durable.OutboxRow",
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="staff_actions",
    )
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, db_constraint=False, related_name="+"
    )
    actor_text = models.CharField(max_length=300, default="", blank=True)
    through = models.CharField(max_length=20, db_default="")
    mode = models.CharField(max_length=20, default="", blank=True)
    reason = models.TextField(default="", blank=True)
    was_judged = models.BooleanField(null=True)
    job = models.UUIDField(null=True, blank=True)
    data = JsonTextField(null=True)
    request = models.UUIDField(null=True, blank=True)
    at = MomentField()

    class Meta:
        verbose_name = gettext_lazy("staff action")
        verbose_name_plural = gettext_lazy("staff actions")
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["outbox_row", "-at"], name="durable_staffaction_row"),
            models.Index(fields=["-at", "-id"], name="durable_staffaction_at"),
            models.Index(fields=["verb", "-at", "-id"], name="durable_staffaction_verb"),
            models.Index(fields=["workflow", "-at"], name="durable_staffaction_workflow"),
            models.Index(
                fields=["request"], condition=models.Q(request__isnull=False), name="durable_staffaction_request"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verb} of {self.outbox_row_id or self.workflow_id}"
