"""Records of the standard library, in a project that has configured neither structlog nor tracebacks."""

from __future__ import annotations

import copy
import json
import logging
import logging.handlers
import pickle
import queue
import threading
import uuid
from typing import Any

import pytest
import structlog

from durable.logs import get_logger
from tests.logs.records import NAME, Kept
from tests.worker.hearing import listening


def test_the_event_is_the_message_and_the_fields_are_attributes(kept: Kept) -> None:
    get_logger(NAME).warning("order.lost", workflow="w", ordinal=3, error="no money left")
    [record] = kept.records
    assert (record.msg, record.levelno, record.name, record.args) == ("order.lost", logging.WARNING, NAME, ())
    assert {name: vars(record)[name] for name in ("workflow", "ordinal", "error")} == {
        "workflow": "w",
        "ordinal": 3,
        "error": "no money left",
    }


def test_the_text_has_each_field_once_and_no_second_time_stamp(kept: Kept) -> None:
    get_logger(NAME).warning("order.lost", workflow="w", ordinal=3, error="no money left")
    text = logging.Formatter("%(levelname)s %(message)s").format(kept.records[0])
    assert text == "WARNING order.lost workflow=w ordinal=3 error='no money left'"


def test_a_queue_handler_of_the_host_does_not_say_the_fields_twice(kept: Kept) -> None:
    get_logger(NAME).warning("order.lost", ordinal=3)
    sent: queue.Queue[logging.LogRecord] = queue.Queue()
    logging.handlers.QueueHandler(sent).handle(kept.records[0])
    assert sent.get_nowait().getMessage() == "order.lost ordinal=3"


def test_a_record_may_be_copied_and_pickled(kept: Kept) -> None:
    get_logger(NAME).warning("order.lost", ordinal=3)
    for again in (copy.copy(kept.records[0]), pickle.loads(pickle.dumps(kept.records[0]))):
        assert again.getMessage() == "order.lost ordinal=3"


def test_a_record_says_where_and_by_which_thread_it_was_said(kept: Kept) -> None:
    get_logger(NAME).warning("order.lost")
    [record] = kept.records
    assert record.filename == "test_records.py"
    assert record.funcName == "test_a_record_says_where_and_by_which_thread_it_was_said"
    assert (record.thread, record.threadName) == (threading.get_ident(), threading.current_thread().name)


def test_a_record_has_the_error_of_the_call(kept: Kept) -> None:
    error = LookupError("gone")
    get_logger(NAME).error("order.lost", exc_info=error)
    assert kept.records[0].exc_info == (LookupError, error, None)
    assert "exc_info" not in kept.records[0].getMessage()


@pytest.mark.usefixtures("unconfigured")
def test_a_traceback_is_plain_text_and_tells_no_values(caplog: pytest.LogCaptureFixture) -> None:
    """Of local variables, that is: payloads are among them, and who reads logs may not read payloads."""
    secret = "card 4711"
    with caplog.at_level(logging.ERROR, NAME):
        try:
            raise LookupError(len(secret))
        except LookupError:
            get_logger(NAME).exception("went_wrong", workflow="w")
    assert "went_wrong" in caplog.text
    assert "workflow=w" in caplog.text
    assert "Traceback (most recent call last):" in caplog.text
    assert secret not in caplog.text


class Rude:
    """Its text raises what is no exception."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


@pytest.mark.parametrize("value", [Rude(), [Rude()], {"a": Rude()}])
def test_a_value_whose_text_raises_stops_nothing(kept: Kept, value: Any) -> None:
    get_logger(NAME).warning("order.lost", value=value, ordinal=3)
    assert "ordinal=3" in kept.records[0].getMessage()


def test_values_are_made_plain_at_the_call(kept: Kept) -> None:
    owner = uuid.UUID(int=7)
    names = ["a"]
    get_logger(NAME).warning("order.lost", workflow=owner, names=names)
    names.append("b")
    assert json.dumps([vars(kept.records[0])[name] for name in ("workflow", "names")]) == f'["{owner}", ["a"]]'


def test_a_field_cannot_begin_a_line_of_its_own(kept: Kept) -> None:
    get_logger(NAME).warning("order.lost", error="no\nERROR all is lost\x1b[2J")
    assert "\n" not in kept.records[0].getMessage()
    assert "\x1b" not in kept.records[0].getMessage()


def test_a_field_named_as_an_attribute_of_records_is_not_in_its_way(kept: Kept) -> None:
    get_logger(NAME).warning("order.lost", name="shop", message="m")
    assert kept.records[0].name == NAME
    assert kept.records[0].getMessage() == "order.lost name=shop message=m"


def test_bound_fields_are_said_with_each_line(kept: Kept) -> None:
    get_logger(NAME).bind(workflow="w").info("order.found", ordinal=1)
    assert kept.records[0].getMessage() == "order.found workflow=w ordinal=1"


def test_context_variables_of_structlog_are_fields(kept: Kept) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        get_logger(NAME).warning("order.lost")
    assert kept.records[0].getMessage() == "order.lost request_id=r1"


def test_a_line_that_nobody_wants_looks_at_no_value(kept: Kept) -> None:
    class Seen:
        looks = 0

        def __str__(self) -> str:
            Seen.looks += 1
            return ""

    logging.getLogger(NAME).setLevel(logging.WARNING)
    get_logger(NAME).debug("order.found", value=Seen())
    get_logger(NAME).info("order.found", value=Seen())
    assert (kept.records, Seen.looks) == ([], 0)


def test_a_record_factory_of_the_host_makes_the_records(kept: Kept) -> None:
    class Own(logging.LogRecord):
        pass

    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(Own)
    try:
        get_logger(NAME).warning("order.lost", ordinal=3)
    finally:
        logging.setLogRecordFactory(before)
    assert type(kept.records[0]) is Own
    assert kept.records[0].getMessage() == "order.lost ordinal=3"


class Raising(logging.Handler):
    """Raises what it was made with."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def emit(self, record: logging.LogRecord) -> None:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3), MemoryError()])
def test_a_handler_that_raises_stops_nobody_and_is_named_on_stderr(
    kept: Kept, error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = Raising(error)
    logging.getLogger(NAME).addHandler(handler)
    try:
        get_logger(NAME).warning("order.lost")
    finally:
        logging.getLogger(NAME).removeHandler(handler)
    assert f"the log line 'order.lost' was lost: what takes it raised {type(error).__name__}" in capsys.readouterr().err


def test_a_ctrl_c_during_a_line_passes(kept: Kept) -> None:
    """Of the main thread, that is: somebody wants the process to end."""
    handler = Raising(KeyboardInterrupt())
    logging.getLogger(NAME).addHandler(handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            get_logger(NAME).warning("order.lost")
    finally:
        logging.getLogger(NAME).removeHandler(handler)


def test_a_context_variable_that_can_not_be_read_loses_no_line() -> None:
    """What the host binds is any object, and may be a lazy one."""

    class Unreadable:
        def __str__(self) -> str:
            raise SystemExit

        __repr__ = __str__

    structlog.contextvars.bind_contextvars(user=Unreadable())
    try:
        with listening(lambda record: record.getMessage(), name="durable.tests") as ear:
            get_logger("durable.tests").warning("order.lost")
    finally:
        structlog.contextvars.clear_contextvars()
    [record] = ear.records
    assert record.getMessage() == "order.lost user='<str() of this object raised SystemExit>'"
