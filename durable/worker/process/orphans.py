"""Parents and children among processes: a container's first process adopts orphans, and a child follows its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG, _PR_GET_CHILD_SUBREAPER = 1, 37


def adopts_orphans() -> bool:
    """Whether processes whose parents have died become children of this one: it is PID 1 of a container, or a
    subreaper.
    """
    adopting = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(adopting))
    return os.getpid() == 1 or bool(adopting.value)


def watch_over() -> int | None:
    """Forks, and returns None in the child, which continues with the program. The parent forwards signals to it, reaps
    all processes that end, and returns the child's exit code when the child ends.

    A worker must not reap in its own process: it would take the exit codes of the processes that handlers wait for.
    Raises `OSError` if there are no more processes.
    """
    forwarded = signal.valid_signals() - _OWN
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        follow(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return None
    while True:
        number = signal.sigwait(forwarded)
        if number == signal.SIGCHLD:
            code = reap().get(child)
            if code is not None:
                return 128 - code if code < 0 else code
        else:
            with suppress(ProcessLookupError):
                os.kill(child, number)


def follow(parent: int) -> None:
    """Makes the system send SIGTERM to this process when its parent ends, even if it has no time to look."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended before
        os.kill(os.getpid(), signal.SIGTERM)


def reap() -> dict[int, int]:
    """Takes the exit codes of all children that have ended, adopted ones included, by process. Signals are negative."""
    ended = {}
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


_OWN = {
    signal.SIGKILL, signal.SIGSTOP,
    # Faults of this process itself.
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP, signal.SIGABRT,
    # Of the terminal, which tells the child as well.
    signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGCONT, signal.SIGPIPE, signal.SIGXFSZ,
}  # fmt: skip


def _prctl(option: int, value: object) -> None:
    """What Linux has for it. Elsewhere, and where it is forbidden, nothing happens."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
