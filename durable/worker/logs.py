"""The worker's loggers, bound with what a delivery is."""

from __future__ import annotations

from typing import Any

from durable.logs import get_logger
from durable.outcomes import Claim

__all__ = ["get_logger", "of_claim"]


def of_claim(claim: Claim) -> dict[str, Any]:
    """The fields that every line about a delivery is bound with."""
    return {
        "workflow": str(claim.workflow_id),
        "lease": claim.lease,
        "ordinal": claim.ordinal,
        "activity": claim.activity,
        "attempt": claim.attempt,
        "delivery": claim.delivery,
        "worker": claim.worker,
    }
