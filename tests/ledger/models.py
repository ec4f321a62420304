"""What handlers under test write."""

from __future__ import annotations

from django.db import models


class Entry(models.Model):
    """One effect of a handler. The tests count them."""

    label = models.CharField(max_length=200)
    amount = models.IntegerField(default=0)
    note = models.CharField(max_length=200, default="", blank=True)

    def __str__(self) -> str:
        return f"{self.label}: {self.amount}"
