"""Worker processes that the benchmark starts, and what it asks of them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, Any

from durable.bench.child import READY
from durable.bench.running import PATIENCE, Stuck


class Debug(StrEnum):
    """What the process has for `DEBUG`."""

    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Job:
    """What the process shall be: its worker's name, the modules that it imports first (its handlers), and settings that
    differ from the project's (of `DURABLE`, those that are spans in seconds, and of the entry in `DATABASES`).
    """

    worker: str = "durable-bench-child"
    modules: Sequence[str] = ()
    debug: Debug = Debug.OFF
    durable: dict[str, Any] = field(default_factory=dict)
    spans: dict[str, float] = field(default_factory=dict)
    database: dict[str, Any] = field(default_factory=dict)


class Child:
    """The process, as seen by the one that started it."""

    def __init__(self, process: subprocess.Popen[str], said: IO[str]) -> None:
        self._process = process
        self._said = said
        self.counts: dict[str, int] = {}
        """Once it has ended: what its worker has done, failed and retried."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def see_it_lives(self) -> None:
        """Raises `Stuck` with its last words when it is gone."""
        if self._process.poll() is not None:
            raise Stuck(f"A worker process ended with {self._process.returncode}. It said: {self._last_words()}")

    def wait_ready(self) -> None:
        """Waits until its worker is ready."""
        if self._line() != READY:
            self._process.wait(PATIENCE)
            self.see_it_lives()

    def ask_to_end(self) -> None:
        """Lets it stop cleanly."""
        self.see_it_lives()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait_ended(self) -> None:
        """Waits until it has stopped, and keeps what it counted."""
        line = self._line()
        if self._process.wait(PATIENCE) or not line:
            self.see_it_lives()
        self.counts = json.loads(line)

    def kill(self) -> None:
        """Ends it now, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        if not ready:
            raise Stuck(f"A worker process said nothing for {PATIENCE:.0f} s.")
        return self._process.stdout.readline().strip()

    def _last_words(self) -> str:
        self._said.seek(0)
        return self._said.read()[-2000:].strip() or "nothing."


@contextmanager
def working(alias: str, name: str, jobs: Sequence[Job]) -> Iterator[list[Child]]:
    """Processes with ready workers on the scratch database `name`, inside the block, one for each job. At the end
    of the block they have stopped cleanly and reported what they did.
    """
    with ExitStack() as stack:
        children = [stack.enter_context(_started(alias, name, job)) for job in jobs]
        for child in children:
            child.wait_ready()
        yield children
        for child in children:
            child.ask_to_end()
        for child in children:
            child.wait_ended()


@contextmanager
def _started(alias: str, name: str, job: Job) -> Iterator[Child]:
    from django.conf import settings as django_settings

    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": django_settings.SETTINGS_MODULE,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    parameters = {
        "alias": alias,
        "name": name,
        "worker": job.worker,
        "modules": list(job.modules),
        "debug": job.debug.value,
        "durable": job.durable,
        "spans": job.spans,
        "database": job.database,
    }
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "durable.bench.child", json.dumps(parameters)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as process,
    ):
        child = Child(process, said)
        try:
            yield child
        finally:
            child.kill()  # what it was started for has failed
