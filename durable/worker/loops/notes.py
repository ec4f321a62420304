"""Whose workflow code is running, noted outside the database, where a death of the process can not roll it back.

A note is a memory-mapped file in a folder of this user and this database. Its owner holds an flock on it: a file that
can be locked belongs to a process that has died, and what stands in it is the workflow whose code ran at that moment.

`folders.py` says where they lie. Where a place is full, read-only or missing, the next one serves. Where
none does, workflows turn without notes: a death of the process in workflow code is not counted then. The log says so.
Notes of the dead are looked for in all places.
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

    Raises `OSError` when there is no space for it: on a full disk, a write to a map without space of its own would end
    the process by SIGBUS.
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
        """Note that this workflow's code runs from here on; None: nobody's."""
        if workflow_id is None:
            self._map[0] = 0
        else:
            self._map[1:_SIZE] = workflow_id.bytes
            self._map[0] = _NOTED

    @property
    def is_there(self) -> bool:
        """Whether others can find it. Folders for temporary files are tidied, and those of a session go at its end."""
        return os.fstat(self._file).st_nlink > 0

    def close(self) -> None:
        """A clean end: nothing was running."""
        self.write(None)
        self._map.close()
        with suppress(OSError):  # in a folder that has become read-only it stays; nothing stands in it
            self.path.unlink(missing_ok=True)
        os.close(self._file)


class Notes:
    """The places of this user's notes about the database of an alias."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._told = False

    def open(self) -> Note | None:
        """This process's note, or None where no place takes one; the log says so once."""
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
        """As the function of this name, in all places that there are."""
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
    """Remove what is left where notes about a database lay that is no more: folders without a note in them."""
    for place in folders.places():
        for root in folders.existing(place):
            with suppress(OSError):  # there is none, or somebody's notes lie in it
                (root / _identity(alias)).rmdir()


def count_the_dead(folder: Path, count: Callable[[uuid.UUID], bool]) -> list[uuid.UUID]:
    """Call `count` for each workflow whose code ran in a process that has died since; returns the ids of those for
    which it said that they are counted.

    A note goes only after it was counted, the others stay for a later call; two processes never count the same one.
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
    """The content of a note whose owner is dead, held so that nobody else counts it; None when the owner lives, and for
    what another user, or a link, has put there.
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
        # Between opening and locking somebody else may have counted and removed it.
        yield os.pread(file, _SIZE, 0) if is_ours and status.st_nlink else None
    finally:
        os.close(file)


def _identity(alias: str) -> str:
    """What tells this database from others, as the name of a folder."""
    settings = connections[alias].settings_dict
    options = settings.get("OPTIONS") or {}
    parts = [settings[part] for part in ("ENGINE", "NAME", "HOST", "PORT")]
    # A service file, or the driver's own parameters, may say instead which database it is.
    parts += [options[part] for part in ("service", "dbname", "database", "host", "port") if part in options]
    return hashlib.blake2b("\n".join(map(str, parts)).encode(), digest_size=8).hexdigest()
