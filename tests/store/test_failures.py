"""Columns by which lists tell failures apart without reading them."""

from __future__ import annotations

import pytest
from django.test import override_settings

from durable.flow.operator import unblock
from durable.models import Event, FailedAttempt, OutboxRow, Workflow
from durable.outcomes import Cause, Failed, Failure
from durable.store.texts import failures
from tests.canary.shifting import Shifting
from tests.flow import cases
from tests.flow.driver import Driver, failed, workflow

pytestmark = pytest.mark.django_db(transaction=True)


def test_attempt_and_workflow_have_the_class_and_one_group() -> None:
    driver = Driver()
    ended = [driver.enqueue(cases.step, 1, budget=1) for _ in range(2)]
    driver.run(lambda claim: failed(claim, f"no money on {claim.row_id}"))
    expected = failures.kind(Failure("ValueError", "no money on 1"))
    assert (expected.error_class, len(expected.error_group)) == ("ValueError", 16)
    for rows in (FailedAttempt.objects.all(), Workflow.objects.filter(id__in=ended)):
        assert {(row.error_class, row.error_group) for row in rows} == {("ValueError", expected.error_group)}


def test_a_dead_letter_has_the_kind_of_what_it_died_of() -> None:
    driver = Driver()
    driver.enqueue(cases.step, 1, budget=1, options={"on_exhausted": "hold"})
    driver.run(lambda claim: Failed(claim, Failure("E", "no"), Cause.APPLICATION_ERROR, claim.created_at, spent=True))
    row = OutboxRow.objects.get()
    assert (row.status, row.error_class, row.error_group) == (
        "dead",
        "E",
        failures.kind(Failure("E", "no")).error_group,
    )


def test_a_group_is_that_of_the_project() -> None:
    one = failures.kind(Failure("E", "no"))
    assert one == failures.kind(Failure("E", "no"))
    with override_settings(SECRET_KEY="another"):
        assert failures.kind(Failure("E", "no")).error_group != one.error_group


def test_a_class_name_of_any_length_has_room() -> None:
    assert len(failures.kind(Failure("E" * 1_000, "")).error_class) == 200


def test_a_block_has_its_kind_as_long_as_it_lasts() -> None:
    driver = Driver(cached=0)
    workflow_id = driver.start(cases.sequence, 1)
    Event.objects.filter(workflow_id=workflow_id).update(data={"type": "cases.sequence", "input": "{broken"})
    driver.turn()
    found = workflow(workflow_id)
    assert found.blocked_reason
    assert found.error_class == "durable.errors.WorkflowBlocked"
    assert found.error_group
    unblock.unblock(workflow_id)
    assert (workflow(workflow_id).error_class, workflow(workflow_id).error_group) == ("", "")


@pytest.mark.parametrize("plain", [True, False])
def test_plain_failures_are_left_plain_under_a_codec(plain: bool) -> None:
    codec = f"{Shifting.__module__}.{Shifting.__name__}"
    with override_settings(DURABLE={"CODEC": codec, "PLAIN_FAILURES": plain}):
        driver = Driver()
        workflow_id = driver.enqueue(cases.step, 1, budget=1)
        driver.run(failed)
        stored = workflow(workflow_id).failure
        assert stored.keys() == ({"type", "message", "traceback"} if plain else {"type", "sealed"})
        assert failures.read(stored, workflow_id, 1).message == "no"
