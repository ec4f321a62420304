"""Whether the error that ends a workflow's code is a bug in that code: then the workflow is blocked, and not failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable.errors import CodeRaised, DurableError
from durable.errors.showing import descends, is_a
from durable.kernel.loop import handled
from durable.kernel.texts.failure import describe

if TYPE_CHECKING:
    # A circle: this is the part of an execution that judges its errors, in a file of its own.
    from durable.kernel.replay.execution import Execution

_ANY: Final = (Exception, BaseException)


def bug(execution: Execution, error: BaseException) -> CodeRaised | None:
    """The error to block with, if `error`, which has left the workflow's function, is one of its `blocks_on`; of a
    group, if any error in it is. None if the workflow fails with it.

    It also fails if earlier activations recorded durable calls that the code made while it was handling this error, and
    if the history already records the failure here.
    """
    if execution.failure_is_recorded:
        return None
    bugs = [part for part in handled.parts(error) if counts(part, execution.definition.blocks_on)]
    if not bugs:
        return None
    for part in [error, *bugs]:
        since = handled.since(part, execution.loop)
        if since is not None and since < execution.loop.activation:
            return None
    return CodeRaised(describe(error), error)


def counts(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether an error is of one of these kinds, by its own class.

    An error of `durable` counts only by a class of `durable`, or if all errors count: `WorkflowNotFound` is a
    `LookupError`, too, and says nothing about the code.
    """
    if is_a(error, DurableError):
        kinds = tuple(kind for kind in kinds if kind in _ANY or descends(kind, DurableError))
    return is_a(error, *kinds)
