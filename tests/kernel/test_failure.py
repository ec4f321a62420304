"""Errors as text."""

from __future__ import annotations

import sys

import pytest

from durable.errors import PayloadError
from durable.kernel import failure
from durable.kernel.limits import MAX_FAILURE_MESSAGE, MAX_TRACEBACK
from durable.kernel.retry import Retry


class Unspeakable(Exception):
    """An error whose text can not be had, and whose class can not be called twice."""

    def __init__(self, one, two):
        super().__init__()

    def __str__(self):
        raise RuntimeError("no words")


def caught(raiser):
    with pytest.raises(BaseException) as info:
        raiser()
    return info.value


def test_type_message_and_traceback_are_those_of_the_original():
    """BUGLOG P4."""

    def fail():
        raise KeyError("order 42")

    told = failure.describe(caught(fail))
    assert told.type == "KeyError"
    assert told.message == "'order 42'"
    assert 'raise KeyError("order 42")' in told.traceback
    assert failure.describe(PayloadError("x", "y", "z")).type == "durable.errors.PayloadError"


def test_an_error_that_can_not_be_told_or_rebuilt_is_still_told():
    """BUGLOG P4, P5."""

    def fail():
        raise Unspeakable(1, 2)

    told = failure.describe(caught(fail))
    assert told.type.endswith("Unspeakable")
    assert "RuntimeError" in told.message
    assert "raise Unspeakable(1, 2)" in told.traceback


def test_the_engines_own_frames_are_left_out_causes_and_groups_included():
    def fail():
        try:
            Retry(max_attempts=0)
        except Exception as inner:
            raise ExceptionGroup("both", [inner]) from inner

    told = failure.describe(caught(fail))
    assert "max_attempts" in told.traceback
    assert "kernel/retry.py" not in told.traceback
    assert "test_failure.py" in told.traceback


def test_text_that_no_database_takes_is_written_as_escapes():
    told = failure.describe(ValueError("a\0b\ud800c"))
    assert told.message == "a\\x00b\\ud800c"
    assert "\0" not in told.traceback
    told.traceback.encode("utf-8")


def test_long_texts_are_cut_and_the_end_of_the_traceback_is_kept():
    def deep(level):
        if level:
            deep(level - 1)
            # keeps the frames from being folded together
        raise ValueError("x" * 100_000)

    told = failure.describe(caught(lambda: deep(3)))
    assert len(told.message) < MAX_FAILURE_MESSAGE + 100
    assert "90,000 more characters" in told.message
    assert len(told.traceback) < MAX_TRACEBACK + 100
    assert told.traceback.startswith("(")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RecursionError("deep")])
def test_errors_that_end_programs_are_told_like_any_other(error):
    assert failure.describe(error).type == type(error).__name__


def test_a_loop_of_causes_ends():
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__context__ = two, one
    assert "one" in failure.describe(one).traceback


def test_errors_of_the_main_module_go_without_its_name(monkeypatch):
    monkeypatch.setattr(Unspeakable, "__module__", "__main__")
    assert failure.type_name(Unspeakable) == "Unspeakable"
    assert sys.modules["__main__"]
