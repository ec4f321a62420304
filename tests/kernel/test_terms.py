"""How an activity is to be run: the call speaks first, then its definition, then the settings."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from durable.kernel.definitions.options import (
    ActivityOptions,
    OnDeadLetter,
    OnExhausted,
    Terms,
    delivers_dead_letters,
    holds_when_exhausted,
    resolve,
)
from durable.kernel.definitions.retry import Retry

TWO, THREE, FOUR = (Retry(max_attempts=number) for number in (2, 3, 4))


@dataclass
class Definition:
    queue: str = "default"
    retry: Retry | None = None
    start_to_close: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    on_dead_letter: OnDeadLetter | None = None
    on_exhausted: OnExhausted = "fail"


@dataclass
class Settings:
    default_retry: Retry = FOUR
    on_dead_letter: OnDeadLetter = "hold"
    delivery_attempts: int = 8


DECLARED = Definition(
    queue="mail", retry=THREE, start_to_close=timedelta(seconds=3), on_dead_letter="deliver", on_exhausted="hold"
)


def resolved(chosen: ActivityOptions, definition: Definition | None, defaults: Settings | None = None) -> Terms:
    return resolve(chosen.as_data(), definition, defaults or Settings())


def test_what_the_call_chooses_outranks_its_definition_and_the_settings():
    chosen = ActivityOptions(
        queue="slow",
        priority=-1,
        retry=TWO,
        start_to_close=timedelta(seconds=2),
        on_dead_letter="hold",
        on_exhausted="fail",
    )
    terms = resolved(chosen, DECLARED, Settings(on_dead_letter="deliver", delivery_attempts=5))
    assert (terms.queue, terms.priority) == ("slow", -1)
    assert (terms.attempt_budget, terms.retry.as_data()) == (2, TWO.as_data())
    assert terms.start_to_close == timedelta(seconds=2)
    assert terms.delivery_budget == 5
    assert terms.options == {"retry": TWO.as_data(), "start_to_close": 2.0}


def test_the_definition_speaks_where_the_call_chooses_nothing():
    terms = resolved(ActivityOptions(), DECLARED)
    assert (terms.queue, terms.priority) == ("mail", None)
    assert (terms.retry, terms.attempt_budget) == (THREE, 3)
    assert terms.start_to_close == timedelta(seconds=3)
    assert terms.options == {"on_exhausted": "hold", "on_dead_letter": "deliver"}


@pytest.mark.parametrize("definition", [Definition(), None], ids=["declares nothing", "registered nowhere"])
def test_the_settings_speak_where_nobody_else_does(definition):
    terms = resolved(ActivityOptions(), definition, Settings(on_dead_letter="deliver", delivery_attempts=6))
    assert (terms.queue, terms.priority, terms.start_to_close) == ("default", None, None)
    assert (terms.retry, terms.delivery_budget) == (FOUR, 6)
    assert terms.options == {"on_dead_letter": "deliver"}


@pytest.mark.parametrize("setting", ["hold", "deliver"])
@pytest.mark.parametrize("declared", [None, "hold", "deliver"])
@pytest.mark.parametrize("chosen", [None, "hold", "deliver"])
def test_the_nearest_word_on_dead_letters_counts_and_the_row_can_be_asked(chosen, declared, setting):
    terms = resolved(
        ActivityOptions(on_dead_letter=chosen), Definition(on_dead_letter=declared), Settings(on_dead_letter=setting)
    )
    assert delivers_dead_letters(terms.options) == ((chosen or declared or setting) == "deliver")


@pytest.mark.parametrize("declared", ["fail", "hold"])
@pytest.mark.parametrize("chosen", [None, "fail", "hold"])
def test_the_nearest_word_on_spent_retries_counts_and_the_row_can_be_asked(chosen, declared):
    terms = resolved(ActivityOptions(on_exhausted=chosen), Definition(on_exhausted=declared))
    assert holds_when_exhausted(terms.options) == ((chosen or declared) == "hold")


def test_an_attempt_resolves_what_the_row_stores_and_a_policy_declared_since_then():
    """A deploy that changes the declared policy changes the next attempt; what the call chose stays."""
    own = resolved(
        ActivityOptions(retry=TWO, start_to_close=timedelta(seconds=2), heartbeat_timeout=timedelta(seconds=1)),
        DECLARED,
    ).options
    none = resolved(ActivityOptions(), DECLARED).options
    since = Definition(retry=FOUR, start_to_close=timedelta(seconds=4))
    assert resolve(own, since, Settings()).retry.as_data() == TWO.as_data()
    assert resolve(own, since, Settings()).start_to_close == timedelta(seconds=2)
    assert resolve(own, since, Settings()).heartbeat_timeout == timedelta(seconds=1)
    declared_later = Definition(heartbeat_timeout=timedelta(seconds=9))
    assert resolve({}, declared_later, Settings()).heartbeat_timeout == timedelta(seconds=9)
    assert resolve(none, since, Settings()).retry == FOUR
    assert resolve(none, since, Settings()).start_to_close == timedelta(seconds=4)


@pytest.mark.parametrize(
    "stored", [{"retry": {"max_attempts": 3}}, {"retry": []}, {"start_to_close": "soon"}, {"start_to_close": 1e300}]
)
def test_stored_options_that_cannot_be_read_are_not_passed_over(stored: dict[str, Any]):
    with pytest.raises((LookupError, TypeError, OverflowError)):
        resolve(stored, None, Settings())
