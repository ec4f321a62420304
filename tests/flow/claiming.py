"""A process or thread that claims until nothing is due."""

from __future__ import annotations

from tests.flow.driver import Driver


def claim_all(name: str) -> list[int]:
    """The ids of all rows that this one got, a few at a time."""
    driver, mine = Driver(name=name), []
    while taken := driver.claim(limit=7):
        mine += [c.row_id for c in taken]
    return mine
