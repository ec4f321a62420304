"""Notes that say whose workflow code is running, outside the database, where the death of the process cannot roll them
back.

A note is a memory-mapped file in a folder of this user and this database. Its owner holds an flock on it: a file that
can be locked belongs to a process that has died, and contains the workflow whose code was running at that time.

`folders.py` says where they are. If a place is full, read-only or missing, the next one is used. If none works,
workflows are turned without notes: then the death of a process in workflow code is not counted, and the log says so.
Notes of dead processes are searched for in all places.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.db import connections

from durable.worker.loops import folders
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.notes")

_SIZE = 17
_NOTED = 1


class Note:
    """This process's note. Written by one thread; a write is a few bytes into mapped memory.

    Raises `OSError` if there is no space for it: on a full disk, a write to a map without reserved space would end the
    process with SIGBUS.
    """

    def __init__(self, folder: Path) -> None:
        name = f"{os.getpid()}-{uuid.uuid4().hex}"
        unlocked = folder / f"{name}.new"
        self.path = folder / f"{name}.note"
        self._file = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(self._file, 0, _SIZE)
            self._map = mmap.mmap(self._file, _SIZE)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            unlocked.rename(self.path)  # only now can others see it, and find it locked
        except OSError:
            os.close(self._file)
            unlocked.unlink(missing_ok=True)
            raise

    def write(self, workflow_id: uuid.UUID | None) -> None:
        """Records that this workflow's code is running; None: nobody's."""
        if workflow_id is None:
            self._map[0] = 0
        else:
            self._map[1:_SIZE] = workflow_id.bytes
            self._map[0] = _NOTED

    @property
    def is_there(self) -> bool:
        """Whether others can find it. Folders for temporary files are cleaned up, and those of a session are removed at
        its end.
        """
        return os.fstat(self._file).st_nlink > 0

    def close(self) -> None:
        """A clean end: nothing was running."""
        self.write(None)
        self._map.close()
        with suppress(OSError):  # in a folder that has become read-only it stays; nothing stands in it
            self.path.unlink(missing_ok=True)
        os.close(self._file)


class NotePlaces:
    """The places of this user's notes about the database of an alias."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._told = False

    def open(self) -> Note | None:
        """This process's note, or None if no place is writable, which is logged once."""
        troubles = []
        for place in folders.places():
            try:
                return Note(folder_of(self._alias, place))
            except OSError as trouble:
                troubles.append(f"{place}: {trouble}")
        if not self._told:
            cure = "give the service a RuntimeDirectory=, or set TMPDIR to a folder that can be written"
            log.error("no_place_for_notes", places=troubles, cure=cure)
        self._told = True
        return None

    def count_the_dead(self, count: Callable[[uuid.UUID], bool]) -> list[uuid.UUID]:
        """Like the function of this name, in all places."""
        counted = []
        for place in folders.places():
            for root in folders.existing(place):
                counted += count_the_dead(root / _identity(self._alias), count)
        return counted


def folder_of(alias: str, place: Path) -> Path:
    """The folder in this place of notes about the database of an alias; made if missing, readable by this user only.

    Raises `OSError` when it cannot be made.
    """
    folder = folders.make(place) / _identity(alias)
    folder.mkdir(mode=0o700, exist_ok=True)
    folders.check(folder)
    return folder


def forget(alias: str) -> None:
    """Removes the empty folders of notes about a database that no longer exists."""
    for place in folders.places():
        for root in folders.existing(place):
            with suppress(OSError):  # there is none, or somebody's notes lie in it
                (root / _identity(alias)).rmdir()


def count_the_dead(folder: Path, count: Callable[[uuid.UUID], bool]) -> list[uuid.UUID]:
    """Calls `count` for each workflow whose code was running in a process that has died since; returns the ids of those
    for which it returned that they are counted.

    A note is removed only after it was counted, others stay for a later call; two processes never count the same note.
    """
    counted = []
    for path in sorted(folder.glob("*.note")):
        with _locked(path) as content:
            if content is None:
                continue
            if len(content) == _SIZE and content[0] == _NOTED:
                workflow_id = uuid.UUID(bytes=content[1:])
                if not count(workflow_id):
                    continue
                counted.append(workflow_id)
            path.unlink(missing_ok=True)
    return counted


@contextmanager
def _locked(path: Path) -> Iterator[bytes | None]:
    """The content of a note whose owner is dead, locked so that nobody else counts it; None if the owner is alive, and
    for files of other users and links.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # another process was faster; or it could not be removed once counted, and would be counted again
        yield None
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        status = os.fstat(file)
        is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        # Between opening and locking, another process may have counted and removed it.
        yield os.pread(file, _SIZE, 0) if is_ours and status.st_nlink else None
    finally:
        os.close(file)


def _identity(alias: str) -> str:
    """The name of a folder that identifies this database."""
    settings = connections[alias].settings_dict
    options = settings.get("OPTIONS") or {}
    parts = [settings[part] for part in ("ENGINE", "NAME", "HOST", "PORT")]
    # A service file, or the driver's own parameters, may say instead which database it is.
    parts += [options[part] for part in ("service", "dbname", "database", "host", "port") if part in options]
    return hashlib.blake2b("\n".join(map(str, parts)).encode(), digest_size=8).hexdigest()
