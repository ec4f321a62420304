"""What the desk does to the world."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from django.conf import settings

import durable
from durable import Retry, activity
from tests.host.desk.models import Ticket

SOON = Retry(max_attempts=3, first=timedelta(milliseconds=1), jitter=0.0, no_retry=(ValueError,))


@activity(name="desk.look_up", retry=SOON)
def look_up(ticket: int) -> str:
    """Find the title, at the second attempt."""
    if durable.activity_info().attempt == 1:
        raise ConnectionError("the archive does not answer: Grüße")
    return Ticket.objects.get(pk=ticket).title


@activity(name="desk.refuse", retry=SOON)
def refuse(ticket: int) -> None:
    """Fail for good."""
    raise ValueError(f"nobody insures ticket {ticket}")


@activity(name="desk.book", transactional=True)
def book(ticket: int, note: str) -> None:
    """Write in the transaction of the acknowledgement."""
    Ticket.objects.filter(pk=ticket).update(note=note)


@activity(name="desk.print")
def print_out(ticket: int) -> str:
    """Print, unless the printer is jammed, which kills the process."""
    if Path(getattr(settings, "JAM", "nowhere")).exists():
        os._exit(1)
    return f"page {ticket}"
