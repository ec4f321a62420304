"""Marks errors that workflow code handles while it makes durable calls.

The code may handle an error, in an `except` or `finally` block, call an activity there and raise the error afterwards.
If that takes more than one activation, the calls stand in the history by then. Repaired code does not raise the error,
so it could not repeat them.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from durable.errors.showing import is_a
from durable.kernel.texts import tracebacks

_MARK: Final = "_durable_handled"
_MOST_MARKED: Final = 1_000
# The slot itself: a class may hide it behind a property, or refuse to set attributes.
_attributes: Callable[[BaseException], dict[str, Any]] = BaseException.__dict__["__dict__"].__get__


class Activating(Protocol):
    """What code runs on, such as a `WorkflowLoop`, with the number of the current activation."""

    activation: int


class _Mark:
    """Which loop, and in which of its activations. An error that outlives its loop, since the module keeps it, has been
    handled by nobody as far as the next one knows: replay makes the calls again.
    """

    __slots__ = ("_loop", "activation")

    def __init__(self, loop: Activating) -> None:
        self._loop = weakref.ref(loop)
        self.activation = loop.activation

    def is_of(self, loop: Activating) -> bool:
        return self._loop() is loop


def mark(loop: Activating) -> None:
    """Marks the error that the calling code is handling, if there is one, with the current activation.

    On the error itself: a reference from here would keep the frames of every error that the code has ever handled.
    """
    error = sys.exception()
    if error is None:
        return
    for part in itertools.islice(parts(error), _MOST_MARKED):
        if _mark_of(part, loop) is None:
            _attributes(part)[_MARK] = _Mark(loop)


def since(error: BaseException, loop: Activating) -> int | None:
    """The first activation in which the code on this loop made a durable call while it handled this error."""
    mark = _mark_of(error, loop)
    return None if mark is None else mark.activation


def _mark_of(error: BaseException, loop: Activating) -> _Mark | None:
    mark = _attributes(error).get(_MARK)
    return mark if type(mark) is _Mark and mark.is_of(loop) else None


def parts(error: BaseException) -> Iterator[BaseException]:
    """The error; of a group also all errors that it holds, at any depth."""
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
