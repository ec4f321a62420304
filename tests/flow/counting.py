"""The bytes of a history, counted anew."""

from __future__ import annotations

import uuid

from django.db import connection

from durable.store.connections import sql


def counted(workflow_id: uuid.UUID) -> int:
    """What the database says of the events themselves."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT sum({sql.size(connection, 'data')}) FROM durable_event WHERE workflow_id = %s",
            [sql.param(connection, workflow_id)],
        )
        return int(cursor.fetchone()[0])
