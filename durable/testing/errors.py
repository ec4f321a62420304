"""What `durable.testing` raises besides the errors of the workflows that it runs."""

from __future__ import annotations

from typing import Any

from durable.errors import DurableError


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
