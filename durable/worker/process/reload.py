"""`--reload`: notices that the code on disk has changed, and restarts the process."""

from __future__ import annotations

import os
import sys
import time
from enum import Enum
from pathlib import Path

from django.utils.autoreload import iter_all_python_module_files

from durable.worker.process import forking, output
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.reload")

LOOK_EVERY = 1.0


class Code(Enum):
    """What a look at the files found."""

    SAME = "same"
    CHANGED = "changed"


class CodeWatch:
    """Compares the times of all loaded modules' files. A change that does not compile is logged, and the next one
    awaited.
    """

    def __init__(self) -> None:
        self._times: dict[Path, float] = {}
        self._next = 0.0
        self.look()

    def look(self) -> Code:
        """Looks, at most once a second."""
        now = time.monotonic()
        if now < self._next:
            return Code.SAME
        self._next = now + LOOK_EVERY
        code = Code.SAME
        for path in iter_all_python_module_files():
            try:
                written = path.stat().st_mtime
            except FileNotFoundError:  # being saved, or deleted: the next look decides
                continue
            known = self._times.get(path)
            self._times[path] = written
            if known is not None and known != written and _compiles(path):
                log.info("code_changed", file=str(path))
                code = Code.CHANGED
        return code


def start_anew() -> None:
    """Replaces this process with a new one with the same command line. Does not return."""
    forking.let_go()
    output.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - the same program again


def _compiles(path: Path) -> bool:
    if path.suffix != ".py":
        return True
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError, OSError) as broken:
        log.warning("changed_code_does_not_compile", file=str(path), error=str(broken))
        return False
    return True
