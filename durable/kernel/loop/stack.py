"""Workflow code runs near the bottom of a stack, so that how deep it may recurse does not depend on its caller."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, TypeVar

T = TypeVar("T")

SHALLOW: Final = 150
"""Frames below which a caller's stack is used as it is. The turn thread of a worker has about ten."""


def on_shallow_stack(work: Callable[..., T], *args: Any) -> T:
    """Calls `work` here, or, if this stack is already deep, in a new thread, and waits for it."""
    return _in_thread(work, args) if _is_deep() else work(*args)


def with_room(work: Callable[..., T], *args: Any) -> T:
    """Calls `work`; if it exhausts a stack that was already deep, calls it again in a new thread, so that a
    `RecursionError` is caused by the work and not by the caller. `work` must have no side effects.
    """
    try:
        return work(*args)
    except RecursionError:
        if not _is_deep():
            raise
    result: T = _in_thread(copy_context().run, (work, *args))
    return result


def _is_deep() -> bool:
    try:
        sys._getframe(SHALLOW)
    except ValueError:
        return False
    return True


def _in_thread(work: Callable[..., T], args: tuple[Any, ...]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def carry() -> None:
        try:
            results.append(work(*args))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=carry, name="durable-deep-caller", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
