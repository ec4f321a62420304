"""Records a view of payloads, before they are shown."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from durable.flow.audit import auditing
from durable.flow.transactions import transaction
from durable.outcomes import StaffVerb


def record_view(
    workflow_id: uuid.UUID,
    *,
    actor: Any,
    what: Mapping[str, Any],
    row_id: int | None = None,
    ordinal: int | None = None,
) -> None:
    """Appends an audit row: who looks, at whose payloads, and `what` is shown, for people. Joins the caller's
    transaction. Raises what the database raised: if the view cannot be recorded, the payloads must not be shown.
    """
    made = auditing.audit(StaffVerb.VIEW, workflow_id, actor=actor, row_id=row_id, ordinal=ordinal, data=what)
    transaction.joined_steps(lambda connection: auditing.record(connection, made))
