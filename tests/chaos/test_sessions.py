"""PostgreSQL ends sessions under a working worker, and counts them."""

from __future__ import annotations

import os
import uuid
from functools import partial
from pathlib import Path

import pytest
from django.db import connection

from durable.models import FailedAttempt, OutboxRow
from tests.chaos import evidence
from tests.chaos.fleet import FULL, Fleet, chance, pass_time, tell, until
from tests.chaos.sessions import OTHERS, end_all_sessions
from tests.chaos.stand import Stand
from tests.worker.conftest import Plant
from tests.worker.plant import activities, workflows
from tests.worker.threads import running

pytestmark = pytest.mark.skipif(
    os.environ.get("DURABLE_TEST_DATABASE") != "postgresql", reason="sessions of a server's"
)

BLOWS = 60 if FULL else 12


def sessions() -> int:
    """How many sessions others have on this database."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) {OTHERS}")
        count: int = cursor.fetchone()[0]
        return count


def are_gone(ended: list[int]) -> bool:
    """Whether these sessions are over; ending them only asks for it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)", [ended])
        return bool(cursor.fetchone() == (0,))


def test_sessions_that_end_between_two_activities_cost_a_counted_attempt_at_most(
    plant: Plant, fleet: Fleet, tmp_path: Path
) -> None:
    """Faults C1: and the worker stays."""
    stand = Stand(tmp_path, deliveries=1)
    worker = fleet.hire()
    workflow_id = plant.start(workflows.around, str(tmp_path), "a")
    stand.wait_for_arrival(1)
    end_all_sessions()
    stand.let_go(1)
    until(
        lambda: not evidence.open_ones([workflow_id]),
        within=180,
        stuck=lambda: f"{evidence.what_is_stuck([workflow_id])}\n{fleet.tails()}",
    )
    assert plant.labels() == ["a before", "a", "a after"]
    assert sum(evidence.lost_attempts().values()) <= 1
    evidence.assert_nothing_is_left()
    assert worker.stop() == 0


def test_a_session_that_ends_while_its_thread_rests_costs_the_next_handler_nothing(plant: Plant) -> None:
    """Faults C1, C4: before a handler the thread looks whether the server has said good-bye, however short the rest."""
    definitions = [activities.note, activities.note_async, activities.write_once]
    with running(concurrency=1):
        for number in range(4):
            ids = [plant.enqueue(definition, f"{number}") for definition in definitions]
            until(partial(_ended, ids), within=180, stuck=partial(evidence.what_is_stuck, ids))
            until(partial(are_gone, end_all_sessions()), within=180, stuck=str)
    assert len(plant.labels()) == 4 * len(definitions)
    assert set(OutboxRow.objects.values_list("attempts", "deliveries")) == {(1, 1)}
    assert not FailedAttempt.objects.exists()


def _ended(ids: list[uuid.UUID]) -> bool:
    return not evidence.open_ones(ids)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sessions_ended_again_and_again_lose_nothing_and_record_nothing_twice(plant: Plant, fleet: Fleet) -> None:
    """Faults C1, C7: at random moments, in turns, claims, handlers, acknowledgements and commits; listeners as well."""
    rng = chance("sessions")
    crew = [fleet.hire(PLANT_LEASE="2"), fleet.hire(PLANT_LEASE="2", PLANT_NOTIFY="1")]
    labels: dict[uuid.UUID, str] = {}
    for _ in range(BLOWS):
        for _ in range(8):
            label = f"journey {len(labels)}"
            workflow_id = plant.start(workflows.journey, label)
            labels[workflow_id] = label
            plant.signal(workflow_id, "go", "home")
        pass_time(rng.uniform(0, 1))
        end_all_sessions()
    until(
        lambda: not evidence.open_ones(labels),
        within=300,
        stuck=lambda: f"{evidence.what_is_stuck(labels)}\n{fleet.tails()}",
    )
    assert [member.process.poll() for member in crew] == [None, None]
    evidence.assert_journeys_ended_well(labels)
    assert [member.stop() for member in crew] == [0, 0]
    lost = dict(evidence.lost_attempts())
    tell(f"{len(labels)} workflows, all sessions ended {BLOWS} times, lost deliveries: {lost}")


def test_a_worker_has_no_more_sessions_than_threads(plant: Plant, fleet: Fleet) -> None:
    """Faults C2: after 200 sync activities; and none when it has stopped."""
    ids = [plant.enqueue(activities.note, f"b{number}") for number in range(200)]
    worker = fleet.hire()
    until(lambda: not evidence.open_ones(ids), within=180, stuck=lambda: evidence.what_is_stuck(ids))
    threads = len(list(Path(f"/proc/{worker.process.pid}/task").iterdir()))
    assert 0 < sessions() <= threads + 2
    assert worker.stop() == 0
    until(lambda: sessions() == 0, within=180, stuck=fleet.tails)


def test_a_worker_that_ran_in_a_thread_leaves_no_session_that_would_hold_up_dropping_the_database(
    plant: Plant,
) -> None:
    """Faults C2."""
    ids = [plant.enqueue(activities.note, f"c{number}") for number in range(50)]
    ids += [plant.enqueue(activities.note_async, f"d{number}") for number in range(5)]
    with running():
        until(lambda: not evidence.open_ones(ids), within=180, stuck=lambda: evidence.what_is_stuck(ids))
    until(lambda: sessions() == 0, within=180, stuck=lambda: f"{sessions()} sessions")
