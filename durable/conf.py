"""The settings of the app: `DURABLE = {...}`, every key optional.

`settings` is read lazily, is frozen, and follows Django's `setting_changed`. `problems()` returns what is wrong with
the project's dict; the system checks report it, and reading `settings` raises it.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, cast

from django.apps import apps
from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.db import connections, router
from django.utils.module_loading import import_string

from durable import queues as queueing
from durable.errors import ConfigurationError
from durable.kernel.codec import Codec, JsonCodec
from durable.kernel.definitions.retry import Retry
from durable.kernel.history.room import Room
from durable.kernel.limits import (
    DEFAULT_KEY_LENGTH,
    DEFAULT_PAYLOAD_BYTES,
    MAX_COUNT,
    MAX_KEY_LENGTH_CEILING,
    MAX_SPAN,
)
from durable.kernel.payloads.birthplace import NOWHERE
from durable.kernel.payloads.encryption_keys import KEY_BYTES, fault_of

Backoff = tuple[timedelta, float, timedelta]
JSON_CODEC = "durable.kernel.codec.JsonCodec"
POLL_FOR = timedelta(milliseconds=250)
POLL_FOR_ON_SQLITE = timedelta(milliseconds=20)  # `PRAGMA data_version` makes a look at an unchanged file nearly free


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of the project's `DURABLE` dict; `id` is that of the check which reports it."""

    text: str
    cure: str
    id: str = "durable.E002"


class _Refused(Exception):
    """The value of a key is not allowed."""


def _span(value: Any) -> None:
    if not isinstance(value, timedelta) or not timedelta() < value <= MAX_SPAN:
        raise _Refused(f"a datetime.timedelta above zero, of {MAX_SPAN.days:,} days at most")


SHORTEST_LEASE = timedelta(seconds=1)
"""A statement of ours waits for a lock as long as that: a lease has to outlast the wait of its own renewal."""


def _lease(value: Any) -> None:
    _span(value)
    if value < SHORTEST_LEASE:
        raise _Refused(f"a datetime.timedelta of {SHORTEST_LEASE.total_seconds():g} s at least; 60 s is the default")


def _patience(value: Any) -> None:
    if not isinstance(value, timedelta) or not timedelta() <= value <= MAX_SPAN:
        raise _Refused(f"a datetime.timedelta of zero or more, {MAX_SPAN.days:,} days at most")


def _count(most: int) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise _Refused(f"a whole number from 1 to {most:,}")

    return check


