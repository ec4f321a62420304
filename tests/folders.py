"""Temporary folders that do not outlive their owner, not even one that was killed.

The owner holds a lock on a file beside the folder for as long as it lives. A folder whose lock is free has no owner any
more; whoever makes the next one removes it.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

_held: list[int] = []
"""Descriptors whose locks say that this process lives. Never closed: the end of the process does that."""


def own(kind: str, *, parent: Path, farewell: Callable[[Path], None] = lambda folder: None) -> Path:
    """Make a folder that belongs to this process. `farewell` is called before it, or an orphan like it, is removed."""
    prefix = f"durable-{kind}-{os.getuid()}-"
    _remove_orphans(parent, prefix, farewell)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    # Locked before it gets the name that others look for, so that none of them can take the folder for an orphan.
    unnamed = folder.with_name(f"{folder.name}.locking")
    lock = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    unnamed.rename(lock_of(folder))
    _held.append(lock)
    owner = os.getpid()
    # A forked child (a supervisor under test) inherits the hook but not the folder.
    atexit.register(lambda: _remove(folder, farewell) if os.getpid() == owner else None)
    return folder


def lock_of(folder: Path) -> Path:
    """The file whose lock says that the folder has an owner."""
    return folder.with_name(f"{folder.name}.lock")


def _remove(folder: Path, farewell: Callable[[Path], None]) -> None:
    if folder.exists():
        farewell(folder)
        shutil.rmtree(folder, ignore_errors=True)
    lock_of(folder).unlink(missing_ok=True)


def _remove_orphans(parent: Path, prefix: str, farewell: Callable[[Path], None]) -> None:
    for lock_path in parent.glob(f"{prefix}*.lock"):
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # another process was faster, or another user of this machine has put it there
            continue
        try:
            if _is_ours(os.fstat(lock)):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(lock_path.with_suffix(""), farewell)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
