"""Counts cursors of whichever engine is under test."""

from __future__ import annotations

import importlib
from typing import Any

from tests.settings import VENDOR

_wrapped: Any = importlib.import_module(
    "django.db.backends.postgresql.base" if VENDOR == "postgresql" else "django.db.backends.sqlite3.base"
)


class DatabaseWrapper(_wrapped.DatabaseWrapper):
    """Django's, and a number."""

    cursors = 0

    def create_cursor(self, name: str | None = None) -> Any:
        type(self).cursors += 1
        return super().create_cursor(name)
