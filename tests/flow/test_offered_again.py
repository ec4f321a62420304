"""A deploy offers blocked workflows to its code. Until that was tried, and unless it could go on, the mark stays."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest

import durable
from durable.decorators.workflows import workflow
from durable.flow.caller import signal
from durable.flow.operator import unblock
from durable.flow.turns import poison
from durable.models import Workflow
from tests.flow import cases
from tests.flow.driver import Driver, history
from tests.flow.driver import workflow as stored

pytestmark = pytest.mark.django_db

PATIENCE = timedelta(minutes=5)
MOMENT = timedelta(seconds=1)


@workflow(name="offered.spinning")
async def spinning() -> str:
    await durable.wait_for_signal("go")
    while True:  # noqa: ASYNC110 - spinning is what it is for
        await asyncio.sleep(0)


@pytest.fixture
def unknown(driver: Driver, settings: Any, frozen_clock: Any) -> uuid.UUID:
    """Of a type that no code here knows; blocked for it, by a turn that a signal has brought, while its start is put
    off for some seconds more.
    """
    settings.DURABLE = {"UNKNOWN_HANDLER_FOR": PATIENCE}
    workflow_id = driver.start(cases.nothing)
    Workflow.objects.filter(id=workflow_id).update(type="offered.unknown")
    driver.turn()
    frozen_clock.move(PATIENCE - MOMENT)
    driver.turn()
    frozen_clock.move(2 * MOMENT)
    signal.signal(workflow_id, "go", payload="1")
    driver.turn()
    assert history(workflow_id) == ["workflow_started", "workflow_blocked"]
    return workflow_id


def test_a_deploy_before_the_start_is_due_leaves_the_mark_until_the_code_was_tried(
    driver: Driver, frozen_clock: Any, unknown: uuid.UUID
) -> None:
    """Found by a crash point: the mark went, and the history never said that it had been taken away."""
    Workflow.objects.filter(id=unknown).update(type=cases.nothing.name)
    assert unblock.after_deploy("next").count == 1
    driver.turn()
    assert (bool(stored(unknown).blocked_reason), history(unknown)[-1]) == (True, "workflow_blocked")
    assert driver.turn().workflows == 0
    frozen_clock.move(10 * MOMENT)
    driver.run()
    assert (stored(unknown).status, stored(unknown).blocked_reason) == ("completed", "")


def test_a_request_to_cancel_ends_a_blocked_workflow_before_its_start_is_due(
    driver: Driver, unknown: uuid.UUID
) -> None:
    """Its code has nothing to clean up."""
    durable.get_workflow(unknown).cancel(reason="enough")
    Workflow.objects.filter(id=unknown).update(type=cases.nothing.name)
    unblock.after_deploy("next")
    driver.turn()
    assert (stored(unknown).status, stored(unknown).blocked_reason) == ("cancelled", "")


def test_a_deploy_whose_code_overruns_as_the_last_one_did_leaves_the_mark(driver: Driver, settings: Any) -> None:
    """It had its try; what staff see does not go away for a poison turn."""
    settings.DURABLE = {"TURN_CPU_FOR": timedelta(milliseconds=20), "TURN_POISON_LIMIT": 2}
    workflow_id = driver.start(spinning)
    driver.turn()
    signal.signal(workflow_id, "go", payload="1")
    for _ in range(2):
        poison.count(workflow_id)
    assert stored(workflow_id).blocked_reason
    before = history(workflow_id)
    assert unblock.after_deploy("next").count == 1
    driver.turn()
    assert (bool(stored(workflow_id).blocked_reason), history(workflow_id)) == (True, before)
    assert unblock.after_deploy(stored(workflow_id).blocked_version).count == 0
    assert driver.turn().workflows == 0
