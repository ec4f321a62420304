"""How a worker is heard: the lines and signals of all its threads leave through one, which is for the host's code."""

from __future__ import annotations

from durable import logs, outbound
from durable.worker import hygiene
from durable.worker.logs import get_logger

log = get_logger("durable.outbound")

DRAINED_WITHIN = 3.0
"""Seconds that the last lines and signals of a worker have to leave. A handler that blocks must not keep it alive."""


def start() -> None:
    """From here on the threads of this process only queue what they say."""
    outbound.start(
        outbound.Upkeep(
            before=hygiene.refresh, after=_close_what_is_open, idle=hygiene.rest, overflowed=logs.overflowed
        )
    )


def stop() -> bool:
    """Let the last of it leave. Returns whether the thread has come to its end."""
    return outbound.stop(DRAINED_WITHIN)


def _close_what_is_open(kind: str) -> None:
    """A receiver that leaves a transaction open has lost it: the next one must not write into that."""
    aliases = hygiene.left_open()
    if aliases and kind == "signal":  # of a log handler it would be said by way of that handler, without an end
        log.error("signal.transaction_left_open", aliases=aliases)
