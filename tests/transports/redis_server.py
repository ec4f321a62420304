"""A Redis of the test's own, on a free port. It keeps nothing: what dies with it is lost.

Without `redis-server` these tests are skipped and say so; with `DURABLE_REDIS=required` (as in `.ci/run`) they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet import free_port, until
from tests.waiting import PATIENCE

SERVER = shutil.which("redis-server")
REQUIRED = os.environ.get("DURABLE_REDIS") == "required"


def need_redis() -> None:
    """Skip the test that calls this, or fail it where Redis is required, if there is none."""
    if SERVER:
        return
    told = "There is no redis-server (Debian: apt-get install redis-server)."
    if REQUIRED:
        pytest.fail(told)
    pytest.skip(told)


class Redis:
    """The server, which can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.options: dict[str, Any] = {"redis": {"host": "127.0.0.1", "port": self.port}}
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert SERVER is not None
        keeps_nothing = ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        self._process = subprocess.Popen(
            [SERVER, "--port", str(self.port), "--bind", "127.0.0.1", *keeps_nothing],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self.answers, within=PATIENCE, stuck=lambda: f"Redis on port {self.port} does not answer.")

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

    def answers(self) -> bool:
        """Whether it answers."""
        import redis

        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def waiting(self) -> int:
        """How many messages wait."""
        import redis

        with redis.Redis(port=self.port) as client:
            count: Any = client.llen("django_q:default:q")
            return int(count)

    def flush(self) -> None:
        """Lose everything."""
        import redis

        with redis.Redis(port=self.port) as client:
            client.flushall()
