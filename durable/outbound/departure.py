"""A departure: a log line or a signal on its way out."""

from __future__ import annotations

import contextvars
from typing import Protocol


class Departure(Protocol):
    """A log line or a signal. `kind` is its noun; `context` the context variables of the call that made it."""

    @property
    def kind(self) -> str: ...

    @property
    def context(self) -> contextvars.Context: ...

    @property
    def is_heavy(self) -> bool:
        """Whether it keeps an error alive, with all that the frames of its traceback hold: arguments, rows, files."""
        ...

    def lighten(self) -> None:
        """Makes text of that error. Never raises."""
        ...

    def is_admitted(self) -> bool:
        """Whether it may be emitted, or is one too many of its kind. Called once."""
        ...

    def depart(self) -> None:
        """Calls the project's code. May raise anything."""
        ...
