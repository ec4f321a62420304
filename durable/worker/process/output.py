"""Standard output and error of a process, which may be closed, full, without a reader, or not UTF-8."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper


def make_sure() -> None:
    """Opens what the parent has closed, and writes escapes for characters that the encoding does not have.

    The next file that is opened would get a closed descriptor: a line for stderr would go into a database connection.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if type(stream) is TextIOWrapper:  # not what a test has put there
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Writes out what is buffered, if possible."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def give_up() -> None:
    """Writes out what is buffered, and drops what cannot be written.

    At its end Python would try once more, fail, and exit with 120, whatever the program's own exit code is.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            with suppress(OSError, ValueError, AttributeError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)
                stream.flush()
