"""Recorded moments, and so the time that workflows see, are whole milliseconds: they survive any copy of a database."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest

import durable
from durable.conf import settings
from durable.decorators.workflows import workflow as workflow_type
from durable.flow.caller import cancel, signal, start
from durable.flow.operator import pause, resume, terminate
from durable.kernel.codec import encode_call
from durable.models import Event, Workflow
from tests.flow import cases
from tests.flow.driver import Driver, history, workflow

pytestmark = pytest.mark.django_db(transaction=True)

ODD = timedelta(microseconds=123_456)


@workflow_type(name="cases.clocked")
async def clocked() -> list[str]:
    """What it sees of time, before and after each kind of input."""
    seen = [durable.now().isoformat()]
    await cases.step.execute(1)
    seen.append(durable.now().isoformat())
    await durable.sleep(timedelta(microseconds=1_500))
    seen.append(durable.now().isoformat())
    await durable.wait_for_signal("go")
    return [*seen, durable.now().isoformat()]


@workflow_type(name="cases.napping")
async def napping() -> bool:
    loop = asyncio.get_running_loop()
    over = loop.time() + 0.0004
    while loop.time() < over:  # noqa: ASYNC110 - as code does that was written for other loops
        await asyncio.sleep(over - loop.time())
    return True


def moments(*workflow_ids: uuid.UUID) -> list[datetime]:
    return list(
        Event.objects.filter(workflow_id__in=workflow_ids).order_by("seq").values_list("recorded_at", flat=True)
    )


@pytest.mark.parametrize("cached", [1000, 0])
def test_whatever_is_recorded_is_recorded_in_whole_milliseconds(frozen_clock: Any, cached: int) -> None:
    driver = Driver(cached=cached)
    frozen_clock.move(ODD)
    began = frozen_clock.now
    owner, single = driver.start(clocked), driver.enqueue(cases.step, 1)
    others = [driver.start(cases.signalled) for _ in range(3)]
    driver.run()
    frozen_clock.move(timedelta(microseconds=1_499))
    driver.run()
    assert history(owner)[-1] == "activity_completed 1", "It sleeps until the next whole millisecond."
    frozen_clock.move(timedelta(microseconds=45))
    driver.run()
    pause.pause(owner, actor="anna", reason="")
    resume.resume(owner, actor="anna", reason="")
    signal.signal(owner, name="go", payload="null")
    terminate.terminate(others[0], reason="enough")
    cancel.cancel(others[1])
    frozen_clock.move(ODD)
    driver.run()
    assert workflow(owner).status == "completed"
    found = moments(owner, single, *others)
    assert {moment.microsecond % 1_000 for moment in found} == {0}
    assert min(found) == began - timedelta(microseconds=456)
    seen = [datetime.fromisoformat(text) for text in json.loads(workflow(owner).result or "")]
    assert set(seen) <= set(moments(owner))
    assert seen == sorted(seen)


@pytest.mark.parametrize("together", [1, 2])
def test_a_start_that_is_due_between_two_milliseconds_is_recorded_before_and_begins_after(
    frozen_clock: Any, driver: Driver, together: int
) -> None:
    """Alone, and beside another one: the statements differ."""
    later = frozen_clock.now + timedelta(hours=1, microseconds=600)
    new = [
        start.new_workflow(
            id=(owner := uuid.uuid4()), type=cases.nothing.name, start_at=later,
            payload=encode_call(cases.nothing, (), {}, codec=settings.codec(), workflow_id=owner).payload,
        )
        for _ in range(together)
    ]  # fmt: skip
    start.start(new)
    assert set(moments(*[one.id for one in new])) == {later - timedelta(microseconds=600)}
    frozen_clock.move(timedelta(hours=1, microseconds=599))
    driver.run()
    assert set(Workflow.objects.values_list("status", flat=True)) == {"running"}
    frozen_clock.move(timedelta(microseconds=1))
    driver.run()
    assert set(Workflow.objects.values_list("status", flat=True)) == {"completed"}


def test_a_timer_of_less_than_a_millisecond_fires_once_and_the_code_sees_it_over(
    frozen_clock: Any, driver: Driver
) -> None:
    frozen_clock.move(ODD)
    owner = driver.start(napping)
    driver.run()
    assert workflow(owner).status == "running"
    frozen_clock.move(timedelta(microseconds=544))
    driver.run()
    assert history(owner)[-2:] == ["timer_fired", "workflow_completed"]
