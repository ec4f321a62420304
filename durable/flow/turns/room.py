"""Room for the rows that a turn stages: passed to it before its transaction, and checked again within."""

from __future__ import annotations

import threading


class Room:
    """How many of the rows that a turn stages its process may claim: a number, which the claim loop offers before the
    turn and may withdraw until the rows are staged. A transaction looks at it, and asks the worker nothing. From any
    thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = False
        self._offered = 0
        self._reserved = 0

    def open(self, number: int) -> None:
        """Lets the next turn that stages rows claim `number` of them; those after it claim nothing until this is said
        again.
        """
        with self._lock:
            self._open = True
            self._offered = max(0, number)

    def offer(self, number: int) -> None:
        """The number has changed. Whether rows may be claimed has not."""
        with self._lock:
            self._offered = max(0, number)

    def close(self) -> None:
        """Lets no turn reserve anything until it is opened again. What is reserved stays so until it is released."""
        with self._lock:
            self._open = False

    def reserve(self) -> int:
        """Reserves room for rows that are being staged, and returns how much. A try after one that failed has what that
        one has reserved; else there is none while it is closed.
        """
        with self._lock:
            if self._open:
                self._open = False
                self._reserved += self._offered
            return self._reserved

    def release(self) -> bool:
        """Ends the reservation. Returns whether there was one."""
        with self._lock:
            was_reserved, self._reserved = self._reserved > 0, 0
            return was_reserved

    @property
    def reserved(self) -> int:
        """How many rows a turn that has not ended may claim."""
        with self._lock:
            return self._reserved
