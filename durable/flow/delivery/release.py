"""Releases deliveries: at a stop, those that have not ended; otherwise, those that were claimed ahead and cannot begin
soon. Their rows are pending again, uncounted, and due at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from django.db import Error as DjangoDatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.endings import returning
from durable.flow.transactions import transaction
from durable.flow.transactions.transaction import Patience
from durable.outcomes import Claim, GiveBack


def release(claims: Sequence[Claim]) -> list[GiveBack]:
    """Gives deliveries back as if they had not been made; one outcome each, in the given order.

    Commits together, for all that no other session has locked: the items are deleted, the rows are pending and due,
    their delivery counts are one less. A token that is gone changes nothing. After that, waits for the locked ones, one
    after the other, until the first lock that is not granted within a second: the rest is `BUSY` and stays as it is.
    """
    outcomes = transaction.own(partial(_release_free, claims))
    for place, outcome in enumerate(outcomes):
        if outcome is GiveBack.BUSY:
            try:
                [outcomes[place]] = transaction.own(partial(_release, claims[place]), patience=Patience.ONCE)
            except DjangoDatabaseError as error:
                if transaction.store_is_away(error) or not transaction.is_passing(error):
                    raise
                break
    return outcomes


def _release_free(claims: Sequence[Claim], connection: BaseDatabaseWrapper) -> list[GiveBack]:
    return returning.uncounted_if_free(connection, claims)


def _release(claim: Claim, connection: BaseDatabaseWrapper) -> list[GiveBack]:
    return returning.uncounted(connection, [claim], delay=timedelta())
