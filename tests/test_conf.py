"""The settings: lazily read, frozen, followed, and refused by name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from durable import Retry
from durable.conf import CHECKS, problems
from durable.conf import settings as current
from durable.errors import ConfigurationError
from durable.kernel.codec import JsonCodec
from durable.kernel.payloads.birthplace import NOWHERE
from tests.settings import VENDOR


class Untold(JsonCodec):
    """A codec as it was written before hooks were told the birthplace."""

    def unwrap(self, text):  # type: ignore[override]
        return text


class Shouting(JsonCodec):
    """A codec of the project's own."""

    def wrap(self, text, birthplace):
        return text.upper()


def test_the_defaults_are_those_of_the_design(settings):
    settings.DURABLE = {}
    assert current.lease_for == timedelta(seconds=60)
    assert current.grace_for == timedelta(seconds=30)
    assert current.poll_for == timedelta(seconds=0.02 if VENDOR == "sqlite" else 0.25)
    assert current.delivery_attempts == 8
    assert current.delivery_backoff == (timedelta(seconds=1), 4.0, timedelta(minutes=15))
    assert current.default_retry == Retry()
    assert (current.rearm_per_second, current.redrive_per_second) == (200, 50)
    assert current.reconcile_every == timedelta(seconds=15)
    assert current.unknown_handler_for == timedelta(minutes=5)
    assert current.on_dead_letter == "hold"
    assert (current.concurrency, current.cached_workflows) == (16, 2000)
    assert (current.max_payload_bytes, current.max_history_events, current.max_key_length) == (2**20, 50_000, 200)
    assert (current.max_history_bytes, current.max_unread_signals, current.max_unread_bytes) == (
        50 * 2**20,
        10_000,
        50 * 2**20,
    )
    assert (current.turn_cpu_for, current.turn_poison_limit) == (timedelta(seconds=2), 3)
    assert (current.queues, current.notify, current.redact_payloads) == ({}, False, False)
    assert current.reset_connections is True
    assert type(current.codec()) is JsonCodec
    assert current.codec() is current.codec()
    assert current.database_alias == "default"


def test_a_change_is_followed(settings):
    settings.DURABLE = {"LEASE_FOR": timedelta(seconds=8), "POLL_FOR": timedelta(seconds=1)}
    assert (current.lease_for, current.reconcile_every) == (timedelta(seconds=8), timedelta(seconds=2))
    assert current.poll_for == timedelta(seconds=1)
    settings.DURABLE = {"RECONCILE_EVERY": timedelta(seconds=3), "CODEC": f"{__name__}.Shouting"}
    assert current.lease_for == timedelta(seconds=60)
    assert current.reconcile_every == timedelta(seconds=3)
    assert current.codec().encode("a", str, path="x", birthplace=NOWHERE) == '"A"'
    settings.DURABLE = {}
    assert type(current.codec()) is JsonCodec


def test_the_payload_limit_reaches_the_codec(settings):
    settings.DURABLE = {"MAX_PAYLOAD_BYTES": 12}
    codec = current.codec()
    assert isinstance(codec, JsonCodec)
    assert codec.max_bytes == 12


def test_settings_can_not_be_set_by_hand():
    with pytest.raises(ConfigurationError, match="change lease_for in DURABLE"):
        current.lease_for = timedelta(seconds=1)  # type: ignore[misc]


