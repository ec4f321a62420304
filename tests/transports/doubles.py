"""Transports of the tests: one that records, and one that is small, whole and real."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from typing import ClassVar

from tests.conftest import ROOT
from tests.waiting import Gate

RECEIVE = """
import sys, django
django.setup()
from durable.worker.process.receiving import receive
receive(int(sys.argv[1]), sys.argv[2])
"""


class Recorded:
    """Sends nothing: what it was given is in `sent`. It refuses pings, fails or hangs as a test tells it to."""

    sent: ClassVar[list[tuple[int, str]]] = []
    pings: ClassVar[list[str]] = []
    refuses: ClassVar[bool] = False
    fails: ClassVar[bool] = False
    hangs_at: ClassVar[Gate | None] = None

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    @classmethod
    def reset(cls) -> None:
        """As new."""
        cls.sent, cls.pings, cls.refuses, cls.fails, cls.hangs_at = [], [], False, False, None

    def ping(self) -> None:
        """Refuse, or record."""
        self.pings.append(self._cluster)
        if self.refuses:
            raise ConnectionError("nobody listens")

    def send(self, row_id: int, token: uuid.UUID) -> None:
        """Fail, hang, or record."""
        if self.fails:
            raise ConnectionError("the pipe broke")
        if self.hangs_at is not None:
            self.hangs_at.pass_through()
        self.sent.append((row_id, token.hex))


class Subprocess:
    """A process for each delivery. All that a transport needs: these lines, and the one that the process runs."""

    started: ClassVar[list[subprocess.Popen[bytes]]] = []
    environment: ClassVar[dict[str, str]] = {}

    def __init__(self, cluster: str) -> None:
        """A cluster has no meaning here."""

    def ping(self) -> None:
        """A process can always be started."""

    def send(self, row_id: int, token: uuid.UUID) -> None:
        """Start one."""
        call = [sys.executable, "-c", RECEIVE, str(row_id), token.hex]
        self.started.append(subprocess.Popen(call, cwd=ROOT, env=os.environ | self.environment))
