"""Patches of workflow code across deploys: what is stored of them, who still needs them, and what is said when one was
removed too early.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import durable
from durable.kernel.definitions.registry import registry
from durable.models import Event, Workflow
from tests.flow import cases
from tests.flow.driver import Driver
from tests.management.ran import Ran

pytestmark = pytest.mark.django_db(transaction=True)

CHECK = "fraud-check"
TYPE = "changing"


async def before() -> None:
    await cases.step.execute(1)
    await durable.wait_for_signal("go")
    await cases.step.execute(2)
    await durable.wait_for_signal("end")


async def between() -> None:
    await cases.step.execute(1)
    await durable.wait_for_signal("go")
    if durable.patched(CHECK):
        await cases.other.execute(2)
    else:
        await cases.step.execute(2)
    await durable.wait_for_signal("end")


async def after() -> None:
    await cases.step.execute(1)
    await durable.wait_for_signal("go")
    await cases.other.execute(2)
    await durable.wait_for_signal("end")


@contextmanager
def deployed(code: Any) -> Iterator[tuple[Any, Driver]]:
    """A worker that was started with this code."""
    with registry.isolated():
        registry.add_activity(cases.step)
        registry.add_activity(cases.other)
        yield durable.workflow(name=TYPE)(code), Driver(cached=10)


def sent(handle_id: uuid.UUID, *names: str) -> None:
    for name in names:
        durable.get_workflow(handle_id).signal(name)


def row_of(workflow_id: uuid.UUID) -> Workflow:
    return Workflow.objects.get(id=workflow_id)


def states(*options: str) -> dict[str, Any]:
    """What `durable patches` says of the patch, without its moment."""
    ran = Ran("patches", "--type", TYPE, "--json", *options)
    (state,) = ran.data
    del state["since"]
    return dict(state)


@pytest.fixture
def three() -> dict[str, uuid.UUID]:
    """One workflow that has gone by the place before the patch, and two that began before it and have not."""
    with deployed(before) as (changing, driver):
        ids = {name: changing.start().id for name in ("past", "ahead", "asleep")}
        driver.run()
        sent(ids["past"], "go")
        driver.run()
    return ids


def test_the_answers_are_stored_with_the_turn_that_gave_them(three: dict[str, uuid.UUID]) -> None:
    with deployed(between) as (changing, driver):
        sent(three["ahead"], "go")
        sent(three["past"], "unheard")
        new = changing.start().id
        driver.run()
        assert [row_of(three[name]).patches for name in ("past", "ahead", "asleep")] == [
            {CHECK: False},
            {CHECK: True},
            None,
        ]
        assert row_of(new).patches is None
        sent(new, "go", "end")
        driver.run()
        assert row_of(new).status == "completed"
        assert row_of(new).patches == {CHECK: True}
        markers: Any = Event.objects.filter(type="marker_recorded").values_list("workflow_id", "data")
        assert dict(markers) == {owner: {"kind": "patch", "id": CHECK} for owner in (three["ahead"], new)}


def test_a_turn_without_new_answers_leaves_the_column_as_it_is(three: dict[str, uuid.UUID]) -> None:
    with deployed(between) as (_, driver):
        sent(three["past"], "unheard")
        driver.run()
        Workflow.objects.filter(id=three["past"]).update(patches={CHECK: False, "kept": True})
        sent(three["past"], "unheard")
        driver.run()
    assert row_of(three["past"]).patches == {CHECK: False, "kept": True}


def test_who_needs_the_old_way_is_counted_until_nobody_does(three: dict[str, uuid.UUID]) -> None:
    assert Ran("patches", "--type", TYPE, "--json").data == []
    with deployed(between) as (changing, driver):
        sent(three["ahead"], "go")
        driver.run()
        young = changing.start().id
        driver.run()
        expected = {"type": TYPE, "patch": CHECK, "new_way": 1, "old_way": 0, "not_said": 2, "removable": False}
        assert states() == expected, "the one that began after the patch will take the new way anyway"
        sent(three["past"], "unheard")
        driver.run()
        assert states() == expected | {"old_way": 1, "not_said": 1}
        assert Ran("patches", "--require-removable", CHECK).code == 1
        sent(three["past"], "end")
        sent(three["asleep"], "go")
        driver.run()
        assert states() == expected | {"new_way": 2, "not_said": 0, "removable": True}
        assert Ran("patches", "--require-removable", CHECK).code == 0
        assert row_of(young).patches is None
    with deployed(after) as (changing, driver):
        for owner in (three["ahead"], three["asleep"], young):
            sent(owner, "go", "end")
        driver.run()
        closed = Workflow.objects.filter(type=TYPE).values_list("status", flat=True)
        assert set(closed) == {"completed"}
        assert states() == expected | {"new_way": 0, "not_said": 0, "removable": True}


def test_before_anybody_has_taken_the_new_way_all_may_need_the_old_one(three: dict[str, uuid.UUID]) -> None:
    with deployed(between) as (_, driver):
        sent(three["past"], "unheard")
        driver.run()
        assert states()["not_said"] == 2
        assert not states()["removable"]


def test_an_id_that_nobody_has_come_by_is_not_called_removable() -> None:
    ran = Ran("patches", "--require-removable", "frand-check")
    assert (ran.code, "'frand-check'" in ran.out) == (1, True)


def test_a_patch_that_was_removed_too_early_is_named(three: dict[str, uuid.UUID]) -> None:
    with deployed(between) as (_, driver):
        sent(three["past"], "unheard")
        driver.run()
    with deployed(after) as (_, driver):
        for name in ("past", "ahead"):
            sent(three[name], "go", "end")
        driver.run()
        reason = row_of(three["past"]).blocked_reason
        assert f"It took the old way of {CHECK!r}, for which the code no longer asks" in reason
        assert row_of(three["ahead"]).status == "completed"
        blocked = Event.objects.get(type="workflow_blocked", workflow_id=three["past"])
        assert blocked.data["patches"] == [CHECK]
    with deployed(between) as (_, driver):
        durable.operations.unblock(three["past"], actor=None)
        driver.run()
        assert row_of(three["past"]).blocked_reason == ""


def test_other_differences_name_no_patch(three: dict[str, uuid.UUID]) -> None:
    async def other_code() -> None:
        await cases.other.execute(1)

    with deployed(other_code) as (_, driver):
        sent(three["past"], "go")
        driver.run()
        assert row_of(three["past"]).blocked_reason.startswith("Event ")
        assert "old way" not in row_of(three["past"]).blocked_reason


def test_the_table_says_it_in_words(three: dict[str, uuid.UUID]) -> None:
    with deployed(between) as (_, driver):
        sent(three["ahead"], "go")
        driver.run()
    lines = Ran("patches", "--type", TYPE).out.splitlines()
    assert lines[0].split() == ["TYPE", "PATCH", "NEW", "WAY", "OLD", "WAY", "NOT", "SAID", "SINCE", "REMOVABLE"]
    assert lines[1].split()[:5] == [TYPE, CHECK, "1", "0", "2"]
    assert lines[1].endswith("no")
    assert Ran("patches", "--type", "a\0b").code == 2


def test_what_was_answered_before_the_activation_that_blocks_is_stored_and_what_that_one_answered_is_not() -> None:
    async def breaks() -> None:
        durable.patched(CHECK)
        await durable.wait_for_signal("go")
        durable.patched("later")
        raise AssertionError

    with deployed(breaks) as (definition, driver):
        handle = definition.start()
        sent(handle.id, "go")
        driver.run()
    row = row_of(handle.id)
    assert (row.blocked_at is not None, row.patches) == (True, {CHECK: True})
    assert Event.objects.filter(workflow_id=handle.id, type="marker_recorded").count() == 1
