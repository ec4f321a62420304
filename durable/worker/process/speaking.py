"""How a worker logs: the lines and signals of all its threads are emitted on one thread, which runs
the project's code.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from durable import logs, outbound
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger

log = get_logger("durable.outbound")

DRAINED_WITHIN = 3.0
"""Seconds for emitting the last lines and signals of a worker. A handler that blocks must not keep it alive."""

REPORTED_WITHIN = 2.0
"""Seconds for Sentry, if the project uses it, to send its queue."""


SAID_WITHIN = 2.0
"""Seconds for emitting a line of the supervisor."""


def start_without_a_thread() -> None:
    """In a process that forks, which may keep no thread: lets no line hold it up for long."""
    outbound.wait_at_most(SAID_WITHIN)


def is_heard() -> bool:
    """False if code of the project still blocks, and may hold locks for which the end of the process would wait."""
    return not outbound.is_blocked()


def start() -> None:
    """From now on the threads of this process only queue their lines and signals."""
    outbound.start(
        outbound.Upkeep(
            before=hygiene.refresh, after=_close_what_is_open, idle=hygiene.rest, overflowed=logs.overflowed
        )
    )


def stop() -> bool:
    """Emits the last lines and signals, Sentry's queue included: a process of `--processes` ends without Python's exit
    handlers, which would do that. Returns whether the thread has ended.
    """
    is_heard = outbound.stop(DRAINED_WITHIN)
    sentry: Any = sys.modules.get("sentry_sdk")
    if sentry is not None:
        with suppress(Exception):  # it is the project's, and may be any module of that name
            sentry.flush(timeout=REPORTED_WITHIN)
    return is_heard


def _close_what_is_open(kind: str) -> None:
    """A transaction that a receiver leaves open is rolled back: the next receiver must not write into it."""
    aliases = hygiene.left_open()
    if aliases and kind == "signal":  # for a log handler, the line would go through that handler again, without end
        log.error("signal.transaction_left_open", aliases=aliases)
