"""Tracebacks of the engine's lines tell no values: not of its own variables, and not of the handlers'."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import structlog
from structlog.tracebacks import ExceptionDictTransformer

import durable
from durable import testing
from durable.kernel.definitions.registry import registry
from durable.kernel.texts.standins import stand_in
from durable.logs import get_logger
from tests.logs.records import NAME, Kept
from tests.worker.hearing import unstructured

SECRET = "card-4711-4711"

RENDERERS: dict[str, list[Any]] = {
    "console as it is by default": [structlog.dev.ConsoleRenderer(colors=False)],
    "rich with variables": [
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.RichTracebackFormatter(show_locals=True)
        )
    ],
    "dict_tracebacks": [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()],
    "dicts with variables": [
        structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=True)),
        structlog.processors.JSONRenderer(),
    ],
    "plain": [structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer()],
}


@pytest.fixture
def handler() -> Iterator[Kept]:
    logger, found = logging.getLogger("durable"), Kept()
    before = logger.level
    logger.addHandler(found)
    logger.setLevel(logging.DEBUG)
    with unstructured():
        yield found
    logger.removeHandler(found)
    logger.setLevel(before)


def fail_deep_down(card: str) -> None:
    held = {"card": card}
    try:
        raise KeyError(len(held))
    except KeyError as error:
        raise ExceptionGroup("both", [ValueError("one"), raised(card)]) from error


def raised(card: str) -> Exception:
    copied = card * 2
    try:
        raise LookupError(len(copied))
    except LookupError as error:
        return error


@pytest.mark.parametrize("name", RENDERERS)
def test_a_structlog_at_its_defaults_prints_no_variables(handler: Kept, name: str) -> None:
    structlog.configure(processors=RENDERERS[name])
    with pytest.raises(ExceptionGroup) as caught:
        fail_deep_down(SECRET)
    get_logger(NAME).error("order.lost", exc_info=caught.value)
    found = handler.records[0].exc_info
    assert found is not None
    assert found[1] is caught.value, "whoever takes errors from records gets the error itself"
    text = handler.records[0].getMessage()
    assert SECRET not in text
    for part in ("ExceptionGroup", "KeyError", "fail_deep_down", "test_values_stay_out.py"):
        assert part in text
    if "raised" in text:
        assert "LookupError" in text


def test_a_stand_in_tells_the_places_as_they_are() -> None:
    try:
        fail_deep_down(SECRET)
    except ExceptionGroup as error:
        found, made = error, stand_in(error)
    places = []
    for one in (found, made):
        trace, own = one.__traceback__, []
        while trace is not None:
            code = trace.tb_frame.f_code
            own.append((code.co_filename, trace.tb_lineno, code.co_name))
            trace = trace.tb_next
        places.append(own)
    assert places[0] == places[1]
    assert made.__traceback__ is not None
    assert made.__traceback__.tb_frame.f_locals == {}
    assert isinstance(made.__cause__, Exception)
    assert type(made.__cause__).__name__ == "KeyError"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["console as it is by default", "dict_tracebacks", "no structlog"])
def test_no_payload_reaches_a_line_of_the_engines(handler: Kept, name: str) -> None:
    """Arguments, results, signals and heartbeats of a whole run with failures, at DEBUG; only what an error says of
    itself is there.
    """
    with registry.isolated():

        @durable.activity(name="quiet.charge", retry=durable.Retry(max_attempts=2, first=timedelta(seconds=1)))
        def charge(card: str) -> str:
            info = durable.activity_info()
            info.heartbeat({"card": card})
            if info.attempt == 1:
                raise ConnectionError("the bank is closed")
            return card

        @durable.activity(name="quiet.refuse", retry=durable.Retry(max_attempts=1))
        def refuse(card: str) -> str:
            inner = [card]
            try:
                raise LookupError(len(inner))
            except LookupError as error:
                raise ConnectionError("refused") from error

        @durable.activity(name="quiet.hold", retry=durable.Retry(max_attempts=1), on_exhausted="hold")
        async def hold(card: str) -> str:
            raise ConnectionError("held")

        @durable.workflow(name="quiet.pay")
        async def pay(card: str) -> str:
            sent = await durable.wait_for_signal("card", as_type=str)
            return await charge.execute(card) + sent

        @durable.workflow(name="quiet.fail")
        async def fail(card: str) -> None:
            await charge.execute(card)
            raise ConnectionError("the code")

        @durable.workflow(name="quiet.lean")
        async def lean(card: str) -> None:
            await refuse.execute(card)

        if name != "no structlog":
            structlog.configure(processors=RENDERERS[name])
        handles: list[Any] = [pay.start(SECRET), fail.start(SECRET), lean.start(SECRET)]
        singles: list[Any] = [refuse.enqueue(SECRET), hold.enqueue(SECRET), charge.enqueue(SECRET)]
        with testing.freeze():
            testing.drain()
            handles[0].signal("card", SECRET)
            handles[1].signal("nobody", SECRET)
            testing.drain(until=timedelta(hours=1))
        assert handles[0].result(timeout=0) == SECRET * 2
        assert {handle.status().value for handle in (*handles[1:], singles[0])} == {"failed"}
    out = io.StringIO()
    writer = logging.StreamHandler(out)
    for record in handler.records:
        writer.handle(record)
    assert "the bank is closed" in out.getvalue()
    assert "quiet.refuse" in out.getvalue()
    assert SECRET not in out.getvalue()
    assert not any(SECRET in repr({**vars(record), "exc_info": None}) for record in handler.records)
