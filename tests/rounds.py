"""How often a race is run: a few times in the normal suite, as often as the specification asks in `.ci/full`."""

from __future__ import annotations

import os
import sys

FULL = os.environ.get("DURABLE_TEST_FULL") == "1"
"""Whether this run may take its time."""

AT_LAST = 1500.0 if FULL else 90.0
"""Seconds until the other parties of a race must have ended. Generous: it decides how soon a broken test says so."""


def rounds(usual: int, *, asked: int) -> int:
    """`usual` rounds, or `asked` at the full size, which is told."""
    if FULL:
        sys.stdout.write(f"{asked} rounds\n")
    return asked if FULL else usual
