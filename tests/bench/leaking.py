"""A handler that leaks, for the soak's workers to import: memory with each call, and connections, a few a second."""

from __future__ import annotations

import time
from typing import Any

from django.db import connections

from durable.bench import mixture

MIB = 2**20
kept: list[Any] = []
opened_at = 0.0


def leak(text: str) -> str:
    global opened_at
    kept.append(bytearray(MIB))
    if time.monotonic() > opened_at + 0.1:
        opened_at = time.monotonic()
        connection = connections["default"].copy()
        connection.inc_thread_sharing()
        connection.ensure_connection()
        kept.append(connection)
    return text


mixture.plain.fn = leak
