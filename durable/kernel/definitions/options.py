"""What a caller may choose for one call, checked at the call, and stored as plain JSON on the row.

None means "not chosen": then the definition decides, and then the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, Self
from unicodedata import category

from durable.errors import KeyInvalid, OptionInvalid
from durable.kernel.definitions.retry import Retry
from durable.kernel.limits import (
    LATEST_START,
    MAX_KEY_BYTES,
    MAX_NAME_BYTES,
    MAX_NAME_LENGTH,
    MAX_PRIORITY,
    MAX_QUEUE_LENGTH,
    MAX_SPAN,
    MIN_PRIORITY,
)

OnConflict = Literal["refuse", "existing"]
OnDeadLetter = Literal["hold", "deliver"]
OnExhausted = Literal["fail", "hold"]
ParentClose = Literal["cancel", "terminate", "abandon"]
"""What the end of a workflow does to a child of it that has not ended."""
DETACHED = "detached"
"""What is stored for a child that was begun with `start(...)`: abandoned, and its end is told to nobody."""
OUTLIVE = frozenset({"abandon", DETACHED})
"""Children that go on after the end of their parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """The engine's options in `start(...)`. Raises `KeyInvalid` and `OptionInvalid` at construction.

    The length of `key` depends on the settings, and is checked by the client.
    """

    key: str | None = None
    timeout: timedelta | None = None
    start_at: datetime | None = None
    on_conflict: OnConflict | None = None
    queue: str | None = None
    priority: int | None = None
    parent_close: ParentClose | None = None

    def __post_init__(self) -> None:
        _check_common(self)
        check_span("timeout", self.timeout)
        check_choice("parent_close", self.parent_close, ("cancel", "terminate", "abandon"))

    def with_(self, **chosen: Any) -> Self:
        """These options with others in their place; what is None stays as it was."""
        return replace(self, **{name: value for name, value in chosen.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityOptions:
    """The engine's options in `enqueue(...)` and `.options(...)` of an activity. Raises like `StartOptions`."""

    key: str | None = None
    start_at: datetime | None = None
    on_conflict: OnConflict | None = None
    queue: str | None = None
    priority: int | None = None
    retry: Retry | None = None
    start_to_close: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    on_dead_letter: OnDeadLetter | None = None
    on_exhausted: OnExhausted | None = None

    def __post_init__(self) -> None:
        _check_common(self)
        check_retry(self.retry)
        check_span("start_to_close", self.start_to_close)
        check_span("heartbeat_timeout", self.heartbeat_timeout)
        check_choice("on_dead_letter", self.on_dead_letter, ("hold", "deliver"))
        check_choice("on_exhausted", self.on_exhausted, ("fail", "hold"))

    def with_(self, **chosen: Any) -> Self:
        """These options with others in their place; what is None stays as it was."""
        return replace(self, **{name: value for name, value in chosen.items() if value is not None})

    def as_data(self) -> dict[str, Any]:
        """What was chosen, as plain JSON: what a workflow's command stores and `resolve` reads. Spans are seconds. The
        row stores `Terms.options`.
        """
        data: dict[str, Any] = {}
        for name in ("queue", "priority", "on_dead_letter", "on_exhausted"):
            value = getattr(self, name)
            if value is not None:
                data[name] = value
        if self.retry is not None:
            data["retry"] = self.retry.as_data()
        for name in ("start_to_close", "heartbeat_timeout"):
            span = getattr(self, name)
            if span is not None:
                data[name] = span.total_seconds()
        return data


START_NAMES = frozenset(field.name for field in fields(StartOptions)) - {"parent_close"}
ENQUEUE_NAMES = frozenset(field.name for field in fields(ActivityOptions))
"""Keywords of `start` and `enqueue` that belong to the engine."""
RESERVED_NAMES = frozenset({"signal", "once", "ask", "request"})
"""Keywords that `start` will have in a later release. No workflow may have a parameter of that name, since the keyword
would change its meaning for the callers.
"""


class Declared(Protocol):
    """The options that a definition declares for its calls."""

    queue: str
    retry: Retry | None
    start_to_close: timedelta | None
    heartbeat_timeout: timedelta | None
    on_dead_letter: OnDeadLetter | None
    on_exhausted: OnExhausted


class Defaults(Protocol):
    """The options that the settings declare for all calls."""

    @property
    def default_retry(self) -> Retry:
        """The policy of activities that declare none."""

    @property
    def on_dead_letter(self) -> OnDeadLetter:
        """What happens to the workflow when a delivery budget is spent."""

    @property
    def delivery_attempts(self) -> int:
        """A full delivery budget."""


class _Undeclared:
    queue: str = "default"
    retry: Retry | None = None
    start_to_close: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    on_dead_letter: OnDeadLetter | None = None
    on_exhausted: OnExhausted = "fail"


@dataclass(frozen=True, slots=True)
class Terms:
    """How an activity is to be run. `priority` is None where the call chose none: then it is that of its workflow.

    `options` is what a new row stores of it. Queue, priority, policies and budgets are decided when the row is staged;
    of its own retry policy and time limits it stores what the call chose, and an attempt resolves them again.
    """

    queue: str
    priority: int | None
    retry: Retry
    start_to_close: timedelta | None
    heartbeat_timeout: timedelta | None
    delivery_budget: int
    options: Mapping[str, Any]

    @property
    def attempt_budget(self) -> int | None:
        """The application attempts of a full budget; None: as many as it takes."""
        return self.retry.max_attempts


_RESOLVED_AGAIN = ("retry", "start_to_close", "heartbeat_timeout")


def resolve(chosen: Mapping[str, Any], definition: Declared | None, defaults: Defaults) -> Terms:
    """What the call chose (as `as_data` stores it), else what the definition declares, else the settings.

    A definition that nobody has registered here (None) declares nothing. Raises what data that cannot be read raises.
    """
    declared: Declared = _Undeclared() if definition is None else definition
    retry = seconds = silent = None
    stored = {}
    if chosen:
        retry, seconds, silent = map(chosen.get, _RESOLVED_AGAIN)
        stored = {name: chosen[name] for name in _RESOLVED_AGAIN if name in chosen}
    if (chosen.get("on_exhausted") or declared.on_exhausted) == "hold":
        stored["on_exhausted"] = "hold"
    if (chosen.get("on_dead_letter") or declared.on_dead_letter or defaults.on_dead_letter) == "deliver":
        stored["on_dead_letter"] = "deliver"
    return Terms(
        queue=chosen.get("queue") or declared.queue,
        priority=chosen.get("priority"),
        retry=declared.retry or defaults.default_retry if retry is None else Retry.from_data(retry),
        start_to_close=declared.start_to_close if seconds is None else timedelta(seconds=seconds),
        heartbeat_timeout=declared.heartbeat_timeout if silent is None else timedelta(seconds=silent),
        delivery_budget=defaults.delivery_attempts,
        options=stored,
    )


def holds_when_exhausted(options: Mapping[str, Any]) -> bool:
    """Whether spent retries of a row with these (stored) options make a dead letter."""
    return options.get("on_exhausted") == "hold"


def delivers_dead_letters(options: Mapping[str, Any]) -> bool:
    """Whether a spent delivery budget of a row with these (stored) options fails the activity."""
    return options.get("on_dead_letter") == "deliver"


def check_text(what: str, value: Any, limit: int) -> None:
    """Raises `KeyInvalid` for text that cannot be stored and looked up as a name."""
    if not isinstance(value, str):
        raise KeyInvalid(what, value, "it has to be text")
    if not value:
        raise KeyInvalid(what, value, "it is empty")
    if len(value) > limit:
        raise KeyInvalid(what, value, f"{len(value):,} characters are more than the limit of {limit:,}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise KeyInvalid(what, value, "it holds a NUL character or a lone surrogate, which no database takes")


def check_name(what: str, value: Any) -> None:
    """Raises `KeyInvalid` for an invalid name of an activity or a workflow."""
    check_text(what, value, MAX_NAME_LENGTH)
    _check_bytes(what, value, MAX_NAME_BYTES, "Take a shorter one")


def _check_bytes(what: str, value: str, limit: int, cure: str) -> None:
    # A character takes four bytes at most, so that short texts need no counting.
    size = len(value) * 4 if len(value) * 4 <= limit else len(value.encode())
    if size > limit:
        problem = f"its {size:,} bytes of UTF-8 are more than the {limit:,} that fit into an index. {cure}"
        raise KeyInvalid(what, value, problem)


def check_key(value: Any, limit: int) -> None:
    """Raises `KeyInvalid` for an invalid key of a workflow: as `check_text`, for more bytes than an index entry takes,
    and for control characters and line breaks. Keys are compared by their characters: "é" and "e" with a combining
    accent are two keys.
    """
    check_text("key", value, limit)
    _check_bytes("key", value, MAX_KEY_BYTES, "Take a shorter one, or a digest of it (hashlib) as the key")
    if any(category(character) in _CONTROLS for character in value):
        raise KeyInvalid("key", value, "it holds a control character or a line break")


_CONTROLS = frozenset({"Cc", "Zl", "Zp"})


def check_storable(name: str, value: Any) -> None:
    """Raises `OptionInvalid` for text that no database can store."""
    if not isinstance(value, str) or "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise OptionInvalid(name, value, "text without NUL characters and lone surrogates")


def check_span(name: str, value: Any) -> None:
    """Raises `OptionInvalid` unless it is a positive span that the calendar can hold."""
    if value is not None and (not isinstance(value, timedelta) or not timedelta() < value <= MAX_SPAN):
        raise OptionInvalid(name, value, f"a timedelta above zero, of {MAX_SPAN.days:,} days at most")


def check_retry(value: Any) -> None:
    """Raises `OptionInvalid` unless it is a retry policy."""
    if value is not None and not isinstance(value, Retry):
        raise OptionInvalid("retry", value, "a durable.Retry")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raises `OptionInvalid` unless it is one of the choices."""
    if value is not None and value not in choices:
        raise OptionInvalid(name, value, " or ".join(map(repr, choices)))


def check_priority(value: Any) -> None:
    """Raises `OptionInvalid` for a value that the column cannot hold."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and MIN_PRIORITY <= value <= MAX_PRIORITY):
        raise OptionInvalid("priority", value, f"a whole number from {MIN_PRIORITY:,} to {MAX_PRIORITY:,}")


def _check_common(options: StartOptions | ActivityOptions) -> None:
    if options.key is not None and not isinstance(options.key, str):
        raise KeyInvalid("key", options.key, "it has to be text")
    if options.queue is not None:
        check_text("queue", options.queue, MAX_QUEUE_LENGTH)
    check_priority(options.priority)
    check_choice("on_conflict", options.on_conflict, ("refuse", "existing"))
    at = options.start_at
    if at is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
        raise OptionInvalid("start_at", at, "an aware datetime (one with a time zone)")
    # Compared without the zone: times at the edge of the calendar cannot be converted to another zone.
    if at is not None and at.replace(tzinfo=UTC) > LATEST_START:
        raise OptionInvalid("start_at", at, f"a moment before the year {LATEST_START.year}")
