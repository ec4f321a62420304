"""What a new workflow holds, for callers and for turns that start children."""

from __future__ import annotations

import secrets
import sys
import uuid
from collections.abc import Mapping
from typing import Any

from durable import tracing
from durable.conf import settings
from durable.kernel.codec import DIGEST_KEY_BYTES, stored_digest_key
from durable.kernel.history.events import DIGEST_KEY, PARENT, TRACE
from durable.store.runs.starts import NewWorkflow, ParentCall


def new_workflow(
    *,
    id: uuid.UUID,
    payload: str,
    type: str,
    trace: Mapping[str, str] | None = None,
    call: ParentCall | None = None,
    **values: Any,
) -> NewWorkflow:
    """A workflow to start, with the data of its started event, which goes on with `trace`, or with the caller's; with
    the `call` of a parent, a child. Raises `PayloadError` where the codec fails.
    """
    started: dict[str, Any] = {
        "type": type,
        "input": payload,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        DIGEST_KEY: stored_digest_key(secrets.token_bytes(DIGEST_KEY_BYTES), codec=settings.codec(), workflow_id=id),
    }
    if (trace := trace or tracing.current()) is not None:
        started[TRACE] = trace
    if call is not None:
        started[PARENT] = str(call.parent)
    return NewWorkflow(id=id, type=type, payload=payload, started=started, call=call, **values)
