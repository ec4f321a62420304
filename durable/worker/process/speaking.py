"""How a worker is heard: the lines and signals of all its threads leave through one, which is for the host's code."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from durable import logs, outbound
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger

log = get_logger("durable.outbound")

DRAINED_WITHIN = 3.0
"""Seconds that the last lines and signals of a worker have to leave. A handler that blocks must not keep it alive."""

REPORTED_WITHIN = 2.0
"""Seconds that Sentry, where the host has it, has to send what it was given."""


SAID_WITHIN = 2.0
"""Seconds that a line of the supervisor has to leave."""


def start_without_a_thread() -> None:
    """In a process that forks, where none may stay: let no line hold it up for long."""
    outbound.wait_at_most(SAID_WITHIN)


def is_heard() -> bool:
    """False when something of the host still blocks, and may hold locks that the end of the process would wait for."""
    return not outbound.is_blocked()


def start() -> None:
    """From here on the threads of this process only queue what they say."""
    outbound.start(
        outbound.Upkeep(
            before=hygiene.refresh, after=_close_what_is_open, idle=hygiene.rest, overflowed=logs.overflowed
        )
    )


def stop() -> bool:
    """Let the last of it leave, from Sentry's queue too: a process of `--processes` ends without Python's own farewell,
    in which that would happen. Returns whether the thread has come to its end.
    """
    is_heard = outbound.stop(DRAINED_WITHIN)
    sentry: Any = sys.modules.get("sentry_sdk")
    if sentry is not None:
        with suppress(Exception):  # it is the host's, and may be anything of that name
            sentry.flush(timeout=REPORTED_WITHIN)
    return is_heard


def _close_what_is_open(kind: str) -> None:
    """A receiver that leaves a transaction open has lost it: the next one must not write into that."""
    aliases = hygiene.left_open()
    if aliases and kind == "signal":  # of a log handler it would be said by way of that handler, without an end
        log.error("signal.transaction_left_open", aliases=aliases)
