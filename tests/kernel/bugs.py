"""Workflow code with bugs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable.errors import CodeRaised
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.history.events import EventType
from tests.kernel.harness import Driver, Step, play, start

PRICES = {"cup": 3}


class OwnError(Exception):
    """What a project raises of its own accord."""


def raised(code: Callable[..., Any], *steps: Step, blocks_on: Any = None) -> CodeRaised:
    """The error with which the last step blocks, warm and cold."""
    kinds = {} if blocks_on is None else {"blocks_on": blocks_on}
    definition = WorkflowDefinition(code, name="tests.bug", **kinds)
    found = []
    for cold in (False, True):
        driver = Driver(definition, cold=cold)
        try:
            for step in (start(), *steps)[:-1]:
                step(driver)
            before = list(driver.history)
            with pytest.raises(CodeRaised) as caught:
                (start(), *steps)[-1](driver)
            assert driver.history == before
        finally:
            driver.close()
        found.append(caught.value)
    assert found[0].reason == found[1].reason
    return found[0]


def failure(code: Callable[..., Any], *steps: Step, blocks_on: Any = None) -> str:
    """The type of the error with which the workflow fails."""
    kinds = {} if blocks_on is None else {"blocks_on": blocks_on}
    end = play(WorkflowDefinition(code, name="tests.bug", **kinds), *steps).end
    assert end.type is EventType.WORKFLOW_FAILED
    return str(end.data["failure"]["type"])
