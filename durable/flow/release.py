"""Release deliveries at a stop: give rows back uncounted, due at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from durable.flow import transaction
from durable.flow.steps import returning
from durable.outcomes import Claim, GiveBack


def release(claims: Sequence[Claim]) -> list[GiveBack]:
    """Give deliveries back as if they had not been made; one outcome each, in the order given.

    Commits together: the items are gone, the rows are pending and due, their delivery counts are one less. A token that
    is gone changes nothing.
    """
    return transaction.own(lambda connection: returning.uncounted(connection, claims, delay=timedelta()))
