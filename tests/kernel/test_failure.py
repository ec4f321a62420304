"""Errors as text."""

from __future__ import annotations

import sys
import traceback
import tracemalloc

import pytest

from durable.errors import PayloadError
from durable.kernel.definitions.retry import Retry
from durable.kernel.limits import MAX_FAILURE_MESSAGE, MAX_TRACEBACK
from durable.kernel.texts import failure
from tests import hostile


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
    """Faults P4."""

    def fail():
        raise KeyError("order 42")

    told = failure.describe(caught(fail))
    assert told.type == "KeyError"
    assert told.message == "'order 42'"
    assert 'raise KeyError("order 42")' in told.traceback
    assert failure.describe(PayloadError("x", "y", "z")).type == "durable.errors.PayloadError"


def test_an_error_that_can_not_be_told_or_rebuilt_is_still_told():
    """Faults P4, P5."""

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
    assert "kernel/definitions/retry.py" not in told.traceback
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
        error = ValueError("x" * 100_000)
        error.add_note("y" * 9_500)
        raise error

    told = failure.describe(caught(lambda: deep(3)))
    assert len(told.message) < MAX_FAILURE_MESSAGE + 100
    assert "90,000 more characters" in told.message
    assert len(told.traceback) < MAX_TRACEBACK + 100
    assert told.traceback.startswith("(")
    assert told.traceback.endswith("yyy\n")


def test_a_long_message_does_not_push_the_frames_out_of_the_traceback():
    def fail():
        raise ValueError("x" * 100_000)

    assert "raise ValueError" in failure.describe(caught(fail)).traceback


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


@pytest.mark.parametrize("kind", sorted(hostile.ERRORS))
def test_whatever_an_error_does_it_is_described_and_nothing_gets_out(kind):
    raised = hostile.ERRORS[kind]()

    def fail():
        raise raised

    told = failure.describe(caught_silently(fail))
    assert type(told.type) is type(told.message) is type(told.traceback) is str
    assert told.type
    assert len(told.message) < MAX_FAILURE_MESSAGE + 100
    assert len(told.traceback) < MAX_TRACEBACK + 100
    assert "raise raised" in told.traceback or told.traceback.startswith("(")
    for text in (told.type, told.message, told.traceback, failure.sentence(raised)):
        assert "\0" not in text
        text.encode("utf-8")
    assert len(failure.sentence(raised)) < 1_000


@pytest.mark.parametrize("kind", sorted(hostile.ERRORS))
def test_what_a_log_gets_of_an_error_is_a_plain_one_of_the_same_name_and_text(kind):
    raised = hostile.ERRORS[kind]()

    def fail():
        raise raised

    error = caught_silently(fail)
    told = failure.for_log(error)
    written = "".join(traceback.format_exception(told))
    assert failure.describe(error).type.rpartition(".")[2] in written
    assert str(told) == failure.describe(error).message
    assert told


def caught_silently(raiser):
    """As `caught`, for errors that pytest itself can not look at."""
    try:
        raiser()
    except BaseException as error:
        return error
    raise AssertionError


def test_the_places_of_frames_are_told_where_reading_their_source_raises():
    told = failure.describe(hostile.ERRORS["source"]())
    assert 'File "/from/nowhere.py", line 2, in fail' in told.traceback
    assert failure.for_log(hostile.ERRORS["source"]()).__traceback__ is None


def test_members_of_a_hostile_group_are_told_each():
    group = hostile.Group("all", [ValueError("first"), hostile.silent(SystemExit)()])  # type: ignore[list-item]
    told = failure.describe(group)
    assert "ValueError: first" in told.traceback
    assert "SilentSystemExit: <str() of this error raised SystemExit>" in told.traceback


def test_a_message_of_a_hundred_megabytes_is_not_copied():
    error = ValueError("x" * 100_000_000)
    tracemalloc.start()
    try:
        told = failure.describe(error)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert told.message.endswith("(99,990,000 more characters)")


def test_a_long_chain_of_causes_is_told_from_its_end_and_not_followed_for_ever():
    told = failure.describe(hostile.deep(100_000))
    assert told.traceback.count("direct cause") == 49
    assert "earlier errors" in told.traceback


def test_a_group_of_very_many_errors_is_told_in_part():
    group: Exception = ValueError("leaf")
    for _ in range(4):
        group = ExceptionGroup("wide", [ExceptionGroup("", [group, ValueError(number)]) for number in range(12)])
    assert len(failure.describe(group).traceback) < MAX_TRACEBACK + 100


def test_ctrl_c_is_told_from_an_error_of_the_users_code():
    def raises():
        raise KeyboardInterrupt

    assert not failure.interrupts(caught(raises))
    assert not failure.interrupts(SystemExit())
    assert failure.interrupts(KeyboardInterrupt())
