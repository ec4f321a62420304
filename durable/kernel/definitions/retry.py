"""`Retry`: how often an activity is retried after its own errors, and how long each wait is."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from durable.errors import ConfigurationError
from durable.errors.showing import descends, dotted_name, real_mro, shown
from durable.kernel.limits import MAX_COUNT, MAX_SPAN


@dataclass(frozen=True, slots=True)
class Retry:
    """The retry policy of an activity: application errors and timeouts, never lost workers.

    `max_attempts` counts starts of the handler, the first one included; None: there is no limit. The wait after attempt
    *n* is `first * factor ** (n - 1)`, at most `cap`, spread by `jitter` (0.2: 20 % up or down). An error that is an
    instance of one of `no_retry` is not retried; a text ("package.module.Class") names a class that is not imported
    here.

    Raises `ConfigurationError` for an invalid value.
    """

    max_attempts: int | None = 5
    first: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=5)
    jitter: float = 0.2
    no_retry: tuple[type[BaseException] | str, ...] = (ValueError,)

    def __post_init__(self) -> None:
        attempts = self.max_attempts
        is_whole = isinstance(attempts, int) and not isinstance(attempts, bool)
        if attempts is not None and not (is_whole and 1 <= attempts <= MAX_COUNT):
            raise _refused("max_attempts", attempts, f"a whole number from 1 to {MAX_COUNT:,}, or None for no limit")
        for name in ("first", "cap"):
            span = getattr(self, name)
            if not isinstance(span, timedelta) or not timedelta() <= span <= MAX_SPAN:
                raise _refused(name, span, f"a timedelta of zero or more, {MAX_SPAN.days:,} days at most")
        if not _is_number(self.factor) or not 1.0 <= self.factor < float("inf"):
            raise _refused("factor", self.factor, "a finite number of 1.0 or more")
        if not _is_number(self.jitter) or not 0.0 <= self.jitter <= 1.0:
            raise _refused("jitter", self.jitter, "a number from 0.0 to 1.0")
        if not isinstance(self.no_retry, tuple) or not all(map(_is_error_class, self.no_retry)):
            raise _refused("no_retry", self.no_retry, "a tuple of exception classes, as in (ValueError, KeyError)")

    def delay(self, attempt: int, rng: random.Random) -> timedelta:
        """The wait after attempt `attempt` (counted from 1) has failed. Within `jitter` of the undisturbed wait."""
        try:
            factor = self.factor ** (attempt - 1)
            wait = min(self.first * factor, self.cap) if factor < self._steps_to_cap() else self.cap
        except OverflowError:
            wait = self.cap
        return wait * rng.uniform(1.0 - self.jitter, 1.0 + self.jitter)

    def gives_up(self, error: type[BaseException]) -> bool:
        """Whether errors of this class are not retried, however many attempts are left."""
        if any(not isinstance(refused, str) and descends(error, refused) for refused in self.no_retry):
            return True
        names = {refused for refused in self.no_retry if isinstance(refused, str)}
        return bool(names) and any(dotted_name(ancestor) in names for ancestor in real_mro(error))

    def as_data(self) -> dict[str, Any]:
        """Plain JSON, as an outbox row's options store it. Spans are seconds; classes become their dotted names."""
        return {
            "max_attempts": self.max_attempts,
            "first": self.first.total_seconds(),
            "factor": self.factor,
            "cap": self.cap.total_seconds(),
            "jitter": self.jitter,
            "no_retry": [refused if isinstance(refused, str) else dotted_name(refused) for refused in self.no_retry],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Retry:
        """The inverse of `as_data`. Classes stay names, so that nothing is imported; `gives_up` knows them by name."""
        return cls(
            max_attempts=data["max_attempts"],
            first=timedelta(seconds=data["first"]),
            factor=data["factor"],
            cap=timedelta(seconds=data["cap"]),
            jitter=data["jitter"],
            no_retry=tuple(data["no_retry"]),
        )

    def _steps_to_cap(self) -> float:
        return self.cap / self.first if self.first else float("inf")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_error_class(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value)
    return isinstance(value, type) and issubclass(value, BaseException)


def _refused(name: str, value: Any, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"Retry({name}={shown(value)}) is not possible: {name} is {wanted}.")
