"""What somebody has sent, and an error quotes, writes no line of a log and steers no terminal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from durable.kernel.loop import lines as of_workflow_code
from durable.kernel.texts.failure import without_frames
from durable.logs import get_logger
from tests.hostile import ERRORS, made
from tests.logs.records import NAME, Kept
from tests.worker.hearing import unstructured

BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
FORGED = "".join(f"{char}2026-01-01 00:00:00 CRITICAL root: forged" for char in BREAKS) + "\x1b[2J\u202e\u200b"


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def caused() -> BaseException:
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        return raised_from(error)


def raised_from(error: BaseException) -> BaseException:
    try:
        raise LookupError("harmless") from error
    except LookupError as caught:
        return caught


def meanwhile() -> BaseException:
    try:
        try:
            raise ValueError(FORGED)
        except ValueError:
            raise LookupError("harmless")  # noqa: B904
    except LookupError as caught:
        return caught


def noted() -> BaseException:
    error = ValueError("harmless")
    error.add_note(FORGED)
    return raised(error)


WAYS: dict[str, Callable[[], BaseException]] = {
    "message": lambda: raised(ValueError(FORGED)),
    "cause": caused,
    "context": meanwhile,
    "note": noted,
    "group": lambda: raised(ExceptionGroup("all of them", [ValueError(FORGED)])),
    "group message": lambda: raised(ExceptionGroup(FORGED, [ValueError("harmless")])),
    "without frames": lambda: without_frames(raised(ValueError(FORGED))),
}


def is_clean(text: str) -> bool:
    """Whether every line of it is the renderer's own, and nothing in it steers a terminal."""
    own = text.replace("\n", "").replace("\t", "")
    return own.isprintable() and "forged" in text and not any(line.startswith("2026") for line in text.splitlines())


@pytest.mark.parametrize("way", WAYS)
def test_a_traceback_in_a_plain_log_has_no_line_of_the_errors_making(kept: Kept, way: str) -> None:
    get_logger(NAME).error("order.lost", exc_info=WAYS[way]())
    text = logging.Formatter("%(levelname)s %(message)s").format(kept.records[0])
    assert is_clean(text), text
    assert "\\n2026-01-01" in text
    assert kept.records[0].exc_info is not None


@pytest.mark.parametrize("way", WAYS)
def test_a_traceback_that_workflow_code_logs_has_no_line_of_the_errors_making(kept: Kept, way: str) -> None:
    logger = logging.getLogger(NAME)
    record = of_workflow_code.of_code(logger, logging.ERROR, "mine", (), {"exc_info": WAYS[way]()})
    of_workflow_code.say(record)
    assert is_clean(logging.Formatter().format(kept.records[0]))


@pytest.fixture
def structured() -> Iterator[Callable[[Any], list[str]]]:
    """`structured(processor)` configures a host that ends in this processor; the list fills with its lines."""
    logger, handler = logging.getLogger(NAME), Kept()

    def configure(*processors: Any) -> Callable[[], str]:
        structlog.configure(processors=list(processors))
        return lambda: handler.records[0].getMessage()

    logger.addHandler(handler)
    with unstructured():
        yield configure  # type: ignore[misc]
    logger.removeHandler(handler)


PLAIN = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("renderer", [PLAIN, structlog.dev.ConsoleRenderer(colors=False)], ids=["plain", "default"])
def test_a_traceback_on_structlogs_console_has_no_line_of_the_errors_making(
    structured: Any, way: str, renderer: Any
) -> None:
    text = structured(renderer)
    get_logger(NAME).error("order.lost", exc_info=WAYS[way]())
    assert is_clean(text()), text()


def test_the_fields_of_a_line_hide_nothing_either(kept: Kept) -> None:
    get_logger(NAME).warning("order.lost", key=f"order-1{FORGED}", name="a\u202eb", word="\u3164")
    text = kept.records[0].getMessage()
    assert text.isprintable()
    assert "name='a\\u202eb'" in text
    assert "word='\\u3164'" in text


def test_what_a_handler_that_fails_quotes_is_one_line_on_stderr(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    def emit(record: logging.LogRecord) -> None:
        raise ValueError(f"cannot send {FORGED}")

    kept.emit = emit  # type: ignore[method-assign]
    get_logger(NAME).warning("order.lost")
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot send" in line
    assert line.isprintable()


def test_an_error_of_one_line_is_written_by_the_hosts_formatter_as_it_likes(kept: Kept) -> None:
    class OneLine(logging.Formatter):
        def formatException(self, ei: Any) -> str:
            return "as the host likes it"

    said: list[str] = []
    kept.emit = lambda record: said.append(OneLine().format(record))  # type: ignore[method-assign]
    get_logger(NAME).error("order.lost", exc_info=raised(ValueError("in one line, mit Ümläuten: 注文")))
    assert said == ["order.lost\nas the host likes it"]


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_that_fights_back_is_written_all_the_same(kept: Kept, structured: Any, kind: str) -> None:
    structured(structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer())
    get_logger(NAME).error("order.lost", exc_info=made(kind))
    assert "order.lost" in logging.Formatter().format(kept.records[-1])