WRONG: list[tuple[str, Any, str]] = [
    ("DATABASE", "nowhere", "an alias of DATABASES ('default')"),
    ("DATABASE", 3, "an alias of DATABASES"),
    ("LEASE_FOR", 60, "timedelta above zero"),
    ("LEASE_FOR", timedelta(), "timedelta above zero"),
    ("LEASE_FOR", timedelta.max, "365,000 days at most"),
    ("LEASE_FOR", timedelta(milliseconds=999), "1 s at least"),
    ("LEASE_FOR", timedelta(seconds=-60), "timedelta above zero"),
    ("POLL_FOR", timedelta(), "timedelta above zero"),
    ("RECONCILE_EVERY", timedelta(seconds=-1), "timedelta above zero"),
    ("TURN_CPU_FOR", timedelta(), "timedelta above zero"),
    ("UNKNOWN_HANDLER_FOR", timedelta(seconds=-1), "zero or more"),
    ("DELIVERY_BACKOFF", (timedelta(seconds=9), 2.0, timedelta(seconds=1)), "cap that is not shorter"),
    ("GRACE_FOR", timedelta.max, "365,000 days at most"),
    ("DELIVERY_BACKOFF", (timedelta.max, 4.0, timedelta.max), "a tuple (first"),
    ("GRACE_FOR", timedelta(seconds=-1), "zero or more"),
    ("POLL_FOR", None, "timedelta above zero"),
    ("DELIVERY_ATTEMPTS", 0, "whole number from 1"),
    ("DELIVERY_ATTEMPTS", "8", "whole number"),
    ("DELIVERY_BACKOFF", timedelta(seconds=1), "a tuple (first"),
    ("DELIVERY_BACKOFF", (1, 4.0, 15), "a tuple (first"),
    ("DELIVERY_BACKOFF", (timedelta(seconds=1), 0.5, timedelta(seconds=9)), "a tuple (first"),
    ("DEFAULT_RETRY", 5, "durable.Retry"),
    ("REARM_PER_SECOND", 0, "above zero, or None"),
    ("REDRIVE_PER_SECOND", "fast", "above zero, or None"),
    ("RECONCILE_EVERY", 15, "timedelta"),
    ("UNKNOWN_HANDLER_FOR", 300, "timedelta"),
    ("ON_DEAD_LETTER", "drop", "'hold' or 'deliver'"),
    ("CONCURRENCY", True, "whole number"),
    ("CACHED_WORKFLOWS", -1, "whole number"),
    ("CACHED_WORKFLOWS", 0, "from 1 to"),
    ("START_WAIT_FOR", 60, "timedelta of zero or more"),
    ("START_WAIT_FOR", timedelta(seconds=-1), "timedelta of zero or more"),
    ("MAX_PAYLOAD_BYTES", 1.5, "whole number"),
    ("MAX_HISTORY_EVENTS", 0, "whole number"),
    ("MAX_HISTORY_BYTES", 0, "whole number"),
    ("MAX_UNREAD_SIGNALS", True, "whole number"),
    ("MAX_UNREAD_BYTES", 1.5, "whole number"),
    ("MAX_KEY_LENGTH", 1001, "from 1 to 1,000"),
    ("TURN_CPU_FOR", 2, "timedelta"),
    ("TURN_POISON_LIMIT", 0, "whole number"),
    ("QUEUES", ["default"], "a dict"),
    ("QUEUES", {"": {}}, "empty"),
    ("QUEUES", {"slow": {"transport": "smoke"}}, "of 'slow', 'transport' is 'smoke'"),
    ("NOTIFY", 1, "True or False"),
    ("REDACT_PAYLOADS", None, "True or False"),
    ("RECORD_VIEWS", 1, "True or False"),
    ("ADMIN_SCOPE", 7, "dotted path"),
    ("ADMIN_SCOPE", "nothing", "dotted path"),
    ("RESET_CONNECTIONS", None, "True or False"),
    ("PLAIN_FAILURES", 1, "True or False"),
    ("LOG_FAILURES", "none", "'full' or 'type'"),
    ("HIDDEN_FIELDS", "pin", "a tuple of names"),
    ("READ_UNENCRYPTED", 1, "True or False"),
    ("CODEC", "nowhere.Codec", "can be imported"),
    ("CODEC", "durable.kernel.definitions.retry.Retry", "subclass of durable.kernel.codec.JsonCodec"),
    ("CODEC", JsonCodec, "dotted path"),
    ("CODEC", f"{__name__}.Untold", "`def unwrap(self, text, birthplace)`"),
]


