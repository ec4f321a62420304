"""What a worker process takes of its machine: resident memory, and connections to the database."""

from __future__ import annotations

import os
from pathlib import Path

from django.db import connections

from durable.bench.running import Stuck


def resident(pid: int) -> float:
    """MiB that are resident. Raises `Stuck` when there is no such process, and where there is no `/proc`."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError as gone:
        raise Stuck(f"The memory of process {pid} cannot be read: {gone}") from gone
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def open_connections(alias: str, pid: int, application: str) -> int:
    """How many connections to the database of `alias` a process has open.

    PostgreSQL: the server's sessions under the application's name. SQLite: descriptors of the file.
    """
    connection = connections[alias]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [application])
            count: int = cursor.fetchone()[0]
        return count
    return _descriptors(pid, Path(connection.settings_dict["NAME"]).resolve())


def _descriptors(pid: int, file: Path) -> int:
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += entry.readlink() == file
        except FileNotFoundError:  # closed since it was listed
            continue
    return count
