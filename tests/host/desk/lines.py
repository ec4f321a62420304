"""The log handler that many projects have: each record becomes a row, by the ORM, on the connection of whoever logs."""

from __future__ import annotations

import logging
import threading
from typing import Any

from django.apps import apps
from django.db import Error

_emitting = threading.local()


class RowHandler(logging.Handler):
    """Writes a row for each record, with those of the database's own logger left out."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it. What cannot be written is lost."""
        if not apps.ready or getattr(_emitting, "now", False):
            return
        _emitting.now = True
        try:
            model: Any = apps.get_app_config("desk").get_model("Line")
            model.objects.create(logger=record.name[:200], level=record.levelname, text=self.format(record))
        except (Error, RuntimeError):  # no table yet, a broken transaction, a test without a database
            pass
        finally:
            _emitting.now = False
