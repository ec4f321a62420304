"""Ending the sessions of others on the server."""

from __future__ import annotations

from django.db import connection

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def end_all_sessions() -> list[int]:
    """End all but the test's own; answers which."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pid, pg_terminate_backend(pid) {OTHERS}")
        return [row[0] for row in cursor.fetchall()]
