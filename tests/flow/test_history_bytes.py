"""How long a history is, in bytes, stands with its workflow, whoever adds to it."""

from __future__ import annotations

import uuid

import pytest

from durable.flow.caller import cancel, signal
from durable.flow.operator import pause, resume, terminate
from durable.models import Workflow
from tests.flow import cases
from tests.flow.counting import counted
from tests.flow.driver import Driver

pytestmark = pytest.mark.django_db


def noted(workflow_id: uuid.UUID) -> int:
    return Workflow.objects.get(id=workflow_id).history_bytes


def test_the_size_of_a_history_is_counted_from_the_start_with_every_event(driver: Driver) -> None:
    """In bytes, not in characters."""
    one, other = driver.start(cases.signalled), driver.enqueue(cases.step, 7)
    assert (noted(one), noted(other)) == (counted(one), counted(other))
    driver.turn()
    signal.signal(one, "näws", payload='"日本"')
    driver.turn()
    assert noted(one) == counted(one) > 90
    pause.pause(one, reason="é")
    assert noted(one) == counted(one)
    resume.resume(one)
    cancel.cancel(one, reason="genug")
    driver.run()
    assert noted(one) == counted(one)
    assert noted(other) == counted(other)


def test_many_that_start_at_once_are_counted_too(driver: Driver) -> None:
    from durable.flow.caller import start

    new = [start.new_workflow(id=uuid.uuid4(), type=cases.signalled.name, payload='{"ä":1}') for _ in range(3)]
    start.start(new)
    assert [noted(one.id) for one in new] == [counted(one.id) for one in new]


def test_one_of_before_this_was_counted_is_counted_whole_by_its_next_turn(driver: Driver) -> None:
    """An operator's event before that leaves it uncounted."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    Workflow.objects.update(history_bytes=0)
    pause.pause(workflow_id)
    resume.resume(workflow_id)
    assert noted(workflow_id) == 0
    signal.signal(workflow_id, "news", payload="1")
    driver.turn()
    assert noted(workflow_id) == counted(workflow_id)
    Workflow.objects.update(history_bytes=0)
    terminate.terminate(workflow_id, reason="enough")
    assert noted(workflow_id) == counted(workflow_id)
