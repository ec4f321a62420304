"""`drain` with handlers and workflows that fight back: as in a worker, what they raise fails them alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from durable import WorkflowStatus, testing
from durable.decorators.workflows import WorkflowType
from durable.kernel.definitions.definition import ActivityDefinition, WorkflowDefinition
from durable.kernel.definitions.registry import registry
from tests import hostile
from tests.worker.plant import fighters

# Ctrl-C in a handler is about the test, and ends it.
KINDS = sorted(kind for kind in hostile.ERRORS if not kind.endswith("KeyboardInterrupt"))
FIGHTS = (fighters.fight, fighters.fight_async, fighters.fight_transactional, fighters.raise_it)


@pytest.fixture
def fighting() -> Iterator[None]:
    with registry.isolated():
        for definition in vars(fighters).values():
            if isinstance(definition, ActivityDefinition):
                registry.add_activity(definition)
            elif isinstance(definition, WorkflowDefinition):
                registry.add_workflow(definition)
        yield


def begun(definition: Any, kind: str) -> Any:
    return (definition.start if isinstance(definition, WorkflowType) else definition.enqueue)(kind)


@pytest.mark.parametrize(
    "database",
    [
        pytest.param("open", marks=pytest.mark.django_db),
        pytest.param("none", marks=pytest.mark.django_db(transaction=True)),
    ],
)
@pytest.mark.usefixtures("fighting")
class TestDrain:
    @pytest.mark.parametrize("definition", FIGHTS, ids=lambda one: one.name)
    def test_whatever_is_raised_fails_alone(self, definition: Any, database: str) -> None:
        started = {kind: begun(definition, kind) for kind in KINDS}
        with testing.freeze() as clock:
            testing.drain()
            clock.move(fighters.TWICE.cap)
            testing.drain()
        for kind, handle in started.items():
            assert (kind, handle.status()) == (kind, WorkflowStatus.FAILED)

    @pytest.mark.parametrize("definition", [*fighters.HANDS.values(), fighters.return_it], ids=lambda one: one.name)
    def test_whatever_is_returned_fails_alone(self, definition: Any, database: str) -> None:
        started = [begun(definition, kind) for kind in hostile.VALUES]
        testing.drain()
        assert {handle.status() for handle in started} == {WorkflowStatus.FAILED}


@pytest.mark.django_db
@pytest.mark.usefixtures("fighting")
def test_ctrl_c_in_a_handler_ends_the_test_and_pytests_own_outcomes_do() -> None:
    fighters.fight.enqueue("raises_KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        testing.drain()

    def skip(kind: str) -> None:
        pytest.skip("enough")

    fighters.fight_async.enqueue("deep")
    with testing.replaced({fighters.fight_async: skip}), pytest.raises(pytest.skip.Exception):
        testing.drain()
