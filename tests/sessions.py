"""Sessions of the database that a test has left behind."""

from __future__ import annotations

import gc
import warnings
from typing import Any

from django.db import connection, connections


def end_all() -> None:
    """Close this thread's connections, and end every other session of the test's database, after telling of it."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid, state, backend_start, state_change, query FROM pg_stat_activity "
                "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            for pid, *facts in cursor.fetchall():
                owner = "this process" if pid in _own() else "another process"
                said = "; ".join(map(str, facts))
                warnings.warn(f"A session of {owner} was left behind: {said}", stacklevel=1)
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    connections.close_all()


def _own() -> set[int]:
    """The server's processes behind the connections that this process has open."""
    import psycopg

    opened: list[Any] = [each for each in gc.get_objects() if isinstance(each, psycopg.Connection)]
    return {each.info.backend_pid for each in opened if not each.closed}
