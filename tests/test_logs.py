"""The engine's loggers in a project that has configured neither structlog nor tracebacks."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from durable.logs import get_logger


@pytest.fixture
def unconfigured() -> Iterator[None]:
    """A host that never configured structlog; afterwards as it was (the demo's settings, say, do configure it)."""
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    yield
    if before is not None:
        structlog.configure(**before)


@pytest.mark.usefixtures("unconfigured")
def test_a_traceback_is_plain_text_and_tells_no_values(caplog: pytest.LogCaptureFixture) -> None:
    """Of local variables, that is: payloads are among them, and who reads logs may not read payloads."""
    secret = "card 4711"
    with caplog.at_level(logging.ERROR, "durable.tests"):
        try:
            raise LookupError(len(secret))
        except LookupError:
            get_logger("durable.tests").exception("went_wrong", workflow="w")
    assert "went_wrong" in caplog.text
    assert "workflow=w" in caplog.text
    assert "Traceback (most recent call last):" in caplog.text
    assert secret not in caplog.text
