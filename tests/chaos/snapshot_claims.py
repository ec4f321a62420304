"""Claims timed from outside, and what the claim's plan touches."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from durable.flow.delivery import claim
from durable.outcomes import Claim

LOOK = """
EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT id FROM durable_outboxrow
WHERE visible_after <= statement_timestamp() AND status = 'pending' AND NOT paused AND NOT suspect AND NOT waiting
ORDER BY priority DESC, visible_after, id LIMIT 100
"""


class TimedClaims:
    """How long each claim took that brought something, in seconds, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real: Callable[..., list[Claim]] = claim.claim
        self.seconds: list[float] = []
        monkeypatch.setattr(claim, "claim", self._claim)

    def _claim(self, **options: Any) -> list[Claim]:
        began = time.perf_counter()
        taken = self._real(**options)
        if taken:
            self.seconds.append(time.perf_counter() - began)
        return taken

    def percentile(self, share: float) -> float:
        """In seconds; the one of `share` of them that took longest but for the rest."""
        return sorted(self.seconds)[math.ceil(share * len(self.seconds)) - 1]


def look() -> tuple[set[str], int]:
    """The indexes that a look for due rows uses, and how many pages it touches."""
    with connection.cursor() as cursor:
        cursor.execute(LOOK)
        [answer] = cursor.fetchone()
    plan = (answer if isinstance(answer, list) else json.loads(answer))[0]["Plan"]
    return set(_indexes(plan)), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def _indexes(plan: dict[str, Any]) -> list[str]:
    mine = [plan["Index Name"]] if "Index Name" in plan else []
    return mine + [name for part in plan.get("Plans", []) for name in _indexes(part)]
