"""Clusters of django-q2, as processes that a test starts and kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.chaos.fleet import MAIN, until
from tests.conftest import ROOT
from tests.waiting import PATIENCE

SETTINGS = "tests.transports.cluster_settings"


class Cluster:
    """`manage.py qcluster`, in a process group of its own, with its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def told(self) -> str:
        """What it has logged."""
        return self.log.read_text()

    def kill(self) -> None:
        """End all of its processes without a word."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        """Ask it to stop, as an operator does; answers its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)


class Clusters:
    """All clusters of a test. `options` overrides the cluster's settings."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.environment = environment | {"DJANGO_SETTINGS_MODULE": SETTINGS, "TMPDIR": str(folder)}
        self._folder = folder
        self.all: list[Cluster] = []

    def hire(self, *, options: dict[str, Any] | None = None, **environment: str) -> Cluster:
        """Start one."""
        log = self._folder / f"cluster-{len(self.all)}.log"
        given = {"PLANT_CLUSTER": json.dumps(options)} if options else {}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", f"import django\ndjango.setup()\n{MAIN}", "qcluster"],
                cwd=ROOT,
                env=self.environment | given | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.all.append(Cluster(process, log))
        return self.all[-1]

    def disband(self) -> None:
        """Kill whatever still runs."""
        for cluster in self.all:
            cluster.kill()

    def tails(self) -> str:
        """The last lines of each log, for failures."""
        return "\n".join(f"--- {cluster.log.name}\n{cluster.told[-2500:]}" for cluster in self.all[-4:])

    def wait_for_life(self) -> None:
        """Wait until a process of a cluster has written its row."""
        from durable.models import Worker

        until(Worker.objects.filter(cluster="default").exists, within=PATIENCE, stuck=self.tails)
