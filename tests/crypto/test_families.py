"""What parents and children send to one another under encryption: nothing is readable, and a rotation reaches all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import durable
from durable import activity, testing, workflow
from durable.models import Event, Message, Workflow
from durable.operations import pause, resume
from tests.crypto.rotating import CANARY, mentions, reencrypt
from tests.flow.driver import Driver

pytestmark = pytest.mark.django_db


@activity(name="families.wrap")
def wrap(what: str) -> str:
    return what


@workflow(name="families.box")
async def box(what: str, fails: bool) -> str:
    received = await durable.wait_for_signal("go")
    if fails:
        raise ValueError(f"no room for {what}")
    return f"{await wrap.execute(what)}, {received}"


@workflow(name="families.crate")
async def crate(what: str) -> list[str]:
    boxes = [box.options(key=f"box-{fails}").execute(what, fails) for fails in (False, True)]
    boxes[0].signal("go", what)
    box.signal("box-True", "go", what)
    try:
        return [await boxes[0], await boxes[1]]
    except durable.ChildFailed as error:
        return [await boxes[0], error.message]


WANTED = [f"{CANARY}, {CANARY}", f"no room for {CANARY}"]


@pytest.fixture
def handle(keyed: Callable[..., None]) -> Any:
    """A parent that is paused, with the ends of its children waiting for it."""
    keyed("old")
    handle = crate.start(CANARY)
    Driver().turn(1)
    pause(handle.id)
    testing.drain()
    assert set(Workflow.objects.exclude(id=handle.id).values_list("status", flat=True)) == {"completed", "failed"}
    assert set(Message.objects.values_list("kind", flat=True)) == {"child"}
    return handle


def test_the_ends_of_children_are_unreadable_wherever_they_wait_or_are_recorded(handle: Any) -> None:
    assert mentions(CANARY) == 0
    resume(handle.id)
    assert testing.run(handle) == WANTED
    assert mentions(CANARY) == 0
    assert {event.type for event in Event.objects.filter(workflow_id=handle.id)} >= {"child_completed", "child_failed"}


def test_a_rotation_reaches_them_in_messages_and_in_events(handle: Any, keyed: Callable[..., None]) -> None:
    keyed("new", "old")
    assert reencrypt()["unreadable"] == 0
    assert mentions("aes1.old.") == 0
    keyed("new")
    resume(handle.id)
    assert testing.run(handle) == WANTED
    keyed("middle", "new")
    assert reencrypt()["unreadable"] == 0
    assert mentions("aes1.new.") == 0
    keyed("middle")
    assert testing.replay_here(testing.export_history(handle.id)).drift == 0


def test_encryption_that_is_turned_on_later_reaches_what_children_said_in_plain(
    settings: Any, keyed: Callable[..., None]
) -> None:
    settings.DURABLE = {}
    handle = crate.start(CANARY)
    assert testing.run(handle) == WANTED
    assert mentions(CANARY)
    keyed("new", READ_UNENCRYPTED=True)
    assert reencrypt()["unreadable"] == 0
    assert mentions(CANARY) == 0
    keyed("new")
    assert testing.replay_here(testing.export_history(handle.id)).drift == 0
