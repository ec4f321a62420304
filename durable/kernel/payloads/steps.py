"""The budget of one decode, since the sender of a value chooses how much work it is to read."""

from __future__ import annotations

from typing import Any

from durable.kernel.limits import DECODE_STEPS, DECODE_STEPS_PER_VALUE
from durable.kernel.payloads.unwritable import Refusal

CROWD = 64
"""Keys of one hash that cost too little to be counted."""

TRIED_IN_VAIN = 20
"""Steps that are charged for each member of a union that could not read the data: errors are expensive."""


class Steps:
    """What one decode may still do. A step is one value, field or comparison.

    `DECODE_STEPS` are everybody's. Data that needs more gets `DECODE_STEPS_PER_VALUE` for each value in it, so that
    the work stays proportional to the data; nothing that an annotation has written itself needs as many.
    """

    __slots__ = ("_allowed", "_data", "_grown", "_left")

    def __init__(self, data: Any) -> None:
        self._data = data
        self._left = self._allowed = DECODE_STEPS
        self._grown = False

    @property
    def are_spent(self) -> bool:
        """Whether the budget is exceeded: then no other way of reading the data may be tried."""
        return self._left < 0

    def spend(self, count: int) -> None:
        """Counts the next steps. Raises `Refusal` when they are more than allowed."""
        self._left -= count
        if self._left < 0:
            self._grow()

    def _grow(self) -> None:
        if not self._grown:
            self._grown = True
            more = DECODE_STEPS_PER_VALUE * values_in(self._data)
            self._left += more
            self._allowed += more
        if self._left < 0:
            raise Refusal(
                f"reading it takes more than {self._allowed:,} steps",
                "Annotate it with a flatter type, one whose unions have members that differ in their fields, or with "
                "lists in place of sets and mappings of numbers.",
            )


def values_in(data: Any) -> int:
    """The number of values in JSON natives, themselves included."""
    count = 1
    open_: list[Any] = [data]
    while open_:
        value = open_.pop()
        if type(value) is list:
            count += len(value)
            open_ += [item for item in value if type(item) is list or type(item) is dict]
        elif type(value) is dict:
            count += len(value)
            open_ += [item for item in value.values() if type(item) is list or type(item) is dict]
    return count


def is_deeper(data: Any, than: int) -> bool:
    """Whether lists and objects are nested in more than `than` levels."""
    level = [data]
    for _ in range(than):
        inner: list[Any] = []
        for value in level:
            if type(value) is list:
                inner += [item for item in value if type(item) is list or type(item) is dict]
            elif type(value) is dict:
                inner += [item for item in value.values() if type(item) is list or type(item) is dict]
        if not inner:
            return False
        level = inner
    return True


class Crowds:
    """Counts the work of filling a set or a mapping: keys of one hash are compared with each other.

    The hashes of numbers, and of collections of numbers, are predictable: a sender can choose thousands with the same
    hash, and each is then compared with all before it.
    """

    __slots__ = ("_crowds", "_steps")

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._crowds: dict[int, int] = {}

    def meet(self, key: Any) -> int:
        """Counts what it costs to look a key up; returns its hash."""
        mark = hash(key)
        crowd = self._crowds.get(mark, 0)
        if crowd > CROWD:
            self._steps.spend(crowd)
        return mark

    def grow(self, mark: int) -> None:
        """A key of this hash is in there now."""
        self._crowds[mark] = self._crowds.get(mark, 0) + 1


def filled(kind: type, items: list[Any], steps: Steps) -> Any:
    """A set or frozen set of the items."""
    if len(items) <= CROWD:
        return kind(items)
    crowds = Crowds(steps)
    members: set[Any] = set()
    for item in items:
        mark = crowds.meet(item)
        before = len(members)
        members.add(item)
        if len(members) > before:
            crowds.grow(mark)
    return members if kind is set else kind(members)