def _rate(value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    if value is not None and not number:
        raise _Refused("a number above zero, or None for no limit")


def _backoff(value: Any) -> None:
    wanted = "a tuple (first: timedelta, factor: float of 1.0 or more, cap: timedelta)"
    if not isinstance(value, tuple) or len(value) != 3:
        raise _Refused(wanted)
    first, factor, cap = value
    spans = all(isinstance(span, timedelta) and timedelta() <= span <= MAX_SPAN for span in (first, cap))
    number = isinstance(factor, int | float) and not isinstance(factor, bool) and 1.0 <= factor < float("inf")
    if not spans or not number:
        raise _Refused(wanted)
    if first > cap:
        raise _Refused(f"{wanted} with a cap that is not shorter than the first wait")


def _retry(value: Any) -> None:
    if not isinstance(value, Retry):
        raise _Refused("a durable.Retry")


def _either(first: str, second: str) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if value not in (first, second):
            raise _Refused(f"{first!r} or {second!r}")

    return check


def _flag(value: Any) -> None:
    if not isinstance(value, bool):
        raise _Refused("True or False")


def _alias(value: Any) -> None:
    if value is not None and (not isinstance(value, str) or value not in django_settings.DATABASES):
        raise _Refused(f"an alias of DATABASES ({', '.join(map(repr, django_settings.DATABASES))})")


def _path(value: Any) -> None:
    """Nothing is imported here, since a fault in the admin's hook must not stop a worker."""
    if value is not None and (not isinstance(value, str) or "." not in value.strip(".")):
        raise _Refused("the dotted path of a function that takes a user and a queryset, or None")


def _queues(value: Any) -> None:
    if fault := queueing.fault_of(value):
        raise _Refused(fault)


def _dotted(value: Any) -> None:
    try:
        codec = import_string(value) if isinstance(value, str) else None
    except ImportError as error:
        raise _Refused(f"the dotted path of a class that can be imported ({error})") from None
    if not isinstance(codec, type) or not issubclass(codec, JsonCodec):
        raise _Refused("the dotted path of a subclass of durable.kernel.codec.JsonCodec")
    for hook in ("wrap", "unwrap"):
        if not _takes_birthplace(getattr(codec, hook)):
            raise _Refused(f"a codec whose {hook} takes the birthplace: `def {hook}(self, text, birthplace)`")


def _takes_birthplace(hook: Callable[..., Any]) -> bool:
    """Whether a codec's hook can be called as the engine does. True if its signature cannot be read."""
    try:
        inspect.signature(hook).bind(None, "", NOWHERE)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def _encryption_keys(value: Any) -> None:
    if fault := fault_of(value):
        raise _Refused(f"a dict from ids to keys of {KEY_BYTES} bytes in base64; {fault}")


def _names(value: Any) -> None:
    if not isinstance(value, tuple | list) or not all(isinstance(name, str) and name for name in value):
        raise _Refused("a tuple of names of fields")


CHECKS: dict[str, Callable[[Any], None]] = {
    "DATABASE": _alias,
    "LEASE_FOR": _lease,
    "GRACE_FOR": _patience,
    "POLL_FOR": _span,
    "DELIVERY_ATTEMPTS": _count(MAX_COUNT),
    "DELIVERY_BACKOFF": _backoff,
    "DEFAULT_RETRY": _retry,
    "REARM_PER_SECOND": _rate,
    "REDRIVE_PER_SECOND": _rate,
    "RECONCILE_EVERY": _span,
    "UNKNOWN_HANDLER_FOR": _patience,
    "ON_DEAD_LETTER": _either("hold", "deliver"),
    "CONCURRENCY": _count(10_000),
    "CACHED_WORKFLOWS": _count(MAX_COUNT),
    "START_WAIT_FOR": _patience,
    "MAX_PAYLOAD_BYTES": _count(MAX_COUNT),
    "MAX_HISTORY_EVENTS": _count(MAX_COUNT),
    "MAX_HISTORY_BYTES": _count(MAX_COUNT),
    "MAX_UNREAD_SIGNALS": _count(MAX_COUNT),
    "MAX_UNREAD_BYTES": _count(MAX_COUNT),
    "MAX_KEY_LENGTH": _count(MAX_KEY_LENGTH_CEILING),
    "TURN_CPU_FOR": _span,
    "TURN_POISON_LIMIT": _count(32_767),
    "QUEUES": _queues,
    "NOTIFY": _flag,
    "REDACT_PAYLOADS": _flag,
    "LOG_FAILURES": _either("full", "type"),
    "PLAIN_FAILURES": _flag,
    "RECORD_VIEWS": _flag,
    "ADMIN_SCOPE": _path,
    "RESET_CONNECTIONS": _flag,
    "CODEC": _dotted,
    "HIDDEN_FIELDS": _names,
    "ENCRYPTION_KEYS": _encryption_keys,
    "READ_UNENCRYPTED": _flag,
}
"""Every key that `DURABLE` may have, with the function that refuses a wrong value."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `DURABLE` says, with defaults. Each name is the lower-case one of a key."""

    database: str | None = None
    lease_for: timedelta = timedelta(seconds=60)
    grace_for: timedelta = timedelta(seconds=30)
    chosen_poll_for: timedelta | None = None
    delivery_attempts: int = 8
    delivery_backoff: Backoff = (timedelta(seconds=1), 4.0, timedelta(minutes=15))
    default_retry: Retry = field(default_factory=Retry)
    rearm_per_second: float | None = 200.0
    redrive_per_second: float | None = 50.0
    chosen_reconcile_every: timedelta | None = None
    unknown_handler_for: timedelta = timedelta(minutes=5)
    on_dead_letter: Literal["hold", "deliver"] = "hold"
    concurrency: int = 16
    cached_workflows: int = 2_000
    start_wait_for: timedelta = timedelta(seconds=60)
    max_payload_bytes: int = DEFAULT_PAYLOAD_BYTES
    max_history_events: int = 50_000
    max_history_bytes: int = 50 * 1024 * 1024
    max_unread_signals: int = 10_000
    max_unread_bytes: int = 50 * 1024 * 1024
    max_key_length: int = DEFAULT_KEY_LENGTH
    turn_cpu_for: timedelta = timedelta(seconds=2)
    turn_poison_limit: int = 3
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notify: bool = False
    redact_payloads: bool = False
    chosen_log_failures: Literal["full", "type"] | None = None
    plain_failures: bool = False
    record_views: bool = False
    admin_scope: str | None = None
    reset_connections: bool = True
    chosen_codec: str = JSON_CODEC
    encryption_keys: Mapping[str, str | bytes] = field(default_factory=dict, repr=False)
    read_unencrypted: bool = False
    hidden_fields: Sequence[str] = ()

    @cached_property
    def database_alias(self) -> str:
        """The alias that holds the rows: `DATABASE`, else where the router writes workflows."""
        return self.database or router.db_for_write(apps.get_model("durable", "Workflow"))

    @cached_property
    def poll_for(self) -> timedelta:
        """`POLL_FOR`, else what suits the database."""
        if self.chosen_poll_for is not None:
            return self.chosen_poll_for
        return POLL_FOR_ON_SQLITE if connections[self.database_alias].vendor == "sqlite" else POLL_FOR

    @cached_property
    def sent_queues(self) -> Mapping[str, queueing.SentQueue]:
        """The queues of `QUEUES` whose deliveries are sent to other processes."""
        main = queueing.main_cluster(getattr(django_settings, "Q_CLUSTER", None))
        return queueing.sent_queues(self.queues, main_cluster=main)

    @property
    def reconcile_every(self) -> timedelta:
        """`RECONCILE_EVERY`, else a quarter of the lease."""
        return self.chosen_reconcile_every or self.lease_for / 4

    @property
    def logs_texts_of_failures(self) -> bool:
        """`LOG_FAILURES`, else false if failures are encrypted or hidden, since their texts quote payloads."""
        if self.chosen_log_failures is not None:
            return self.chosen_log_failures == "full"
        return not self.seals_failures and not self.redact_payloads

    @property
    def seals_failures(self) -> bool:
        """Whether texts of failures go through the codec: if there is one, and `PLAIN_FAILURES` is off."""
        return self.chosen_codec != JSON_CODEC and not self.plain_failures

    @cached_property
    def room(self) -> Room:
        """How far a history may grow."""
        return Room(self.max_history_events, self.max_history_bytes)

    def codec(self) -> Codec:
        """The codec of `CODEC`, with `MAX_PAYLOAD_BYTES`; the same object each time."""
        return self._codec

    @cached_property
    def _codec(self) -> JsonCodec:
        kind: type[JsonCodec] = import_string(self.chosen_codec)
        return kind(max_bytes=self.max_payload_bytes)


_CHOSEN = {
    "POLL_FOR": "chosen_poll_for",
    "RECONCILE_EVERY": "chosen_reconcile_every",
    "LOG_FAILURES": "chosen_log_failures",
    "CODEC": "chosen_codec",
}
"""Keys whose default depends on more than themselves, or that name something to be made."""

_IDS = {"CODEC": "durable.E003"}
_SECRET = frozenset({"ENCRYPTION_KEYS"})
"""Keys whose value no message holds."""


def problems() -> list[Problem]:
    """What is wrong with the project's `DURABLE`. An empty list: nothing."""
    chosen = getattr(django_settings, "DURABLE", {})
    if not isinstance(chosen, dict):
        return [Problem(f"DURABLE is {chosen!r}, not a dict.", "Write DURABLE = {...} in the project's settings.")]
    faults: list[Problem] = []
    for key, value in chosen.items():
        check = CHECKS.get(key)
        if check is None:
            close = difflib.get_close_matches(str(key).upper(), CHECKS, n=1)
            cure = f"Did you mean {close[0]!r}?" if close else f"The settings are {', '.join(CHECKS)}."
            faults.append(Problem(f"DURABLE[{key!r}] is not a setting.", cure, id="durable.E001"))
            continue
        try:
            check(value)
        except _Refused as refused:
            shown = "wrong (not shown)" if key in _SECRET else repr(value)
            cure = f"It has to be {refused}."
            faults.append(Problem(f"DURABLE[{key!r}] is {shown}.", cure, _IDS.get(key, "durable.E002")))
    return faults or [*_too_long(chosen), *_missed_by_codec(chosen)]


def _missed_by_codec(chosen: Mapping[str, Any]) -> list[Problem]:
    kind: type[JsonCodec] = import_string(chosen.get("CODEC", JSON_CODEC))
    fault = kind.fault(chosen)
    return [Problem(f"DURABLE['CODEC'] is {chosen['CODEC']!r}.", fault, _IDS["CODEC"])] if fault else []


def _too_long(chosen: Mapping[str, Any]) -> list[Problem]:
    """Time spans that are valid by themselves but longer than the lease, within which they have to pass."""
    lease = chosen.get("LEASE_FOR", Settings.lease_for)
    reasons = {"RECONCILE_EVERY": "a worker with so rare heartbeats would be taken for dead"}
    if not chosen.get("NOTIFY"):
        reasons["POLL_FOR"] = "an idle worker would look for work so rarely, and nothing else wakes it"
    return [
        Problem(
            f"DURABLE[{key!r}] is {chosen[key]!r}, longer than LEASE_FOR, which is {lease!r}: {reason}.",
            "Make it LEASE_FOR at most, or leave it out.",
        )
        for key, reason in reasons.items()
        if key in chosen and chosen[key] > lease
    ]


class _Current:
    """A read-only proxy of the settings in force."""

    def __init__(self) -> None:
        object.__setattr__(self, "_read", None)

    def __getattr__(self, name: str) -> Any:
        read = object.__getattribute__(self, "_read")
        return getattr(read if read is not None else self._load(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ConfigurationError(
            f"durable's settings are frozen: change {name} in DURABLE (in tests, with override_settings)."
        )

    def _load(self) -> Settings:
        wrong = problems()
        if wrong:
            raise ConfigurationError(" ".join(f"{problem.text} {problem.cure}" for problem in wrong))
        chosen: dict[str, Any] = getattr(django_settings, "DURABLE", {})
        read = Settings(**{_CHOSEN.get(key, key.lower()): value for key, value in chosen.items()})
        object.__setattr__(self, "_read", read)
        return read

    def forget(self, *, setting: str, **_extra: Any) -> None:
        """Receiver of Django's `setting_changed`: the settings are read again at their next use."""
        if setting in ("DURABLE", "DATABASES", "DATABASE_ROUTERS", "Q_CLUSTER"):
            object.__setattr__(self, "_read", None)


_current = _Current()
settings = cast(Settings, _current)
"""The settings in force. Reading raises `ConfigurationError` while `DURABLE` has problems."""

setting_changed.connect(_current.forget, dispatch_uid="durable.conf")
