"""Nothing of a handler's session meets the next handler on its thread, in whatever way the two run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, connections
from django.db.backends.signals import connection_created

from durable.kernel.definitions.definition import ActivityDefinition
from durable.kernel.definitions.registry import registry
from durable.outcomes import WorkflowStatus
from durable.worker.handlers import pool as pools
from tests.hosting import hosted
from tests.settings import VENDOR
from tests.waiting import PATIENCE, Gate, in_thread
from tests.worker.conftest import Plant
from tests.worker.plant import sessions

postgresql = pytest.mark.skipif(VENDOR != "postgresql", reason="about PostgreSQL")

WAYS = [
    sessions.in_sync,
    sessions.in_transactional,
    sessions.in_async,
    sessions.in_to_thread,
    sessions.in_not_sensitive,
    sessions.in_own_loop,
    sessions.in_bridged,
]
KEPT = [sessions.in_sync, sessions.in_transactional, sessions.in_async, sessions.in_own_loop, sessions.in_bridged]
"""Those whose thread, and whose connection on PostgreSQL, the next handler gets."""


@pytest.fixture(autouse=True)
def told(plant: Plant, settings: Any) -> Iterator[list[Any]]:
    """What the handlers have said. There is one slot, so that each comes after the other, on the same thread."""
    settings.DURABLE = {**settings.DURABLE, "CONCURRENCY": 1}
    for definition in vars(sessions).values():
        if isinstance(definition, ActivityDefinition):
            registry.add_activity(definition)
    sessions.SAID.clear()
    yield sessions.SAID
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("DROP SCHEMA IF EXISTS tenant CASCADE")


def run(plant: Plant, *calls: tuple[Any, ...]) -> list[WorkflowStatus]:
    """Enqueue each call, work until nothing is due, in order, and return how they ended."""
    ids = [plant.enqueue(*call) for call in calls]
    plant.burst()
    return [plant.look(one).status for one in ids]


def one_thread(told: list[Any]) -> bool:
    return len({who[0] for _, _, who in told}) == 1


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_no_session_state_and_no_lock_meets_the_next_handler(plant: Plant, told: list[Any], way: Any) -> None:
    """Faults K9: what a new session has is what the next handler finds."""
    ended = run(plant, (way, "look"), (way, "leave"), (way, "look"))
    assert ended == [WorkflowStatus.COMPLETED] * 3
    (_, new, _), _, (_, after, _) = told
    assert after == new
    assert one_thread(told) or way not in KEPT
    if connection.vendor == "postgresql" and way in KEPT:
        assert len({session for _, _, (_, session) in told}) == 1, "reset, not opened anew"


@pytest.mark.parametrize("way", [sessions.in_sync, sessions.in_async, sessions.in_transactional], ids=lambda w: w.name)
def test_a_handler_that_raises_leaves_nothing_either(plant: Plant, told: list[Any], way: Any) -> None:
    ended = run(plant, (way, "look"), (way, "raise"), (way, "look"))
    assert ended == [WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.COMPLETED]
    assert told[0][1] == told[1][1]


def test_a_sync_handler_meets_nothing_of_an_async_one_and_the_other_way_round(plant: Plant, told: list[Any]) -> None:
    way, other = sessions.in_own_loop, sessions.in_async
    run(plant, (way, "look"), (way, "leave"), (other, "look"), (other, "leave"), (way, "look"))
    looks = [seen for what, seen, _ in told if what == "look"]
    assert looks[0] == looks[1] == looks[2]
    assert one_thread(told), "they share the thread for database calls of async code"


def test_with_the_setting_off_the_session_is_kept_as_it_is(plant: Plant, told: list[Any], settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "RESET_CONNECTIONS": False}
    run(plant, (sessions.in_sync, "look"), (sessions.in_sync, "leave"), (sessions.in_sync, "look"))
    assert told[0][1] != told[2][1]
    assert told[2][1]["tables"] == 1


@pytest.mark.parametrize("age", [0, None, 600])
def test_a_session_is_reset_whatever_the_host_says_about_the_age_of_connections(
    plant: Plant, told: list[Any], age: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", age)
    run(plant, (sessions.in_sync, "look"), (sessions.in_sync, "leave"), (sessions.in_sync, "look"))
    assert told[0][1] == told[2][1]


@pytest.mark.parametrize("how", ["leave", "leave types"])
def test_what_the_driver_keeps_on_its_side_does_not_meet_the_next_handler(
    plant: Plant, told: list[Any], how: str
) -> None:
    run(plant, (sessions.in_driver, "look"), (sessions.in_driver, how), (sessions.in_driver, "look"))
    assert told[0][1] == told[2][1]


@postgresql
@pytest.mark.parametrize("threshold", [0, 2, 5])
def test_the_drivers_prepared_statements_survive_the_reset(
    plant: Plant, told: list[Any], monkeypatch: pytest.MonkeyPatch, threshold: int
) -> None:
    """The server forgets them; a driver that did not know would ask for a statement that does not exist."""
    options = {
        **connections.settings["default"]["OPTIONS"],
        "prepare_threshold": threshold,
        "server_side_binding": True,
    }
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", options)
    ended = run(plant, *[(sessions.same_query_many_times, str(number)) for number in range(4)])
    assert ended == [WorkflowStatus.COMPLETED] * 4
    assert len({session for _, _, (_, session) in told}) == 1


@postgresql
def test_what_the_host_does_to_each_new_connection_is_done_after_a_reset_too(plant: Plant, told: list[Any]) -> None:
    """A listener of `connection_created` is where hosts put their SET; a reset would undo it for all but the first."""

    def host(connection: Any, **_signal: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET application_name = 'of the host'")

    connection_created.connect(host)
    try:
        run(plant, (sessions.in_sync, "look"), (sessions.in_sync, "leave"), (sessions.in_sync, "look"))
    finally:
        connection_created.disconnect(host)
    assert [told[at][1]["application_name"] for at in (0, 2)] == ["of the host"] * 2


@postgresql
def test_a_listener_that_registers_types_anew_after_each_reset_costs_no_connection(
    plant: Plant, told: list[Any]
) -> None:
    """As that of django.contrib.postgres for hstore does, with a class of its own each time."""
    from psycopg.types.string import TextLoader

    def host(connection: Any, **_signal: Any) -> None:
        connection.connection.adapters.register_loader("json", type("Loader", (TextLoader,), {}))

    connection_created.connect(host)
    try:
        run(plant, *[(sessions.in_sync, "look")] * 4)
    finally:
        connection_created.disconnect(host)
    assert len({session for _, _, (_, session) in told}) == 1


@postgresql
def test_a_listener_that_fails_after_a_reset_costs_the_connection_and_nothing_else(
    plant: Plant, told: list[Any]
) -> None:
    seen: set[int] = set()

    def host(connection: Any, **_signal: Any) -> None:
        pid = connection.connection.info.backend_pid
        if threading.current_thread().name.startswith("durable-handler") and pid in seen:
            raise SystemError("not twice")
        seen.add(pid)

    connection_created.connect(host)
    try:
        ended = run(plant, (sessions.in_sync, "look"), (sessions.in_sync, "look"))
    finally:
        connection_created.disconnect(host)
    assert ended == [WorkflowStatus.COMPLETED] * 2
    assert len({session for _, _, (_, session) in told}) == 2


@postgresql
def test_a_handler_that_used_no_connection_pays_nothing(
    plant: Plant, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from durable.worker.handlers import isolation

    resets: list[str] = []
    real = isolation._discard_all  # how often a session is reset shows in no result

    def counted(connection: Any) -> None:
        resets.append(connection.alias)
        real(connection)

    monkeypatch.setattr(isolation, "_discard_all", counted)
    idle = [(sessions.nothing, str(number)) for number in range(5)]
    run(plant, (sessions.in_sync, "look"), *idle, (sessions.in_sync, "look"))
    assert one_thread(told)
    assert resets == ["default"] * 2


def test_a_thread_that_rests_has_closed_its_connections(
    plant: Plant, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever CONN_MAX_AGE says."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", None)
    rested: list[bool] = []
    real = pools.HandlerPool._rest  # the moment in which a thread begins to rest

    def rest(pool: Any) -> None:
        real(pool)
        rested.append(all(one.connection is None for one in connections.all(initialized_only=True)))

    monkeypatch.setattr(pools.HandlerPool, "_rest", rest)
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.01)
    run(plant, (sessions.in_sync, "look"))
    run(plant, (sessions.in_sync, "look"))
    assert rested
    assert all(rested)


@pytest.mark.parametrize("way", [sessions.in_python, sessions.in_python_async], ids=lambda way: way.name)
def test_nothing_of_a_context_meets_the_next_handler(plant: Plant, told: list[Any], way: Any) -> None:
    """Language, time zone, decimal context, context variables, what structlog has bound."""
    run(plant, (way, "look"), (way, "leave"), (way, "look"))
    looks = [seen for what, seen, _ in told if what == "look"]
    assert looks[0] == looks[-1]
    assert next(seen for what, seen, _ in told if what == "leave") != looks[0]


@postgresql
@pytest.mark.parametrize("how", ["leave", "leave_open"])
def test_what_goes_back_to_a_pool_takes_nothing_along(plant: Plant, told: list[Any], how: str) -> None:
    with hosted(options={"pool": {"min_size": 1, "max_size": 1}}):
        run(plant, (sessions.in_sync, "look"), (sessions.in_sync, how), (sessions.in_sync, "look"))
    assert told[0][1] == told[2][1]
    assert told[0][1]["locks"] == 0


def test_a_transaction_that_an_async_handler_left_open_is_its_own_alone(plant: Plant, told: list[Any]) -> None:
    """Faults K9: on the one thread that async handlers shared, it was everybody's."""
    ended = run(plant, (sessions.in_async, "leave_open"), (sessions.in_async, "look"))
    assert ended == [WorkflowStatus.FAILED, WorkflowStatus.COMPLETED]


