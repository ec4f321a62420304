"""The worker's loggers, bound with what a delivery is."""

from __future__ import annotations

from durable.flow.transactions.reporting import of_claim
from durable.logs import get_logger

__all__ = ["get_logger", "of_claim"]
