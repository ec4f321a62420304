"""For tests of workflows: run them to their end, freeze the clock, replace activities, inject
faults, replay histories.
"""

from __future__ import annotations

from durable.testing.control import Frozen, cold, freeze, move, unfreeze
from durable.testing.doubles import Recorded, Replaced, replaced
from durable.testing.eager import Eager, eager
from durable.testing.errors import (
    HandlerFailure,
    HandlersFailed,
    Impure,
    InjectedFault,
    NeverEnds,
    NeverIdle,
    NotReplayable,
    UnknownFault,
)
from durable.testing.faults import POINTS, Injected, failing
from durable.testing.histories import export_history
from durable.testing.replaying import Replayed, replay, replay_all, replay_here
from durable.testing.running import Drained, drain, run

__all__ = [
    "POINTS",
    "Drained",
    "Eager",
    "Frozen",
    "HandlerFailure",
    "HandlersFailed",
    "Impure",
    "Injected",
    "InjectedFault",
    "NeverEnds",
    "NeverIdle",
    "NotReplayable",
    "Recorded",
    "Replaced",
    "Replayed",
    "UnknownFault",
    "cold",
    "drain",
    "eager",
    "export_history",
    "failing",
    "freeze",
    "move",
    "replaced",
    "replay",
    "replay_all",
    "replay_here",
    "run",
    "unfreeze",
]
