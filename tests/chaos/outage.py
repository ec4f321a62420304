"""A PostgreSQL server that a test may stop and start, with the engine's tables on it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import psycopg

from tests.chaos.fleet import Fleet
from tests.conftest import ROOT
from tests.postgresql import Server

DATABASE = "outage"


class Site:
    """Its server, its workers, and the command line by which work is started."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self._environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.chaos.plant_settings",
            "DURABLE_TEST_DATABASE": "postgresql",
            "DURABLE_TEST_PG_SOCKET": server.socket_directory,
            "DURABLE_TEST_NAME": DATABASE,
            "TMPDIR": str(folder),
        }
        self.fleet = Fleet(self._environment, folder)
        with psycopg.connect(host=server.socket_directory, user="postgres", autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {DATABASE}")
        self._manage("migrate", "--run-syncdb", "--verbosity", "0")

    def _manage(self, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self._environment,
            check=True,
            timeout=180,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def start(self, name: str, arguments: str) -> uuid.UUID:
        """Start a workflow or a single activity; answers its id."""
        return uuid.UUID(self._manage("durable", "start", name, "--args", arguments).strip())

    def ask(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows, as somebody sees them who has nothing to do with the engine."""
        with psycopg.connect(host=self.server.socket_directory, user="postgres", dbname=DATABASE) as connection:
            return connection.execute(query, parameters).fetchall()

    def is_completed(self, workflow_id: uuid.UUID) -> bool:
        """Whether it has ended well."""
        return self.ask("SELECT status FROM durable_workflow WHERE id = %s", workflow_id) == [("completed",)]
