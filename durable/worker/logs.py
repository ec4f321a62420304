"""The worker's loggers: structlog over the standard library, whether or not the host has configured either."""

from __future__ import annotations

import logging
from typing import Any

import structlog

from durable.outcomes import Claim


def get_logger(name: str) -> Any:
    """A logger whose lines always end in the standard library's logger `name`.

    `structlog.get_logger` prints to stdout in a project that never configured structlog; a wrapped standard logger
    does not, and still follows the host's processors where there are some.
    """
    return structlog.wrap_logger(logging.getLogger(name))


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
