"""The retry policy: how long, how often, and for what."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.errors import ConfigurationError, PayloadError
from durable.kernel.definitions.retry import Retry

STILL = Retry(jitter=0.0, max_attempts=1000)


def test_the_defaults_are_those_of_the_design():
    assert Retry() == Retry(
        max_attempts=5,
        first=timedelta(seconds=1),
        factor=2.0,
        cap=timedelta(minutes=5),
        jitter=0.2,
        no_retry=(ValueError,),
    )


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (100, 300), (100_000, 300)]
)
def test_waits_double_up_to_the_cap_however_many_attempts_there_were(attempt, seconds):
    assert STILL.delay(attempt, random.Random(1)) == timedelta(seconds=seconds)


@given(st.integers(1, 200), st.integers())
def test_jitter_stays_within_its_share_of_the_wait(attempt, seed):
    undisturbed = STILL.delay(attempt, random.Random(0))
    wait = Retry().delay(attempt, random.Random(seed))
    assert undisturbed * 0.8 <= wait <= undisturbed * 1.2


def test_a_thousand_errors_of_one_moment_are_spread_over_a_fifth_of_the_wait():
    """Faults O7."""
    rng = random.Random(7)
    waits = [Retry().delay(5, rng) for _ in range(1000)]
    assert max(waits) - min(waits) >= timedelta(seconds=16) * 0.2


def test_a_zero_first_wait_is_no_wait():
    assert Retry(first=timedelta(), jitter=0.0).delay(9, random.Random(1)) == timedelta()


def test_an_error_is_given_up_by_its_class_and_by_its_parents_class():
    assert Retry().gives_up(ValueError)
    assert Retry().gives_up(PayloadError)
    assert not Retry().gives_up(KeyError)
    assert not Retry(no_retry=()).gives_up(ValueError)


def test_stored_as_plain_data_it_comes_back_and_knows_its_errors_by_name():
    policy = Retry(max_attempts=3, first=timedelta(milliseconds=250), no_retry=(PayloadError, LookupError))
    stored = policy.as_data()
    assert stored["no_retry"] == ["durable.errors.PayloadError", "builtins.LookupError"]
    again = Retry.from_data(stored)
    assert again.as_data() == stored
    assert again.first == timedelta(milliseconds=250)
    assert again.gives_up(PayloadError)
    assert again.gives_up(KeyError)
    assert not again.gives_up(OSError)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", True),
        ("max_attempts", 2.0),
        ("max_attempts", 2**31),
        ("first", 1),
        ("first", timedelta(seconds=-1)),
        ("first", timedelta.max),
        ("cap", timedelta.max),
        ("cap", None),
        ("factor", 0.5),
        ("factor", float("nan")),
        ("factor", float("inf")),
        ("factor", "2"),
        ("jitter", 1.1),
        ("jitter", -0.1),
        ("no_retry", [ValueError]),
        ("no_retry", (int,)),
        ("no_retry", ValueError),
    ],
)
def test_an_impossible_policy_is_refused_with_its_field_and_value(field, value):
    with pytest.raises(ConfigurationError) as caught:
        Retry(**{field: value})
    assert field in str(caught.value)
    assert repr(value) in str(caught.value)


def test_without_a_limit_the_policy_is_stored_as_null_and_read_back():
    unlimited = Retry(max_attempts=None)
    assert unlimited.as_data()["max_attempts"] is None
    assert Retry.from_data(unlimited.as_data()).max_attempts is None
