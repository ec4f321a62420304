"""What `durable.testing` raises besides the errors of the workflows that it runs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from durable.errors import DurableError
from durable.outcomes import Failure


class NeverEnds(DurableError):
    """The workflow that a test runs would wait for ever. `waits_for` says, in words, for what."""

    def __init__(self, workflow_id: Any, waits_for: tuple[str, ...]) -> None:
        self.workflow_id = workflow_id
        self.waits_for = waits_for
        super().__init__(f"Workflow {workflow_id} never ends. It waits for {'; and for '.join(waits_for)}.")


class NeverIdle(DurableError):
    """Due work keeps creating more due work."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        super().__init__(
            f"After {rounds:,} rounds there is still work that is due now. Something starts or calls itself without "
            "an end: put a durable sleep into its loop, or give it an end."
        )


@dataclass(frozen=True, slots=True)
class HandlerFailure:
    """An attempt that failed in an `eager` block."""

    activity: str
    workflow_id: uuid.UUID
    attempt: int
    failure: Failure


class HandlersFailed(DurableError):
    """Attempts of activities failed in an `eager` block. `failures` has them all. If they were meant to fail, take
    `eager(errors="keep")` and look at its `failures`.
    """

    def __init__(self, failures: tuple[HandlerFailure, ...]) -> None:
        self.failures = failures
        more = f" (and {len(failures) - 1:,} more)" if len(failures) > 1 else ""
        trace = failures[0].failure.traceback
        super().__init__(f"{self.line(failures[0])}{more}" + (f"\n\n{trace}" if trace else ""))

    @staticmethod
    def line(failed: HandlerFailure) -> str:
        """One of them in words."""
        return f"attempt {failed.attempt} of {failed.activity} raised {failed.failure.type}: {failed.failure.message}"


class Impure(DurableError):
    """Workflow code called something that a replay cannot repeat. `function`, `file` and `line` are the caller's."""

    def __init__(self, *, call: str, function: str, file: str, line: int, advice: str) -> None:
        self.call = call
        self.function = function
        self.file = file
        self.line = line
        self.advice = advice
        super().__init__(f"{function} calls {call}(...) in line {line} of {file}, which no replay can repeat. {advice}")


class NotReplayable(DurableError):
    """The argument has nothing to replay, or it cannot be replayed. The message says which."""


class UnknownFault(DurableError, ValueError):
    """The target of `failing` is neither an activity nor one of the engine's points."""

    def __init__(self, target: Any, points: tuple[str, ...]) -> None:
        self.target = target
        super().__init__(
            f"{target!r} is neither a registered activity nor a point of the engine ({', '.join(points)})."
        )


class InjectedFault(Exception):
    """The error that `failing` makes an activity raise by default. Retried like any other exception."""
