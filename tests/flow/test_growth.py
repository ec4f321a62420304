"""Many live workflows: what has begun goes on before more begins, and what is in memory before what is not."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from durable.flow.caller import signal
from durable.flow.operator import pause, resume
from durable.flow.turns import choosing, preparing
from durable.models import Message, Workflow
from durable.outcomes import Company, TurnReport
from durable.store.runs import due
from tests.flow import cases
from tests.flow.driver import Driver, history, workflow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_waits_for_long(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is: a test lets time pass by itself."""
    settings.DURABLE = {"START_WAIT_FOR": timedelta(hours=10)}
    monkeypatch.setattr(choosing, "OVERTAKEN_FOR", 36_000.0)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a workflow that had begun was found in memory when it got its turn, and how often it was not."""
    counted: Counter[str] = Counter()
    real = preparing._warm  # whether a workflow was in memory shows in no result

    def warm(cache: Any, one: Any) -> Any:
        execution = real(cache, one)
        if one.history_events > 1:
            counted["hits" if execution is not None else "misses"] += 1
        return execution

    monkeypatch.setattr(preparing, "_warm", warm)
    return counted


def let_pass(seconds: float, *owners: uuid.UUID) -> None:
    """What waits for these workflows has waited so much longer."""
    span = timedelta(seconds=seconds)
    Message.objects.filter(workflow_id__in=owners).update(visible_at=F("visible_at") - span)


def has_begun(owner: uuid.UUID) -> bool:
    return len(history(owner)) > 1


def begun(driver: Driver, count: int) -> list[uuid.UUID]:
    """Workflows that this driver has in memory, and that wait for a signal."""
    owners = [driver.start(cases.signals, 9) for _ in range(count)]
    assert driver.turn(limit=count).workflows == count
    return owners


def tell(*owners: uuid.UUID, waited: float = 0.0) -> None:
    """A signal for each, which has waited for so many seconds."""
    for owner in owners:
        signal.signal(owner, "go", payload="null")
    let_pass(waited, *owners)


def signalled(driver: Driver, count: int, *, cold: int = 0, cold_waited: float = 0.0) -> list[uuid.UUID]:
    """Workflows that this driver has in memory, each with a signal to read; and some that nobody has."""
    owners, other = begun(driver, count), Driver(name="other")
    not_here = begun(other, cold) if cold else []
    other.cache.drop_all()
    tell(*not_here, waited=cold_waited)
    tell(*owners)
    return owners


def test_however_many_are_started_no_history_is_replayed(found: Counter[str]) -> None:
    """Five times as many as find room in memory, with more to do than there are slots."""
    driver = Driver(cached=16)
    owners = [driver.start(cases.sequence, 5) for _ in range(80)]
    closed = 0
    for _ in range(1000):
        closed += driver.turn(limit=10, idle=0).closed
        driver.complete(*driver.claim(limit=4), payload="1")
        if closed == len(owners):
            break
    assert closed == len(owners)
    assert found == {"hits": 80 * 5}
    driver.cache.drop_all()


@pytest.mark.parametrize(("cached", "share"), [(24, 1.0), (12, 0.5), (6, 0.25)])
def test_when_all_have_begun_as_many_turns_find_theirs_in_memory_as_there_is_room_for(
    found: Counter[str], cached: int, share: float
) -> None:
    """Faults K13: results come in the order of the claims, round and round, and one by one."""
    driver = Driver(cached=cached)
    for _ in range(24):
        driver.start(cases.sequence, 6)
    while driver.turn(limit=10).workflows:
        pass
    while claims := driver.claim(limit=24):
        for one in claims:
            driver.complete(one, payload="1")
            assert driver.turn(limit=1).workflows == 1
    assert not Workflow.objects.exclude(status="completed").exists()
    assert found.total() == 24 * 6
    assert found["hits"] >= 0.85 * share * 24 * 6
    driver.cache.drop_all()


def test_after_a_restart_each_is_replayed_about_once(found: Counter[str]) -> None:
    """All have begun, none is in memory, and all have something to do at once."""
    first, second = Driver(cached=50), Driver(cached=10)
    for _ in range(40):
        first.start(cases.sequence, 6)
    first.turn(limit=40)
    first.complete(*first.claim(limit=40), payload="1")
    first.cache.drop_all()
    closed = 0
    while closed < 40:
        closed += second.turn(limit=10, idle=0).closed
        second.complete(*second.claim(limit=10), payload="1")
    assert found["misses"] <= 2 * 40
    assert found["hits"] >= 40 * 6 - 2 * 40
    second.cache.drop_all()


@pytest.mark.parametrize("cached", [1, 2, 3, 17, 20])
def test_a_batch_that_finds_more_than_there_is_room_for_loses_nothing(cached: int) -> None:
    """Some are in memory, some are replayed, and to keep one another one of the same batch has to go."""
    driver = Driver(cached=cached)
    owners = [driver.start(cases.sequence, 4) for _ in range(30)]
    driver.turn(limit=30)
    for _ in range(4):
        driver.complete(*driver.claim(limit=30), payload="1")
        assert driver.turn(limit=30).workflows == 30
    assert {workflow(owner).status for owner in owners} == {"completed"}


def test_what_has_begun_comes_before_starts_that_have_waited_longer(driver: Driver) -> None:
    begun = signalled(driver, 4)
    start = driver.start(cases.signalled)
    let_pass(3600, start)
    assert driver.turn(limit=3).workflows == 3
    assert not has_begun(start)
    assert driver.turn(limit=3).workflows == 2
    assert has_begun(start)
    assert all(history(owner)[-1] == "signal_received" for owner in begun)


def test_a_start_that_has_waited_for_its_bound_comes_next(driver: Driver, settings: Any) -> None:
    """With half of the batch: those that go on do so however many are started."""
    signalled(driver, 6)
    starts = [driver.start(cases.signalled) for _ in range(6)]
    let_pass(36_001, *starts)
    assert driver.turn(limit=4, idle=0).workflows == 4
    assert sum(has_begun(owner) for owner in starts) == 2


def test_how_long_a_start_waits_is_a_setting(driver: Driver, settings: Any) -> None:
    settings.DURABLE = {"START_WAIT_FOR": timedelta()}
    signalled(driver, 4)
    start = driver.start(cases.signalled)
    assert driver.turn(limit=2, idle=0).workflows == 2
    assert has_begun(start)


def at_work(cached: int = 2) -> Driver:
    """A process whose memory is full of workflows that wait for their activities."""
    driver = Driver(cached=cached)
    for _ in range(cached):
        driver.start(cases.sequence, 3)
    assert driver.turn().staged == cached
    return driver


def test_while_those_in_memory_keep_all_slots_at_work_nothing_more_begins() -> None:
    driver = at_work()
    start = driver.start(cases.nothing)
    assert driver.turn(idle=0) == TurnReport(without_room=1)
    driver.complete(driver.claim(limit=1)[0], payload="1")
    assert driver.turn(idle=0).workflows == 1
    assert not has_begun(start)


def test_another_process_that_has_room_takes_it_at_once() -> None:
    driver = at_work()
    driver.start(cases.nothing)
    assert driver.turn(idle=0) == TurnReport(without_room=1)
    assert Driver(company=Company.OTHERS).turn(idle=0).closed == 1


@pytest.mark.parametrize(("idle", "begun"), [(1, 1), (3, 3), (None, 5)])
def test_as_many_begin_as_there_are_slots_for_which_nothing_is_there(idle: int | None, begun: int) -> None:
    driver = at_work()
    for _ in range(5):
        driver.start(cases.nothing)
    assert driver.turn(idle=idle).closed == begun


def test_what_would_have_to_be_replayed_waits_likewise_but_for_a_few() -> None:
    driver, other = at_work(20), Driver(name="other")
    cold = begun(other, 10)
    other.cache.drop_all()
    tell(*cold)
    assert driver.turn(limit=40, idle=0).workflows == 1
    assert driver.turn(limit=40, idle=3).workflows == 4


def test_one_begins_when_one_has_ended() -> None:
    driver = at_work()
    starts = [driver.start(cases.signalled) for _ in range(3)]
    for _ in range(3):
        driver.complete(min(driver.claim(limit=2), key=lambda one: one.row_id), payload="1")
        driver.turn(idle=0)
    assert sum(has_begun(owner) for owner in starts) <= 2


def test_workflows_that_sleep_for_days_keep_nobody_from_beginning() -> None:
    driver = Driver(cached=2)
    for _ in range(20):
        driver.start(cases.sleeper, 86_400)
    turns = [driver.turn(limit=4, idle=0).workflows for _ in range(5)]
    assert turns == [2] * 5


def test_a_process_that_keeps_nothing_in_memory_lets_nothing_wait() -> None:
    driver = Driver(cached=0)
    for _ in range(5):
        driver.start(cases.sequence, 1)
    assert driver.turn(limit=2, idle=0).workflows == 2
    assert driver.turn(limit=9, idle=0).workflows == 3


def test_with_room_for_one_all_come_to_their_end() -> None:
    driver = Driver(cached=1)
    for _ in range(5):
        driver.start(cases.sequence, 3)
    closed = 0
    for _ in range(100):
        closed += driver.turn(limit=2, idle=0).closed
        driver.complete(*driver.claim(limit=1), payload="1")
    assert closed == 5


def test_a_signal_before_the_first_turn_is_no_way_round() -> None:
    driver = at_work()
    start = driver.start(cases.signalled)
    signal.signal(start, "go", payload="null")
    assert driver.turn(idle=0) == TurnReport(without_room=1)
    assert driver.turn(idle=1).closed == 1


def test_starts_of_paused_workflows_do_not_wait_to_be_put_aside() -> None:
    driver = Driver()
    owner = driver.start(cases.nothing)
    pause.pause(owner, actor="me")
    driver.turn(idle=0)
    assert not has_begun_code(owner)
    resume.resume(owner, actor="me")
    assert driver.turn(idle=0).closed == 1


def has_begun_code(owner: uuid.UUID) -> bool:
    return bool({"workflow_begun", "workflow_completed"} & set(history(owner)))


def test_a_fan_out_in_memory_goes_on_however_wide_it_is(found: Counter[str]) -> None:
    driver = Driver(cached=4)
    owner = driver.start(cases.fan_out, 30)
    others = [driver.start(cases.sequence, 2) for _ in range(10)]
    for _ in range(100):
        driver.turn(limit=2, idle=0)
        driver.complete(*driver.claim(limit=10), payload="1")
    assert {workflow(one).status for one in [owner, *others]} == {"completed"}
    assert found["misses"] == 0


def test_what_is_in_memory_is_found_behind_more_than_is_looked_at(driver: Driver, found: Counter[str]) -> None:
    warm = signalled(driver, 3, cold=20, cold_waited=60)
    assert driver.turn(limit=3).workflows == 3
    assert [history(owner)[-1] for owner in warm] == ["signal_received"] * 3
    assert found == {"hits": 3}


def test_what_is_in_memory_is_found_when_timers_wake_it_behind_more_than_is_looked_at(found: Counter[str]) -> None:
    driver, other = Driver(), Driver(name="other")
    warm = [driver.start(cases.sleeper, 3600) for _ in range(2)]
    driver.turn()
    for _ in range(10):
        other.start(cases.sleeper, 3600)
    other.turn()
    other.cache.drop_all()
    Workflow.objects.exclude(id__in=warm).update(wake_at=F("wake_at") - timedelta(hours=3))
    Workflow.objects.filter(id__in=warm).update(wake_at=F("wake_at") - timedelta(hours=2))
    assert driver.turn(limit=2).workflows == 2
    assert found == {"hits": 2}


def test_beyond_its_reach_it_asks_for_those_that_were_acknowledged_here_and_at_times_for_all(driver: Driver) -> None:
    one, *others = signalled(driver, 3, cold=40, cold_waited=60)
    hints = choosing.Hints()
    hints.add(one)
    hints.add(uuid.uuid4())

    def look() -> set[uuid.UUID]:
        chosen = choosing.choose(
            connection, driver.cache, queues=None, limit=4, company=Company.ALONE, idle=4, hints=hints
        )
        return set(chosen.waited) & {one, *others}

    assert look() == {one}
    assert [look() == {one} for _ in range(choosing.ASK_FOR_ALL - 2)] == [True] * (choosing.ASK_FOR_ALL - 2)
    assert look() == {one, *others}


@pytest.mark.parametrize("cold_waited", [0, 36_001])
def test_a_few_that_have_to_be_replayed_are_in_every_batch(
    driver: Driver, found: Counter[str], cold_waited: float
) -> None:
    """And no more than those, however long they have waited: memory has no place for them."""
    signalled(driver, 60, cold=10, cold_waited=cold_waited)
    driver.turn(limit=40)
    assert found["misses"] == 2
    assert found["hits"] >= 38


def test_one_that_was_overtaken_for_long_is_in_the_smallest_batch(driver: Driver, found: Counter[str]) -> None:
    signalled(driver, 10, cold=10, cold_waited=36_001)
    driver.turn(limit=2)
    assert found == {"hits": 1, "misses": 1}


def test_a_flood_for_one_workflow_hides_no_other(driver: Driver) -> None:
    """However many messages wait for it before theirs, up to 64 times what is looked at at first."""
    flooded, *others = begun(driver, 3)
    for _ in range(40):
        tell(flooded, waited=60)
    tell(*others)
    driver.cache.drop_all()
    assert driver.turn(limit=3).workflows == 3
    assert [history(owner)[-1] for owner in others] == ["signal_received"] * 2


def test_signals_for_what_has_not_begun_hide_nothing_that_has() -> None:
    driver, other = at_work(), Driver(name="other")
    [cold] = begun(other, 1)
    other.cache.drop_all()
    tell(*(driver.start(cases.signalled) for _ in range(90)))
    tell(cold)
    assert driver.turn(limit=20, idle=0).workflows == 1
    assert history(cold)[-1] == "signal_received"


@pytest.mark.parametrize(("cold", "statements"), [(3, 1), (30, 2)])
def test_a_look_is_one_statement_and_one_more_where_it_does_not_reach_what_is_in_memory(
    driver: Driver, cold: int, statements: int
) -> None:
    signalled(driver, 3, cold=cold, cold_waited=60)
    with CaptureQueriesContext(connection) as captured:
        choosing.choose(connection, driver.cache, queues=None, limit=4, company=Company.ALONE, idle=4)
    assert len(captured) == statements


def test_a_look_for_named_queues_finds_starts_and_messages_of_those_only(driver: Driver) -> None:
    mine, other = driver.start(cases.signalled, queue="mine"), driver.start(cases.signalled, queue="other")

    def looked() -> set[uuid.UUID]:
        return {one.owner for one in due.owners(connection, messages=9, timers=9, starts=9, queues=("mine",))}

    assert looked() == {mine}
    driver.turn()
    for owner in (mine, other):
        signal.signal(owner, "go", payload="null")
    assert looked() == {mine}
