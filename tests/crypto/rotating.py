"""What a rotation of keys has to leave behind, and the command that makes it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

from django.core.management import call_command

from durable.models import Event, FailedAttempt, Message, OutboxRow, Workflow, WorkItem

CANARY = "tea-4111-1111"
WANTED = {"weights": [len(CANARY), len(CANARY) + 1], "words": [1, CANARY]}


def stored() -> Iterator[str]:
    """Every text in which a payload may stand."""
    for model, *columns in (
        (Workflow, "input", "result", "blocked_reason"),
        (OutboxRow, "input", "last_heartbeat"),
        (WorkItem, "heartbeat"),
        (Message, "payload"),
    ):
        for row in model.objects.values_list(*columns):
            yield from filter(None, row)
    yield from (json.dumps(data) for data in Workflow.objects.values_list("failure", flat=True))
    yield from (json.dumps(data) for data in FailedAttempt.objects.values_list("error", flat=True))
    yield from (json.dumps(data) for data in Event.objects.values_list("data", flat=True))


def mentions(text: str) -> int:
    """How many stored texts hold this one."""
    return sum(text in value for value in stored())


def reencrypt(*arguments: str) -> dict[str, Any]:
    """What `durable reencrypt --json` printed."""
    out = io.StringIO()
    call_command("durable", "reencrypt", *arguments, "--json", stdout=out)
    report: dict[str, Any] = json.loads(out.getvalue())
    return report
