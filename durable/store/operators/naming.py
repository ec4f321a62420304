"""How people recognise a dead letter: the business key of its workflow, and the first line of its last error."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import OuterRef, Subquery, TextField
from django.db.models.functions import Cast

from durable.models import FailedAttempt, OutboxRow
from durable.outcomes import Naming
from durable.store.texts import failures

_AT_ONCE = 500
_LONGEST = 120


def naming(connection: BaseDatabaseWrapper, row_ids: Sequence[int]) -> dict[int, Naming]:
    """Key and error of outbox rows, by id. Two statements for each 500."""
    newest = FailedAttempt.objects.filter(outbox_row=OuterRef("pk")).order_by("-number", "-pk").values("pk")[:1]
    namings: dict[int, Naming] = {}
    for start in range(0, len(row_ids), _AT_ONCE):
        rows = list(
            OutboxRow.objects.using(connection.alias)
            .filter(pk__in=row_ids[start : start + _AT_ONCE])
            .annotate(newest=Subquery(newest))
            .values_list("pk", "workflow_id", "ordinal", "workflow__key", "newest")
        )
        errors = dict(
            FailedAttempt.objects.using(connection.alias)
            .filter(pk__in=[attempt for *_, attempt in rows if attempt is not None])
            .annotate(error_text=Cast("error", TextField()))
            .values_list("pk", "error_text")
        )
        for row_id, owner, ordinal, key, attempt in rows:
            namings[row_id] = Naming(key, *_told(errors.get(attempt), owner, ordinal))
    return namings


def _told(text: str | None, owner: uuid.UUID, ordinal: int) -> tuple[str, str]:
    """First line and class of a stored error; empty for none, and for one that cannot be read."""
    try:
        error = json.loads(text or "null")
    except ValueError:
        return "", ""
    if not isinstance(error, Mapping):
        return "", ""
    failure = failures.read(error, owner, ordinal)
    message = (failure.message.strip().splitlines() or [""])[0]
    return _cut(": ".join(filter(None, [failure.type, message]))), _cut(failure.type)


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
