"""Users with UUIDs, tickets, and lines of the log."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """Somebody with a key that is no number."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)


class Ticket(models.Model):
    """What a customer wants."""

    title = models.CharField(max_length=200)
    workflow = models.UUIDField(null=True, default=None)
    note = models.CharField(max_length=200, default="", blank=True)
    opened_at = models.DateTimeField(auto_now_add=True)

    objects: models.Manager[Ticket] = models.Manager()

    def __str__(self) -> str:
        return self.title


class Line(models.Model):
    """A record of the log."""

    logger = models.CharField(max_length=200)
    level = models.CharField(max_length=20)
    text = models.TextField()

    objects: models.Manager[Line] = models.Manager()

    def __str__(self) -> str:
        return self.text
