"""Modes and exit codes of a worker."""

from __future__ import annotations

from enum import Enum, IntEnum


class WorkerExit(IntEnum):
    """How a worker ended: the exit code of its process."""

    CLEAN = 0
    USAGE = 2
    STORE = 3
    MACHINE = 4
    """At its start, the machine had no threads or descriptors left for it."""
    RESTART = 75
    """To be restarted at once: workflow code hung the turn thread, or the code on disk has changed."""


class WorkerMode(Enum):
    """When the worker stops by itself."""

    SERVE = "serve"
    BURST = "burst"


class StoreAtStart(Enum):
    """What to do when the store cannot be reached at the start."""

    WAIT = "wait"
    REQUIRE = "require"
