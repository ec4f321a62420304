"""The verbs of `manage.py durable`, one module each: what it takes, and what it answers."""

from __future__ import annotations

from durable.management.verbs import (
    bench,
    cancel,
    deadletters,
    discard,
    health,
    listing,
    pause,
    redrive,
    reencrypt,
    resume,
    show,
    signal,
    start,
    terminate,
    unblock,
)
from durable.management.verbs.answer import Verb

VERBS: dict[str, Verb] = {
    "list": listing.VERB,
    "show": show.VERB,
    "start": start.VERB,
    "signal": signal.VERB,
    "cancel": cancel.VERB,
    "terminate": terminate.VERB,
    "unblock": unblock.VERB,
    "pause": pause.VERB,
    "resume": resume.VERB,
    "deadletters": deadletters.VERB,
    "redrive": redrive.VERB,
    "discard": discard.VERB,
    "reencrypt": reencrypt.VERB,
    "health": health.VERB,
    "bench": bench.VERB,
}
