"""Postpones a delivery that cannot begin here yet (no such handler, or no connection): gives it back uncounted."""

from __future__ import annotations

from datetime import timedelta

from durable.flow.endings import returning
from durable.flow.transactions import transaction
from durable.outcomes import Claim, GiveBack


def postpone(claim: Claim, *, delay: timedelta) -> GiveBack:
    """Gives one delivery back as if it had not been made, due after `delay`. A token that is gone changes nothing."""
    return transaction.own(lambda connection: returning.uncounted(connection, [claim], delay=delay)[0])
