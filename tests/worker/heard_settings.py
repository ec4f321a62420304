"""The plant with log handlers of a host, chosen by `HEARD`: one that blocks, raises, writes, or holds back."""

from __future__ import annotations

import logging
import logging.handlers
import os
import threading

from tests.worker.plant_settings import *  # noqa: F403


class Ear(logging.StreamHandler):
    """Writes to stderr; then does what a bad handler does."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        match os.environ["HEARD"]:
            case "blocks":
                threading.Event().wait()
            case "raises":
                raise SystemExit(7)
            case "writes":
                from tests.ledger.models import Entry

                Entry.objects.create(label="log", note=str(record.msg)[:200])
            case _:
                pass


class Late(logging.handlers.MemoryHandler):
    """Writes when it is closed."""

    def __init__(self) -> None:
        super().__init__(10_000, flushLevel=logging.CRITICAL + 1, target=logging.StreamHandler())


LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {
        "ear": {"class": f"tests.worker.heard_settings.{'Late' if os.environ['HEARD'] == 'holds back' else 'Ear'}"}
    },
    "root": {"handlers": ["ear"], "level": "DEBUG"},
}
