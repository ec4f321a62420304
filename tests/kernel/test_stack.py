"""How deep workflow code may recurse does not depend on how deep its caller is."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from durable.kernel.loop.stack import SHALLOW, on_shallow_stack


def _at_depth(levels: int, work: Any) -> Any:
    return work() if levels == 0 else _at_depth(levels - 1, work)


def test_shallow_caller_is_used_as_it_is() -> None:
    seen: list[int] = []

    def from_the_bottom() -> None:
        seen.append(on_shallow_stack(threading.get_ident))
        seen.append(threading.get_ident())

    thread = threading.Thread(target=from_the_bottom)
    thread.start()
    thread.join()
    assert seen[0] == seen[1]


def test_deep_caller_gets_a_thread_of_its_own_and_waits_for_it() -> None:
    mine = threading.get_ident()
    assert _at_depth(SHALLOW, lambda: on_shallow_stack(threading.get_ident)) != mine


def test_error_of_the_work_reaches_a_deep_caller() -> None:
    def work() -> None:
        raise LookupError("from below")

    with pytest.raises(LookupError, match="from below"):
        _at_depth(SHALLOW, lambda: on_shallow_stack(work))


def test_error_of_the_work_carries_nothing_of_the_looking() -> None:
    def work() -> None:
        raise LookupError

    with pytest.raises(LookupError) as caught:
        on_shallow_stack(work)
    assert caught.value.__context__ is None
