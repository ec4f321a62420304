"""The subcommands of `manage.py durable`, one module each: its arguments, and what it prints."""

from __future__ import annotations

from durable.management.subcommands import (
    bench,
    cancel,
    deadletters,
    discard,
    export,
    health,
    listing,
    patches,
    pause,
    redrive,
    reencrypt,
    replay,
    resume,
    show,
    signal,
    start,
    terminate,
    unblock,
)
from durable.management.subcommands.answer import Subcommand

SUBCOMMANDS: dict[str, Subcommand] = {
    "list": listing.SUBCOMMAND,
    "show": show.SUBCOMMAND,
    "start": start.SUBCOMMAND,
    "signal": signal.SUBCOMMAND,
    "cancel": cancel.SUBCOMMAND,
    "terminate": terminate.SUBCOMMAND,
    "unblock": unblock.SUBCOMMAND,
    "patches": patches.SUBCOMMAND,
    "pause": pause.SUBCOMMAND,
    "resume": resume.SUBCOMMAND,
    "deadletters": deadletters.SUBCOMMAND,
    "redrive": redrive.SUBCOMMAND,
    "discard": discard.SUBCOMMAND,
    "reencrypt": reencrypt.SUBCOMMAND,
    "export": export.SUBCOMMAND,
    "replay": replay.SUBCOMMAND,
    "health": health.SUBCOMMAND,
    "bench": bench.SUBCOMMAND,
}
