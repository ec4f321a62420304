"""How long a row waits after a failed delivery."""

from __future__ import annotations

import random
from datetime import timedelta

from durable.conf import settings

_JITTER = 0.2


def delivery(failures: int, rng: random.Random) -> timedelta:
    """The wait after the `failures`-th failed delivery, by `DELIVERY_BACKOFF`, with jitter of a fifth either way."""
    first, factor, cap = settings.delivery_backoff
    exponent = min(failures - 1, 64)
    wait = min(cap, timedelta(seconds=min(first.total_seconds() * factor**exponent, cap.total_seconds())))
    return wait * rng.uniform(1 - _JITTER, 1 + _JITTER)


def paced(position: int) -> timedelta:
    """How much later the row at this position of a round comes due, by `REARM_PER_SECOND`; zero for the first."""
    rate = settings.rearm_per_second
    return timedelta() if rate is None else timedelta(seconds=position / rate)
