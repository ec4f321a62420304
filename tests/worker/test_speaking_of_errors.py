"""Lines about errors whose text is code: nothing of it runs in the engine's transactions, and every line is heard."""

from __future__ import annotations

import logging
import threading

import pytest
from django.db import connection

from durable import Retry, activity, workflow
from durable.errors import ActivityError
from durable.flow.transactions import reporting
from durable.kernel.definitions.registry import registry
from durable.kernel.texts.failure import for_report
from durable.outbound import floods
from tests import hostile
from tests.ledger.models import Entry
from tests.waiting import PATIENCE, in_thread
from tests.worker.conftest import Plant
from tests.worker.hearing import listening
from tests.worker.plant import activities, fighters, workflows

pytestmark = pytest.mark.usefixtures("collected")

ONCE = Retry(max_attempts=1)

asked: list[tuple[str, bool]] = []
"""Who asked a `Lazy` for its text: the thread, and whether it was in a transaction."""


class Lazy(Exception):
    """Its text is the answer to a query that fails, as with a lazy queryset among the arguments of an error."""

    def __repr__(self) -> str:
        asked.append((threading.current_thread().name, connection.in_atomic_block))
        return str(list(Entry.objects.raw("SELECT * FROM no_such_table")))

    __str__ = __repr__


@activity(name="errors.lazy", retry=ONCE)
def lazy() -> None:
    """Fail."""
    raise Lazy


@activity(name="errors.lazy_async", retry=ONCE)
async def lazy_async() -> None:
    """Fail on the event loop."""
    raise Lazy


@activity(name="errors.lazy_transactional", retry=ONCE, transactional=True)
def lazy_transactional() -> None:
    """Fail in the transaction of the acknowledgement."""
    raise Lazy


@activity(name="errors.lazy_held", retry=ONCE, on_exhausted="hold")
def lazy_held() -> None:
    """Fail, and wait for staff."""
    raise Lazy


@workflow(name="errors.lean_on_held")
async def lean_on_held() -> None:
    """Wait for one that waits for staff."""
    await lazy_held.execute()


@workflow(name="errors.lazy_code")
async def lazy_code() -> None:
    """Fail by its own code."""
    raise Lazy


@pytest.mark.parametrize("definition", [lazy, lazy_async, lazy_transactional, lazy_held], ids=lambda one: one.name)
def test_the_text_of_a_handlers_error_is_asked_for_in_no_transaction_and_fails_no_acknowledgement(
    plant: Plant, definition: object
) -> None:
    registry.add_activity(definition)  # type: ignore[arg-type]
    asked.clear()
    registry.add_workflow(lean_on_held)
    failing = plant.start(lean_on_held) if definition is lazy_held else plant.enqueue(definition)
    beside = [plant.enqueue(activities.add, 1, number) for number in range(5)]
    with listening() as ear:
        plant.burst()
    assert asked
    assert not [thread for thread, in_transaction in asked if in_transaction]
    assert {str(plant.look(one).status) for one in beside} == {"completed"}
    assert plant.row(failing).attempts == 1
    assert len(ear.of("activity.dead_lettered" if definition is lazy_held else "activity.failed")) == 1
    assert not ear.of("acknowledgement_failed")


def test_the_text_of_an_error_of_workflow_code_is_not_asked_for_to_log_it(plant: Plant) -> None:
    registry.add_workflow(lazy_code)
    asked.clear()
    failing, beside = plant.start(lazy_code), plant.start(workflows.three, "beside")
    with listening() as ear:
        plant.burst()
    assert [str(plant.look(one).status) for one in (failing, beside)] == ["failed", "completed"]
    assert not [thread for thread, in_transaction in asked if in_transaction]
    assert len(ear.of("workflow.failed")) == 1


@pytest.mark.parametrize("fight", sorted(fighters.FIGHTS))
def test_every_error_that_fights_back_is_one_line_that_any_formatter_can_write(
    plant: Plant, fight: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floods, "MOST", 1_000)
    written: list[str] = []
    kinds = [kind for kind in hostile.ERRORS if kind != "large"]
    ids = {str(plant.enqueue(fighters.FIGHTS[fight], kind)): kind for kind in kinds}
    with listening(lambda record: written.append(logging.Formatter().format(record))) as ear:
        plant.burst()
    assert sorted(ids[vars(record)["workflow"]] for record in ear.of("activity.failed")) == sorted(kinds)
    assert len(written) == len(ear.records)


def test_one_that_fights_back_inside_of_a_group_is_found() -> None:
    class Half(hostile.silent(SystemExit)):  # type: ignore[misc]
        """Its `repr`, by which a group shows its members, is well."""

        __repr__ = object.__repr__

    within = ValueError("beside")
    within.__cause__ = Half()
    for error in (ExceptionGroup("group", [Half()]), ExceptionGroup("group", [within])):
        told = for_report(error)
        assert told is not error
        logging.Formatter().formatException((type(told), told, None))


def test_a_group_of_ten_thousand_is_reported_as_one() -> None:
    error = ExceptionGroup("many", [ValueError(str(number)) for number in range(10_000)])
    told = for_report(error)
    assert not isinstance(told, ExceptionGroup)
    assert str(told) == "many (10000 sub-exceptions)"


def test_groups_that_share_their_members_are_walked_through_once() -> None:
    """Each level doubles the number of ways to the bottom."""
    error: Exception = ActivityError(activity="a", ordinal=1, type="T", message="m", traceback="")
    for _ in range(90):
        error = ExceptionGroup("level", [error, error])
    # So deep a group cannot be raised through the engine in a test.
    assert in_thread(lambda: reporting._reported_by(error)).result(PATIENCE)
    mixed = ExceptionGroup("level", [error, ValueError("its own")])
    assert not in_thread(lambda: reporting._reported_by(mixed)).result(PATIENCE)
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert not reporting._reported_by(one)
