"""Django's own log of what staff did, beside the engine's audit. A project without the admin has none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.db import DatabaseError, InterfaceError

from durable.errors.showing import visible
from durable.logs import get_logger, words
from durable.models import DeadLetter
from durable.outcomes import RowSnapshot

logger = get_logger("durable.logbook")


def log_dead_letter_actions(user: Any, rows: Iterable[RowSnapshot], message: str) -> None:
    """Records in the log that this user did something to these dead letters. Like `log_actions`, it commits by itself
    and never raises.
    """
    letters = [DeadLetter(pk=row.pk, workflow_id=row.workflow_id, run=row.run, ordinal=row.ordinal) for row in rows]
    log_actions(user, letters, message)


def log_actions(user: Any, rows: list[Any], message: str) -> None:
    """Says in the log that this user did something to these rows: one entry each, written by one statement.

    Commits by itself, after the change. An entry that cannot be written is logged and stops nothing: the audit in the
    engine's own tables was committed with the change.
    """
    if not rows or getattr(user, "pk", None) is None or not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import CHANGE, LogEntry

    try:
        LogEntry.objects.log_actions(user.pk, rows, CHANGE, visible(message, lines=True))
    except (DatabaseError, InterfaceError) as error:
        logger.warning("logbook.not_written", error=words(error), rows=len(rows))
