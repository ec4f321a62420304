"""What `durable.testing` raises besides the errors of the workflows that it runs."""

from __future__ import annotations

from typing import Any

from durable.errors import DurableError


class NeverEnds(DurableError):
    """A workflow that a test runs to its end has none. `waits_for` says, in words, what it waits for."""

    def __init__(self, workflow_id: Any, waits_for: tuple[str, ...]) -> None:
        self.workflow_id = workflow_id
        self.waits_for = waits_for
        super().__init__(f"Workflow {workflow_id} never ends. It waits for {'; and for '.join(waits_for)}.")


class NeverIdle(DurableError):
    """Work that is due now goes on bringing more work that is due now."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        super().__init__(
            f"After {rounds:,} rounds there is still work that is due now. Something starts or calls itself without "
            "an end: put a durable sleep into its loop, or give it an end."
        )


class Impure(DurableError):
    """Workflow code called something that a replay can not repeat. `function`, `file` and `line` are the caller's."""

    def __init__(self, *, call: str, function: str, file: str, line: int, advice: str) -> None:
        self.call = call
        self.function = function
        self.file = file
        self.line = line
        self.advice = advice
        super().__init__(f"{function} calls {call}(...) in line {line} of {file}, which no replay can repeat. {advice}")


class NotReplayable(DurableError):
    """There is nothing to replay in what was given, or no way to replay it. The message says which."""


class UnknownFault(DurableError, ValueError):
    """`failing` was given something that is neither an activity nor one of the engine's points."""

    def __init__(self, target: Any, points: tuple[str, ...]) -> None:
        self.target = target
        super().__init__(
            f"{target!r} is neither a registered activity nor a point of the engine ({', '.join(points)})."
        )


class InjectedFault(Exception):
    """What `failing` lets an activity raise when the test names no error. Retried like any other exception."""
