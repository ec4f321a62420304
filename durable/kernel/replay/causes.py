"""Which failures of activities and of children ended a workflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durable.errors import ActivityError, ChildError, KeyTaken
from durable.errors.showing import is_a
from durable.kernel.texts import tracebacks

# As in `tracebacks`: a class can hide its attributes behind properties, and those run its code.
_attributes: Callable[[BaseException], dict[str, Any]] = BaseException.__dict__["__dict__"].__get__


def ordinals(error: BaseException, *, last_ordinal: int) -> tuple[int, ...]:
    """The ordinals of the `ActivityError`s, of the `ChildError`s, and of the `KeyTaken`s of children, that an error is,
    contains, or was raised from, in ascending order.

    Contained are the members of exception groups. An error was raised from its `__cause__`, and from its `__context__`
    even after `from None`: what was being handled led to it. Chains that lead back to themselves end. Numbers above
    `last_ordinal` belong to no call of this run and are left out. No code of the errors runs.
    """
    led_to_it: set[int] = set()
    for part in tracebacks.around(error):
        if is_a(part, ActivityError, ChildError, KeyTaken):
            ordinal = _attributes(part).get("ordinal")
            if type(ordinal) is int and 0 < ordinal <= last_ordinal:
                led_to_it.add(ordinal)
    return tuple(sorted(led_to_it))
