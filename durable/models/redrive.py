"""The `Redrive`: the audit of redrive and discard."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from durable.models.fields import MomentField


class Redrive(models.Model):
    """Who gave a dead letter back, or closed it, when and why. Appended, kept; survives its actor.

    `request` is the form or the piece of work that asked for it, where there is one: under it each row moves once.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    outbox_row = models.ForeignKey(
        "durable.OutboxRow", models.DO_NOTHING, db_constraint=False, db_index=False, related_name="redrives"
    )
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, db_constraint=False, related_name="+"
    )
    actor_text = models.CharField(max_length=300, default="", blank=True)
    mode = models.CharField(max_length=20)
    reason = models.TextField(default="", blank=True)
    was_judged = models.BooleanField()
    request = models.UUIDField(null=True, blank=True)
    at = MomentField()

    class Meta:
        verbose_name = "redrive"
        verbose_name_plural = "redrives"
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["outbox_row", "-at"], name="durable_redrive_of_row"),
            models.Index(fields=["-at", "-id"], name="durable_redrive_at"),
            models.Index(fields=["mode", "-at", "-id"], name="durable_redrive_mode"),
            models.Index(
                fields=["request"], condition=models.Q(request__isnull=False), name="durable_redrive_of_request"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.mode} of {self.outbox_row_id}"