@pytest.mark.parametrize(("key", "value", "wanted"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_value_is_refused_with_key_value_and_what_it_may_be(settings, key, value, wanted):
    settings.DURABLE = {key: value}
    (problem,) = problems()
    assert f"DURABLE['{key}'] is {value!r}" in problem.text
    assert wanted in problem.cure
    assert problem.id == ("durable.E003" if key == "CODEC" else "durable.E002")
    with pytest.raises(ConfigurationError, match=key):
        _ = current.lease_for


@pytest.mark.parametrize("lease", [None, timedelta(seconds=5)])
@pytest.mark.parametrize("key", ["RECONCILE_EVERY", "POLL_FOR"])
def test_a_span_that_is_longer_than_the_lease_in_which_it_has_to_pass_is_refused_with_both(settings, key, lease):
    """A worker that gives a sign, or looks for work, so rarely is taken for dead."""
    settings.DURABLE = {key: timedelta(minutes=2), **({} if lease is None else {"LEASE_FOR": lease})}
    (problem,) = problems()
    assert f"DURABLE['{key}'] is {timedelta(minutes=2)!r}, longer than LEASE_FOR" in problem.text
    assert repr(lease or timedelta(seconds=60)) in problem.text
    assert problem.cure == "Make it LEASE_FOR at most, or leave it out."
    with pytest.raises(ConfigurationError, match=key):
        _ = current.lease_for


def test_every_setting_has_its_refusal_tested():
    told_by_other_words = {"ENCRYPTION_KEYS"}  # see tests/crypto/test_codec.py: no message holds its value
    assert {key for key, _, _ in WRONG} == set(CHECKS) - told_by_other_words


@pytest.mark.parametrize(
    ("key", "cure"), [("LEASE_FRO", "'LEASE_FOR'"), ("lease_for", "'LEASE_FOR'"), ("Q", "DATABASE")]
)
def test_an_unknown_setting_is_refused_with_the_closest_one(settings, key, cure):
    settings.DURABLE = {key: 1}
    (problem,) = problems()
    assert repr(key) in problem.text
    assert cure in problem.cure
    with pytest.raises(ConfigurationError, match=key):
        current.codec()


def test_what_is_no_dict_is_refused(settings):
    settings.DURABLE = ["LEASE_FOR"]
    assert [problem.id for problem in problems()] == ["durable.E002"]


@pytest.mark.parametrize(
    "given",
    [
        {"REARM_PER_SECOND": None, "REDRIVE_PER_SECOND": 0.5},
        {"QUEUES": {"slow": {}, "fast": {"transport": "database"}}},
        {"DATABASE": None, "GRACE_FOR": timedelta(), "UNKNOWN_HANDLER_FOR": timedelta()},
        {"DATABASE": "default", "DEFAULT_RETRY": Retry(max_attempts=1)},
        {"LEASE_FOR": timedelta(seconds=1), "POLL_FOR": timedelta(seconds=1), "RECONCILE_EVERY": timedelta(seconds=1)},
        {"POLL_FOR": timedelta(hours=1), "NOTIFY": True},
        {"LEASE_FOR": timedelta(seconds=5), "GRACE_FOR": timedelta(hours=1)},
        {"DELIVERY_BACKOFF": (timedelta(), 1.0, timedelta())},
    ],
    ids=range(8),
)
def test_values_at_the_edge_are_taken(settings, given):
    settings.DURABLE = given
    assert problems() == []
    assert current.database_alias == "default"


OWN = f"{__name__}.Shouting"


@pytest.mark.parametrize(
    ("given", "in_lines", "sealed"),
    [
        ({}, True, False),
        ({"CODEC": OWN}, False, True),
        ({"CODEC": OWN, "PLAIN_FAILURES": True}, True, False),
        ({"CODEC": OWN, "PLAIN_FAILURES": True, "LOG_FAILURES": "type"}, False, False),
        ({"CODEC": OWN, "LOG_FAILURES": "full"}, True, True),
        ({"REDACT_PAYLOADS": True, "PLAIN_FAILURES": True}, False, False),
    ],
)
def test_what_errors_said_is_plain_in_lines_where_it_is_plain_in_the_database(
    settings: Any, given: dict[str, Any], in_lines: bool, sealed: bool
) -> None:
    settings.DURABLE = given
    assert (current.logs_texts_of_failures, current.seals_failures) == (in_lines, sealed)
