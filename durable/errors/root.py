"""The base of the tree."""

from __future__ import annotations


class DurableError(Exception):
    """Base of all errors of this package. Never raised itself."""
