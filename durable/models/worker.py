"""The `Worker`: a running process of a worker or of a cluster. Information only; nothing refers to it."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy

from durable.errors.showing import visible
from durable.models.fields import JsonTextField, MomentField


class Worker(models.Model):
    """The last heartbeat of a worker process, written by its housekeeping; or of a process of a `cluster`, to which a
    transport sends deliveries of `queues`. Decides nothing but whether a delivery that has not begun there is counted.
    """

    name = models.CharField(max_length=200, primary_key=True)
    queues = JsonTextField(default=list)
    started_at = MomentField()
    beat_at = MomentField()
    version = models.CharField(max_length=64)
    wakes_by = models.CharField(max_length=40, default="", blank=True)
    cluster = models.CharField(max_length=100, default="", db_default="", blank=True)

    class Meta:
        verbose_name = gettext_lazy("worker")
        verbose_name_plural = gettext_lazy("workers")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return visible(self.name)
