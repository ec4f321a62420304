"""NOTIFY on PostgreSQL: who tells, when it arrives, and what a cut channel costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import signal, waking
from durable.flow.looks import look
from durable.outcomes import WakesBy
from durable.worker.loops import listening
from durable.worker.loops.listening import Listener
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows
from tests.worker.threads import running, until, until_closed

pytestmark = pytest.mark.skipif(os.environ.get("DURABLE_TEST_DATABASE") != "postgresql", reason="NOTIFY")


class Rings:
    """A listener on this thread, and how often it was rung."""

    def __init__(self, queues: tuple[str, ...] | None = None) -> None:
        self.count = 0
        self.listener = Listener(alias="default", queues=queues, ring=self._ring)
        until(lambda: self._step() and self.listener.wakes_by is WakesBy.NOTIFICATION)

    def _ring(self) -> None:
        self.count += 1

    def _step(self) -> bool:
        self.listener.step()
        return True

    def heard(self) -> bool:
        """Whether anything rings within some waits: what is told to others, or to oneself, ends one, too."""
        before = self.count
        return any(self._step() and self.count > before for _ in range(4))


@pytest.fixture
def notify(plant: Plant, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DURABLE = settings.DURABLE | {"NOTIFY": True}
    monkeypatch.setattr(waking, "_told_at", {})  # when the process has told last outlives a test
    monkeypatch.setattr(listening, "LOOK_SECONDS", 0.05)


@pytest.fixture
def rings(notify: None) -> Iterator[Callable[..., Rings]]:
    made: list[Rings] = []

    def make(*queues: str) -> Rings:
        made.append(Rings(queues or None))
        return made[-1]

    yield make
    for one in made:
        one.listener.close()


def told(call: Callable[[], Any]) -> int:
    """How many statements with NOTIFY a call sends."""
    with CaptureQueriesContext(connection) as queries:
        call()
    return sum("pg_notify" in query["sql"] for query in queries)


def test_a_start_an_enqueue_and_a_signal_ring_at_the_commit_and_not_before(
    plant: Plant, rings: Callable[..., Rings]
) -> None:
    one = rings()
    waiting = plant.start(workflows.journey, "a")
    assert one.heard()
    for call in (
        lambda: plant.start(workflows.three, "b"),
        lambda: plant.enqueue(activities.add, 1, 1),
        lambda: signal.signal(waiting, "go", payload='"home"'),
    ):
        with transaction.atomic():
            call()
            assert not one.heard()
        assert one.heard()


def test_what_is_rolled_back_rings_nobody(plant: Plant, rings: Callable[..., Rings]) -> None:
    one = rings()
    with transaction.atomic():
        plant.enqueue(activities.add, 1, 1)
        transaction.set_rollback(True)
    assert not one.heard()


def test_a_worker_hears_its_own_queues_and_what_names_none(plant: Plant, rings: Callable[..., Rings]) -> None:
    mine, other = rings("mine", "more"), rings("other")
    plant.enqueue(activities.add, 1, 1, queue="mine")
    assert mine.heard()
    assert not other.heard()
    waiting = plant.start(workflows.journey, "a")
    signal.signal(waiting, "go", payload='"home"')
    assert mine.heard()
    assert other.heard()


def test_a_transaction_tells_each_queue_once_and_again_when_a_savepoint_took_it_back(
    plant: Plant, notify: None
) -> None:
    def inside() -> None:
        with transaction.atomic():
            for number in range(20):
                plant.enqueue(activities.add, number, 1)
            plant.enqueue(activities.add, 1, 1, queue="other")

    assert told(inside) == 2
    assert told(inside) == 2, "the next transaction tells anew"

    def taken_back() -> None:
        with transaction.atomic():
            with transaction.atomic():
                plant.enqueue(activities.add, 1, 1)
                transaction.set_rollback(True)
            plant.enqueue(activities.add, 1, 1)

    assert told(taken_back) == 2


def test_outside_of_a_transaction_a_queue_is_told_once_in_a_while(
    plant: Plant, notify: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "_told_at", {})  # an earlier test may have told this queue a moment ago
    monkeypatch.setattr(waking, "SPACING", timedelta(hours=1))
    assert told(lambda: [plant.enqueue(activities.add, number, 1) for number in range(20)]) == 1
    monkeypatch.setattr(waking, "SPACING", timedelta())
    assert told(lambda: [plant.enqueue(activities.add, number, 1) for number in range(20)]) == 20


def test_what_is_left_out_within_the_spacing_is_found_by_the_second_look(
    plant: Plant, rings: Callable[..., Rings]
) -> None:
    one = rings()
    plant.enqueue(activities.add, 1, 1)
    before = one.count
    one.listener.step()
    assert one.count == before + 2


def test_trouble_with_the_telling_after_the_commit_is_not_the_callers(
    plant: Plant, notify: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults J4."""
    from django.db import OperationalError

    from durable.store.connections import wakeups

    def broken(*_: Any) -> None:
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(wakeups, "tell", broken)
    workflow_id = plant.enqueue(activities.add, 1, 1)
    assert plant.look(workflow_id).closed_at is None


