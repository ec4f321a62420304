"""Parents and children within a test: run to the end of the parent, drained, and replayed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import durable
from durable import WorkflowStatus, activity, testing, workflow
from durable.models import Workflow
from durable.testing.errors import NeverEnds

pytestmark = pytest.mark.django_db


@activity(name="testing.pack")
def pack(number: int) -> str:
    return f"packed {number}"


@workflow(name="testing.parcel")
async def parcel(number: int) -> str:
    await durable.sleep(timedelta(days=number))
    return await pack.execute(number)


@workflow(name="testing.stuck")
async def stuck() -> None:
    await durable.wait_for_signal("never")


@workflow(name="testing.faulty")
async def faulty() -> str:
    return {"a": "there"}["b"]


@workflow(name="testing.campaign")
async def campaign(child: str) -> list[Any]:
    stuck.options(parent_close="abandon").execute()
    if child == "parcels":
        parcels = [parcel.execute(number) for number in range(3)]
        return [await one for one in parcels]
    kinds: dict[str, Any] = {"stuck": stuck, "faulty": faulty}
    return [await kinds[child].execute()]


def test_a_parent_is_run_with_its_children_through_their_time() -> None:
    handle = campaign.start("parcels")
    assert testing.run(handle) == ["packed 0", "packed 1", "packed 2"]
    left = Workflow.objects.exclude(status="completed")
    assert [one.type for one in left] == ["testing.stuck"], "an abandoned child goes on"
    assert testing.replay_here(testing.export_history(handle)).drift == 0


def test_an_activity_of_a_child_is_replaced_like_any_other() -> None:
    with testing.replaced({pack: lambda number: f"fake {number}"}):
        assert testing.run(campaign, "parcels") == ["fake 0", "fake 1", "fake 2"]


def test_a_drain_runs_children_too() -> None:
    handle = campaign.start("parcels")
    testing.drain(until=timedelta(days=1))
    assert handle.status() is WorkflowStatus.RUNNING
    testing.drain(until=timedelta(days=3))
    assert handle.status() is WorkflowStatus.COMPLETED


def test_a_parent_whose_child_never_ends_is_said_never_to_end() -> None:
    with pytest.raises(NeverEnds):
        testing.run(campaign, "stuck")


def test_a_bug_of_a_child_is_raised_as_it_is() -> None:
    with pytest.raises(KeyError, match="b"):
        testing.run(campaign, "faulty")
