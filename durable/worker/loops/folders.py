"""Folders for small files of the workers of one user, that no other user can read, fill or stop.

They are in these places, in this order: the folder that systemd made for the service (`RUNTIME_DIRECTORY`, several
separated by `:`), the one for the user's session (`XDG_RUNTIME_DIR`), the folder for temporary files, and `/dev/shm`.
In each of them the folder is called `durable-UID`. In the last two another user may have taken that name; then the
folder `durable-UID-RANDOM` is used. Other workers of this user find it by its owner, which cannot be forged: nothing is
lost.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.folders")

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder in it belongs to this user, or is not used
FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_told: set[Path] = set()


class Unusable(OSError):
    """There is something at this path that is not a folder of this user alone."""


def places() -> Sequence[Path]:
    """Where the folders may be, the best place first. Places from the environment have to be safe from other users."""
    named = [*os.environ.get("RUNTIME_DIRECTORY", "").split(":"), os.environ.get("XDG_RUNTIME_DIR", "")]
    folders = [Path(path) for path in named if _is_safe(path)]
    with suppress(FileNotFoundError):
        folders.append(Path(tempfile.gettempdir()))
    if SHARED_MEMORY.is_dir():
        folders.append(SHARED_MEMORY)
    return list(dict.fromkeys(folders))


def make(place: Path) -> Path:
    """The folder in this place, created if missing. If its name is taken, one with a random name, with a warning once
    per process. Raises `OSError` if none can be created.
    """
    usual = place / _name()
    with suppress(FileExistsError):
        usual.mkdir(mode=0o700)
    try:
        check(usual)
    except Unusable as unusable:
        others = [folder for folder in existing(place) if folder != usual]
        instead = others[0] if others else Path(tempfile.mkdtemp(prefix=f"{_name()}-", dir=place))
        if usual not in _told:
            _told.add(usual)
            log.warning("folder_for_notes_taken", folder=str(usual), why=str(unusable), instead=str(instead))
        return instead
    return usual


def existing(place: Path) -> Iterator[Path]:
    """The folders of this user in this place, by whichever process they were made."""
    names = [place / _name()]
    with suppress(OSError):  # a place that cannot be listed has the usual one, or none
        names += sorted(place.glob(f"{_name()}-*"))
    for folder in names:
        with suppress(OSError):
            check(folder)
            yield folder


def check(folder: Path) -> None:
    """Raises `Unusable` unless this is a folder, not a link to one, that belongs to this user alone; `OSError` if it is
    not there.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise Unusable(f"{folder} is not a folder")
    if status.st_uid != os.geteuid():
        raise Unusable(f"{folder} belongs to the user {status.st_uid}")
    if status.st_mode & FOR_OTHERS:
        raise Unusable(f"{folder} is open to others, by its mode {stat.S_IMODE(status.st_mode):o}")


def _name() -> str:
    return f"durable-{os.geteuid()}"


def _is_safe(path: str) -> bool:
    """Whether it is an absolute path to a folder of this user in which nobody else writes. After `sudo`, for one,
    `XDG_RUNTIME_DIR` may be another user's, and go when that one logs out.
    """
    if not Path(path).is_absolute():
        return False
    try:
        status = Path(path).stat()
    except OSError:
        return False
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not writable_by_others
