"""Postpone a delivery whose handler is not known here (yet): give it back uncounted."""

from __future__ import annotations

from datetime import timedelta

from durable.flow.endings import returning
from durable.flow.transactions import transaction
from durable.outcomes import Claim, GiveBack


def postpone(claim: Claim, *, delay: timedelta) -> GiveBack:
    """Give one delivery back as if it had not been made, due after `delay`. A token that is gone changes nothing."""
    return transaction.own(lambda connection: returning.uncounted(connection, [claim], delay=delay)[0])
