"""Lines in a project that has configured structlog: by its processors, to the standard library's handlers."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from durable import outbound
from durable.logs import get_logger
from tests.logs.records import Kept
from tests.waiting import Gate
from tests.worker.hearing import UPKEEP, unstructured

NAME = "durable.tests"


@pytest.fixture
def handler() -> Iterator[Kept]:
    """A handler on the logger of these tests."""
    logger, found = logging.getLogger(NAME), Kept()
    logger.addHandler(found)
    yield found
    logger.removeHandler(found)


@pytest.fixture
def configured() -> Iterator[Any]:
    """`configured(processors, **more)`; afterwards as before."""

    def configure(processors: list[Any], **more: Any) -> None:
        structlog.configure(processors=processors, **more)

    with unstructured():
        yield configure


def test_the_hosts_processors_make_the_text(handler: Kept, configured: Any) -> None:
    configured([structlog.stdlib.add_logger_name, structlog.processors.JSONRenderer(sort_keys=True)])
    get_logger(NAME).warning("order.lost", ordinal=3)
    assert handler.records[0].getMessage() == '{"event": "order.lost", "logger": "durable.tests", "ordinal": 3}'


def test_the_error_is_on_the_record_and_its_traceback_in_the_text_once(handler: Kept, configured: Any) -> None:
    configured([structlog.processors.format_exc_info, structlog.processors.JSONRenderer()])
    try:
        raise LookupError("gone")
    except LookupError as error:
        get_logger(NAME).error("order.lost", exc_info=error)
    [record] = handler.records
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError
    assert logging.Formatter().format(record).count("Traceback") == 1


def test_the_projects_own_settings_write_one_line_with_the_fields_once(handler: Kept, configured: Any) -> None:
    """With django-structlog and a `ProcessorFormatter`, as `project/settings.py` shows; reading it configures them."""
    project_settings = importlib.reload(importlib.import_module("project.settings"))
    assert structlog.is_configured()
    secret, number = "card 4711", 3
    try:
        raise LookupError(len(secret))
    except LookupError as error:
        get_logger(NAME).error("order.lost", ordinal=number * 1_000, exc_info=error)
    for name in ("console", "json"):
        options = dict(project_settings.LOGGING["formatters"][name])
        text = options.pop("()")(**options).format(handler.records[0])
        assert (text.count("order.lost"), text.count("3000")) == (1, 1)
        assert secret not in text
        assert text.count("timestamp") <= 1
        assert "LookupError" in text


def test_levels_that_the_host_filters_by_are_kept(handler: Kept, configured: Any) -> None:
    configured(
        [structlog.processors.JSONRenderer()], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR)
    )
    get_logger(NAME).warning("order.lost")
    get_logger(NAME).error("order.gone")
    assert [record.levelname for record in handler.records] == ["ERROR"]


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3)])
def test_a_processor_that_raises_costs_its_own_work_only(
    handler: Kept, configured: Any, error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(logger: Any, name: str, event: Any) -> Any:
        raise error

    configured([broken])
    get_logger(NAME).warning("order.lost", ordinal=3)
    assert handler.records[0].getMessage() == "order.lost ordinal=3"
    assert type(error).__name__ in capsys.readouterr().err


def test_a_processor_that_drops_a_line_has_dropped_it(handler: Kept, configured: Any) -> None:
    def drop(logger: Any, name: str, event: Any) -> Any:
        raise structlog.DropEvent

    configured([drop])
    get_logger(NAME).warning("order.lost")
    assert handler.records == []


def test_a_logger_for_async_code_loses_no_line(handler: Kept, configured: Any) -> None:
    configured([structlog.processors.JSONRenderer()], wrapper_class=structlog.stdlib.AsyncBoundLogger)
    get_logger(NAME).warning("order.lost")
    assert handler.records[0].getMessage() == "order.lost"


@pytest.mark.parametrize(
    ("stamper", "key"),
    [
        (structlog.processors.TimeStamper(fmt="iso", utc=True), "timestamp"),
        (structlog.processors.TimeStamper(fmt=None), "timestamp"),
        (structlog.processors.TimeStamper(fmt="%H:%M:%S.%f", utc=False, key="at"), "at"),
        (structlog.processors.MaybeTimeStamper(fmt="iso"), "timestamp"),
    ],
)
def test_a_line_that_waits_keeps_its_time_thread_and_context(
    handler: Kept, configured: Any, stamper: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that lines leave through is held up; what is said meanwhile is stamped with the moment of the call."""
    gate = Gate("handler")
    seen: list[dict[str, Any]] = []

    def note(logger: Any, name: str, event: Any) -> Any:
        seen.append(dict(event))
        return str(event["event"])

    def hold(logger: Any, name: str, event: Any) -> Any:
        if event["event"] == "first":
            gate.pass_through()
        return event

    configured([structlog.contextvars.merge_contextvars, hold, stamper, note])
    outbound.start(UPKEEP)
    try:
        get_logger(NAME).warning("first")
        gate.wait_for_arrival()
        with structlog.contextvars.bound_contextvars(request_id="r1"):
            monkeypatch.setattr("time.time", lambda: 86_400.25)
            get_logger(NAME).warning("second")
            monkeypatch.undo()
        gate.open()
    finally:
        outbound.stop(60)
    expected = {None: 86_400.25, "iso": "1970-01-02T00:00:00.250000Z"}
    found = getattr(stamper, "stamper", stamper)
    if found.fmt in expected:
        assert seen[1][key] == expected[found.fmt]
    else:
        assert seen[1][key].endswith(":00.250000")
    assert seen[1]["request_id"] == "r1"
    assert handler.records[1].created == 86_400.25
    assert handler.records[1].threadName == threading.current_thread().name


@pytest.mark.usefixtures("configured")
def test_structlogs_own_testing_sees_the_lines() -> None:
    with capture_logs() as entries:
        get_logger(NAME).info("order.found", ordinal=3)
    assert entries == [{"event": "order.found", "ordinal": 3, "log_level": "info"}]
