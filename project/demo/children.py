"""The demo's child processes: the site and its worker."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from django.conf import settings

STOP_WITHIN = 10.0
"""Seconds that a child may take to stop after SIGTERM; then it is killed."""

ANSWERS_WITHIN = 60.0
"""Seconds until a site that does not answer counts as broken."""


class ChildEnded(Exception):
    """A child process ended although nobody asked it to."""


class PortTaken(Exception):
    """Something else listens on the port."""

    def __init__(self, port: int) -> None:
        self.port = port
        super().__init__(f"Port {port} is taken by another program. Choose a free one with --port.")


class Children:
    """Processes of this project that are stopped together, whatever ends the block that holds them. `environment` is
    given to each.

    With `log`, what they say goes to that file, else their errors go where this process's go.
    """

    def __init__(self, *, log: Path | None = None, **environment: str) -> None:
        self._environment = os.environ | environment
        self._log = log
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._arguments: dict[str, tuple[str, ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> int:
        """Start `manage.py` with the arguments; answers the process id.

        Each child leads a session of its own, so that Ctrl-C reaches the demo alone, which then stops them in order.
        """
        manage = Path(settings.BASE_DIR) / "manage.py"
        with contextlib.ExitStack() as files:
            log = None if self._log is None else files.enter_context(self._log.open("ab"))
            child = subprocess.Popen(  # noqa: S603 (this interpreter, this project)
                [sys.executable, str(manage), *arguments],
                env=self._environment | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log or subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self._running[name] = child
        self._arguments[name] = arguments
        return child.pid

    def start_again(self, name: str) -> int:
        """Start a child that has ended once more, as it was; answers the new process id."""
        return self.start(name, *self._arguments[name])

    def kill(self, name: str) -> None:
        """End a child as a power failure would: SIGKILL, no goodbye."""
        child = self._running.pop(name)
        _kill(child)

    def ended(self) -> dict[str, int]:
        """Children that have ended by themselves, with their exit codes. They are forgotten by this call."""
        over = {name: code for name, child in self._running.items() if (code := child.poll()) is not None}
        for name in over:
            del self._running[name]
        return over

    def stop(self) -> None:
        """Ask all children to stop, wait for them, and kill those that do not."""
        for child in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_WITHIN
        for child in self._running.values():
            try:
                child.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _kill(child)
        self._running.clear()

    def start_site(self, port: int) -> str:
        """Start the site and wait until it answers; answers its address."""
        address = f"http://127.0.0.1:{port}/"
        self.start("site", "runserver", "--noreload", f"127.0.0.1:{port}")
        deadline = time.monotonic() + ANSWERS_WITHIN
        while time.monotonic() < deadline:
            if "site" in (over := self.ended()):
                raise ChildEnded(f"The site ended with exit code {over['site']} before it had answered.")
            try:
                with urllib.request.urlopen(address, timeout=5) as answer:
                    if answer.status == 200:
                        return address
            except urllib.error.HTTPError as refused:
                raise ChildEnded(f"The site answers {address} with {refused.code}.") from refused
            except OSError:
                time.sleep(0.1)
        raise ChildEnded(f"The site did not answer on {address} within {ANSWERS_WITHIN:g} s.")


def _kill(child: subprocess.Popen[bytes]) -> None:
    """With the processes that it has forked: they are in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def take_port(wanted: int) -> int:
    """Look whether a port is free; answers it. 0 asks for any. Raises `PortTaken`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as taken:
            raise PortTaken(wanted) from taken
        port: int = probe.getsockname()[1]
    return port
