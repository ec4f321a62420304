"""Worker processes that a test starts, kills, freezes, and whose logs it reads."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.rounds import FULL
from tests.waiting import PATIENCE

only_full = pytest.mark.skipif(not FULL, reason="`.ci/full` does")
"""What the normal suite has no time for at any size."""

__all__ = [
    "FULL",
    "Fleet",
    "Member",
    "chance",
    "free_port",
    "health_of",
    "only_full",
    "pass_time",
    "tell",
    "until",
]

MAIN = "import sys; from django.core.management import execute_from_command_line as main; main(sys.argv)"


def tell(result: str) -> None:
    """A line for whoever reads the run's output; pytest shows it with `-s`, and with a failure."""
    sys.stdout.write(f"{result}\n")


def chance(name: str) -> random.Random:
    """Randomness whose seed is printed; `DURABLE_TEST_SEED` repeats a run."""
    seed = int(os.environ.get("DURABLE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    tell(f"{name}: DURABLE_TEST_SEED={seed}")
    return random.Random(seed)


def pass_time(seconds: float) -> None:
    """Let a random span pass between two blows. Nothing is asserted about it."""
    threading.Event().wait(seconds)


class Member:
    """One process, with its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def told(self) -> str:
        """What it has logged above debug."""
        return self.log.read_text()

    def has_begun(self) -> bool:
        """Whether its boot is over."""
        return "worker_started" in self.told

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it without a word, and see that it is gone."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        """Ask it to stop, once it can hear that: before its boot is over the signal would end it. Answers its exit
        code.
        """
        until(lambda: self.has_begun() or self.process.poll() is not None, within=PATIENCE, stuck=lambda: self.told)
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def children(self) -> list[int]:
        """The processes that it has forked and not buried."""
        return [
            int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]


class Fleet:
    """All worker processes of a test."""

    def __init__(
        self, environment: dict[str, str], folder: Path, *, settings: str = "tests.chaos.plant_settings"
    ) -> None:
        self._environment = environment | {
            "DJANGO_SETTINGS_MODULE": settings,
            "TMPDIR": str(folder),
        }
        self._folder = folder
        self.members: list[Member] = []

    def hire(self, *arguments: str, before: str = "", **environment: str) -> Member:
        """Start `runworker`; `before` is code that the process runs first."""
        log = self._folder / f"worker-{len(self.members)}.log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", f"import django\ndjango.setup()\n{before}\n{MAIN}", "runworker", *arguments],
                cwd=ROOT,
                env=self._environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        self.members.append(Member(process, log))
        return self.members[-1]

    @property
    def told(self) -> str:
        """What all have logged, one after the other."""
        return "\n".join(member.told for member in self.members)

    def disband(self) -> None:
        """Kill whatever still runs."""
        for member in self.members:
            for pid in member.children() if member.process.poll() is None else []:
                os.kill(pid, signal.SIGKILL)
            if member.process.poll() is None:
                member.kill()

    def tails(self) -> str:
        """The last lines of each log, for failures."""
        return "\n".join(f"--- {member.log.name}\n{member.told[-1500:]}" for member in self.members[-4:])


def until(condition: Callable[[], bool], *, within: float, stuck: Callable[[], str]) -> None:
    """Look again and again until it holds; after `within` seconds fail, and say what is stuck."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"Not within {within:g} s.\n{stuck()}")
        pass_time(0.02)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def health_of(port: int) -> tuple[int, str]:
    """What `--health` answers; (0, "") while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as red:
        return red.code, red.read().decode()
    except OSError:
        return 0, ""
