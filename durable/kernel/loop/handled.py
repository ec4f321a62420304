"""Marks errors that workflow code handles while it makes durable calls.

The code may handle an error, in an `except` or `finally` block, call an activity there and raise the error afterwards.
If that takes more than one activation, the calls stand in the history by then. Repaired code does not raise the error,
so it could not repeat them.
"""

from __future__ import annotations

import itertools
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from durable.errors.showing import is_a
from durable.kernel.texts import tracebacks

_MARK: Final = "_durable_handled"
_MOST_PARTS: Final = 1_000
# The slot itself: a class may hide it behind a property, or refuse to set attributes.
_attributes: Callable[[BaseException], dict[str, Any]] = BaseException.__dict__["__dict__"].__get__


class Activating(Protocol):
    """What code runs on, such as a `WorkflowLoop`: the workflow, and the number of the current activation."""

    workflow_id: uuid.UUID
    activation: int


def mark(loop: Activating) -> None:
    """Marks the error that the calling code is handling, if there is one, with the current activation.

    On the error itself: a reference from here would keep the frames of every error that the code has ever handled.
    """
    error = sys.exception()
    if error is None:
        return
    for part in parts(error):
        marks = _attributes(part)
        if marks.get(_MARK, (None, 0))[0] != loop.workflow_id:
            marks[_MARK] = (loop.workflow_id, loop.activation)


def since(error: BaseException, workflow_id: uuid.UUID) -> int | None:
    """The first activation in which the workflow's code made a durable call while it handled this error."""
    owner, activation = _attributes(error).get(_MARK, (None, None))
    return activation if owner == workflow_id else None


def parts(error: BaseException) -> Iterator[BaseException]:
    """The error; of a group also all errors that it holds, at any depth. At most 1,000."""
    return itertools.islice(_parts(error), _MOST_PARTS)


def _parts(error: BaseException) -> Iterator[BaseException]:
    waiting = [error]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if is_a(part, BaseExceptionGroup):
            waiting += tracebacks.members(part)