def test_off_by_default_and_no_word_for_what_is_due_later(plant: Plant, notify: None, settings: Any) -> None:
    from datetime import UTC, datetime

    later = activities.add.options(start_at=datetime(2040, 1, 1, tzinfo=UTC))
    assert told(lambda: later.enqueue(1, 1)) == 0
    settings.DURABLE = settings.DURABLE | {"NOTIFY": False}
    assert told(lambda: plant.enqueue(activities.add, 1, 1)) == 0
    with running() as (worker, _):
        assert "listen" not in [loop.pulse.name for loop in worker.loops]


def test_acknowledgements_and_turns_tell_nobody(plant: Plant, notify: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from durable.store.connections import wakeups

    calls: list[Any] = []
    real = wakeups.tell

    def tell(*given: Any) -> None:
        calls.append(given)
        real(*given)

    monkeypatch.setattr(wakeups, "tell", tell)
    workflow_id = plant.start(workflows.three, "c")
    assert len(calls) == 1
    with running():
        until_closed(plant, workflow_id)
    assert len(calls) == 1


def listeners() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'durable listener'"
        )
        return [pid for (pid,) in cursor.fetchall()]


def end_listeners() -> None:
    with connection.cursor() as cursor:
        for pid in listeners():
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])


def test_with_the_channel_cut_work_is_found_by_polling_and_the_loss_is_told_once(
    plant: Plant, notify: None, settings: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults C7: in the log, in the worker's row, and by `durable health`; the probe stays green."""
    settings.DURABLE = settings.DURABLE | {"RECONCILE_EVERY": timedelta(milliseconds=50)}
    with running() as (worker, _):
        until(lambda: worker.listener.wakes_by is WakesBy.NOTIFICATION)
        until(lambda: _wakes_by() == ["notification"])
        opened = Listener._open  # a connection that is refused
        monkeypatch.setattr(Listener, "_open", _refused)
        end_listeners()
        until(lambda: worker.listener.wakes_by is WakesBy.LOST)
        until(lambda: any("lost its wake-up channel" in problem for problem in look.health().problems))
        until_closed(plant, plant.start(workflows.three, "d"))
        assert worker.complaints() == []
        monkeypatch.setattr(Listener, "_open", opened)
        until(lambda: worker.listener.wakes_by is WakesBy.NOTIFICATION)
        until(lambda: look.health().problems == ())
    assert caplog.text.count("wake_up_channel_lost") == 1
    until(lambda: listeners() == [])


def _refused(listener: Listener) -> None:
    from django.db import OperationalError

    raise OperationalError("refused")


def _wakes_by() -> list[str]:
    from durable.models import Worker

    return list(Worker.objects.values_list("wakes_by", flat=True))


def test_a_channel_that_does_not_carry_its_own_word_is_lost(
    plant: Plant, notify: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Faults C7: half open, or behind a pooler that gives each statement another session."""
    monkeypatch.setattr(listening, "ECHO_WITHIN", 0.0)
    monkeypatch.setattr(Listener, "_heard", lambda listener, seconds, stop_after: False)  # an echo that never comes
    one = Listener(alias="default", queues=None, ring=lambda: None)
    assert one.step() == 0.0
    assert one.step() > 0.0
    assert one.wakes_by is WakesBy.LOST
    assert "own NOTIFY did not come back" in caplog.text


def test_an_idle_worker_is_woken_across_processes(
    plant: Plant, notify: None, settings: Any, second_connection: Callable[..., Future[Any]]
) -> None:
    """The loops would not look by themselves for an hour."""
    settings.DURABLE = settings.DURABLE | {"POLL_FOR": timedelta(hours=1)}
    with running() as (worker, _):
        until(lambda: worker.ready.is_set() and worker.listener.wakes_by is WakesBy.NOTIFICATION)
        for number in range(5):
            until_closed(plant, second_connection(plant.enqueue, activities.add, number, 1).result(PATIENCE))
