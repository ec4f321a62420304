"""How much memory a payload takes once it was read, told from its JSON text. From what is stored it cannot be told: an
encrypting codec leaves no bracket to count, and a compressing one little to measure.
"""

from __future__ import annotations

_CONTAINER_WEIGHT = 60
_USUAL = 3
"""Times that data takes more memory than its text, if it holds what texts usually hold."""


def heft(plain: str) -> int:
    """About how many bytes. An empty list is two characters, and twenty times as many bytes."""
    return len(plain) + _CONTAINER_WEIGHT * (plain.count("[") + plain.count("{"))


def unusual_heft(plain: str) -> int:
    """How much of it is beyond what data of such a length usually takes."""
    return max(0, heft(plain) - _USUAL * len(plain))