def test_a_task_that_outlives_its_handler_gets_into_nobody_elses_transaction(plant: Plant, told: list[Any]) -> None:
    """Its calls go to a thread apart, and what one of them leaves open ends with that call."""
    ended = run(plant, (sessions.leaves_a_task, "late"), (sessions.beside_a_task, "next"))
    assert ended == [WorkflowStatus.COMPLETED] * 2
    assert [(what, seen) for what, seen, _ in told] == [("late 0", True), ("late 1", True), ("next", 1)]
    assert len({thread for _, _, (thread, _) in told}) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # SQLite's, of a database that is closed
def test_an_iterator_that_was_begun_and_dropped_does_not_fail_the_next_handlers_transaction(
    plant: Plant, told: list[Any]
) -> None:
    """Python closes its cursor when it collects the garbage, and the server knows no such cursor any more."""
    ended = run(plant, (sessions.in_iterator, "begun"), (sessions.in_collector, "next"))
    assert ended == [WorkflowStatus.COMPLETED] * 2
    assert one_thread(told)


def test_async_handlers_beside_each_other_share_no_connection(
    plant: Plant, told: list[Any], settings: Any, door: Callable[[str], Gate]
) -> None:
    settings.DURABLE = {**settings.DURABLE, "CONCURRENCY": 3}
    gate = door("beside")
    ids = [plant.enqueue(sessions.in_async, "beside") for _ in range(3)]
    worker = in_thread(plant.burst)
    gate.wait_for_arrival(3)
    gate.open()
    worker.result(PATIENCE)
    assert {plant.look(one).status for one in ids} == {WorkflowStatus.COMPLETED}
    assert len({thread for _, _, (thread, _) in told}) == 3
