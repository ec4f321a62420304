"""A rolling deploy of durable itself: workers of the older version meet what the newer one has written."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from durable import testing
from durable.errors import NewerEngine
from durable.flow.caller import signal
from durable.flow.operator import terminate, unblock
from durable.flow.turns.deciding import UNKNOWN_TYPE_WAITS
from durable.kernel.definitions.registry import Registry, registry
from durable.kernel.history import events as history_events
from durable.kernel.history import known
from durable.models import Event, Message, Workflow
from durable.testing.errors import NotReplayable
from tests.conftest import FrozenClock
from tests.flow import cases
from tests.flow import driver as rows_of
from tests.flow.driver import Driver, history

pytestmark = pytest.mark.django_db

PATIENCE = timedelta(minutes=5)


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(cached=request.param)


def stored(workflow_id: uuid.UUID) -> Workflow:
    return rows_of.workflow(workflow_id)


def recorded(workflow_id: uuid.UUID, type: str, data: Any, at: Any) -> None:
    """A newer engine's turn: an event, and the row that counts it."""
    row = stored(workflow_id)
    Event.objects.create(workflow_id=workflow_id, seq=row.last_seq + 1, type=type, data=data, recorded_at=at)
    Workflow.objects.filter(id=workflow_id).update(last_seq=row.last_seq + 1, history_bytes=0)


def forgotten(workflow_id: uuid.UUID) -> None:
    """The same turn as if it had never been."""
    row = stored(workflow_id)
    Event.objects.get(workflow_id=workflow_id, seq=row.last_seq).delete()
    Workflow.objects.filter(id=workflow_id).update(last_seq=row.last_seq - 1, history_bytes=0)


NEWER_EVENTS: list[Any] = [
    pytest.param("reply_given", {"to": "x"}, "'reply_given'", id="type"),
    pytest.param("marker_recorded", {"kind": "toggle", "id": "fraud-check"}, "'toggle'", id="marker"),
    pytest.param("timer_fired", {"timer": [1, 0], "engine": known.ENGINE + 1}, "the engine 2", id="engine"),
    pytest.param("timer_fired", {"timer": [1, 0], "engine": "3b"}, "the engine '3b'", id="engine no number"),
]


@pytest.mark.parametrize(("type", "data", "words"), NEWER_EVENTS)
def test_a_history_with_a_newer_event_is_put_off_then_shown(
    driver: Driver, frozen_clock: FrozenClock, settings: Any, type: str, data: dict[str, Any], words: str
) -> None:
    """For the set time it is only looked at now and then; from then on it is blocked, and says what is not known."""
    settings.DURABLE = {"UNKNOWN_HANDLER_FOR": PATIENCE}
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    recorded(workflow_id, type, data, frozen_clock.now)
    signal.signal(workflow_id, "go", payload="1")
    before = history(workflow_id)
    driver.turn()
    assert driver.turn().workflows == 0, "it is looked at again after a while only"
    frozen_clock.move(PATIENCE - timedelta(seconds=1))
    driver.turn()
    assert (stored(workflow_id).blocked_reason, history(workflow_id)) == ("", before)
    assert list(Message.objects.values_list("parked", flat=True)) == [False]
    frozen_clock.move(UNKNOWN_TYPE_WAITS)
    driver.turn()
    found = stored(workflow_id)
    assert (found.status, words in found.blocked_reason) == ("running", True), found.blocked_reason
    assert found.error_class == "durable.errors.NewerEngine"
    assert history(workflow_id) == [*before, "workflow_blocked"]


def test_a_workflow_is_put_off_from_the_moment_of_the_newer_event_however_long_its_message_waits(
    driver: Driver, frozen_clock: FrozenClock, settings: Any
) -> None:
    """All workers were down for an hour, and the first that came back is a newer one."""
    settings.DURABLE = {"UNKNOWN_HANDLER_FOR": PATIENCE}
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    signal.signal(workflow_id, "go", payload="1")
    frozen_clock.move(timedelta(hours=1))
    recorded(workflow_id, "reply_given", {}, frozen_clock.now)
    driver.turn()
    assert stored(workflow_id).blocked_reason == ""


def test_what_comes_after_a_newer_message_waits_with_it(driver: Driver, frozen_clock: FrozenClock) -> None:
    """The older engine must not end the workflow past it."""
    workflow_id = driver.start(cases.sequence, 2)
    driver.turn()
    now = frozen_clock.now
    newer = Message.objects.create(
        workflow_id=workflow_id, run=1, kind="newer", payload="{}", visible_at=now, created_at=now
    )
    driver.turn()
    newer.refresh_from_db()
    assert newer.visible_at > now
    before = history(workflow_id)
    driver.run()
    assert (stored(workflow_id).status, history(workflow_id)) == ("running", before)
    newer.delete()
    frozen_clock.move(2 * UNKNOWN_TYPE_WAITS)
    driver.run()
    assert stored(workflow_id).status == "completed"


@pytest.mark.parametrize(("type", "data", "words"), NEWER_EVENTS)
def test_a_newer_event_stops_no_other_workflow_of_the_batch(
    driver: Driver, frozen_clock: FrozenClock, type: str, data: dict[str, Any], words: str
) -> None:
    workflow_id, sound = driver.start(cases.signalled), driver.start(cases.signalled)
    driver.turn()
    recorded(workflow_id, type, data, frozen_clock.now)
    for owner in (workflow_id, sound):
        signal.signal(owner, "go", payload="1")
    driver.turn()
    assert stored(sound).result == "1"
    assert stored(workflow_id).status == "running"


def test_a_worker_that_knows_goes_on_as_if_nothing_had_been(
    driver: Driver, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer one, here played by this one with one kind of marker more."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    recorded(workflow_id, "workflow_paused", {"engine": 2}, frozen_clock.now)
    signal.signal(workflow_id, "go", payload="1")
    driver.turn()
    assert stored(workflow_id).status == "running"
    monkeypatch.setattr(known, "ENGINE", 2)
    frozen_clock.move(UNKNOWN_TYPE_WAITS)
    driver.run()
    assert stored(workflow_id).result == "1"
    assert "workflow_blocked" not in history(workflow_id)


def newer_message(workflow_id: uuid.UUID, kind: str = "reply", payload: str = '{"to":"x","result":"4242"}') -> None:
    signal.signal(workflow_id, "newer", payload="1")
    Message.objects.filter(workflow_id=workflow_id, payload__contains="newer").update(kind=kind, payload=payload)


def test_a_newer_kind_of_message_puts_its_workflow_off_and_all_that_waits_for_it(
    driver: Driver, frozen_clock: FrozenClock, settings: Any
) -> None:
    """Before and behind it: messages are read in their order."""
    settings.DURABLE = {"UNKNOWN_HANDLER_FOR": PATIENCE}
    workflow_id, sound = driver.start(cases.signalled), driver.start(cases.signalled)
    driver.turn()
    newer_message(workflow_id)
    for owner in (workflow_id, sound):
        signal.signal(owner, "go", payload="1")
    before = history(workflow_id)
    driver.turn()
    assert stored(sound).result == "1"
    assert driver.turn().workflows == 0
    frozen_clock.move(PATIENCE - timedelta(seconds=1))
    driver.turn()
    assert (stored(workflow_id).blocked_reason, history(workflow_id)) == ("", before)
    assert Message.objects.filter(workflow_id=workflow_id, parked=False).count() == 2
    frozen_clock.move(UNKNOWN_TYPE_WAITS)
    driver.turn()
    assert "has the kind 'reply'" in stored(workflow_id).blocked_reason
    assert Message.objects.filter(workflow_id=workflow_id, parked=True).count() == 2


def test_of_a_newer_kind_of_message_no_long_payload_is_read(driver: Driver) -> None:
    """Whatever it holds."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    newer_message(workflow_id, payload="{no" * 100_000)
    with CaptureQueriesContext(connection) as captured:
        assert driver.turn().workflows == 1
    assert not [query["sql"] for query in captured if query["sql"].startswith("SELECT id, payload")]
    assert stored(workflow_id).blocked_reason == ""
    Message.objects.update(kind="signal", visible_at=F("created_at"))
    with CaptureQueriesContext(connection) as captured:
        driver.turn()
    assert [query["sql"] for query in captured if query["sql"].startswith("SELECT id, payload")], "as of any other"


def test_a_workflow_that_has_not_begun_is_put_off_too(driver: Driver, frozen_clock: FrozenClock, settings: Any) -> None:
    """The wait counts from its start."""
    settings.DURABLE = {"UNKNOWN_HANDLER_FOR": PATIENCE}
    workflow_id = driver.start(cases.signalled, start_at=frozen_clock.now + timedelta(hours=1))
    newer_message(workflow_id)
    for _ in range(3):
        frozen_clock.move(timedelta(minutes=21))
        driver.turn()
        assert stored(workflow_id).blocked_reason == ""
    frozen_clock.move(PATIENCE)
    driver.turn()
    assert "'reply'" in stored(workflow_id).blocked_reason
    assert history(workflow_id) == ["workflow_started", "workflow_blocked"]


def test_staff_can_terminate_it_and_the_end_quotes_nothing_of_a_newer_message(driver: Driver) -> None:
    """It may hold a payload under a name that is not known here."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    newer_message(workflow_id)
    terminate.terminate(workflow_id, reason="enough")
    closing = Event.objects.get(workflow_id=workflow_id, type="workflow_cancelled")
    assert closing.data["unread"] == [{"kind": "reply"}]
    assert list(Message.objects.values_list("kind", "parked")) == [("reply", True)], "kept, for the newer one to see"


def test_what_was_blocked_for_it_is_tried_again_by_a_newer_engine_with_the_same_code(
    driver: Driver, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project did not change, only durable: that is another version, too."""
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    recorded(workflow_id, "reply_given", {}, frozen_clock.now)
    signal.signal(workflow_id, "go", payload="1")
    frozen_clock.move(timedelta(hours=1))
    driver.turn()
    assert stored(workflow_id).blocked_version == registry.version()
    updated = Registry()
    # Another version of the same code in one process.
    updated._activities, updated._workflows = registry._activities, registry._workflows
    monkeypatch.setattr("durable.kernel.definitions.code_version.KNOWN", f"{known.KNOWN} reply_given")
    assert updated.version() != registry.version()
    assert unblock.after_deploy(updated.version()).count == 1


def test_what_an_engine_knows_differs_with_each_kind_of_event_message_and_marker() -> None:
    for kind in (*history_events.EventType, *history_events.MessageKind, *known.MARKERS):
        assert f"'{kind}'" in known.KNOWN
    assert known.KNOWN.startswith(f"{known.ENGINE} ")


def test_show_and_export_say_what_they_do_not_know(driver: Driver, frozen_clock: FrozenClock) -> None:
    workflow_id = driver.start(cases.signalled)
    driver.turn()
    exported = testing.export_history(workflow_id)
    recorded(workflow_id, "reply_given", {"secret": "4242"}, frozen_clock.now)
    with pytest.raises(NewerEngine, match="'reply_given', which this version of durable does not know"):
        testing.export_history(workflow_id)
    out = StringIO()
    call_command("durable", "show", str(workflow_id), stdout=out)
    assert "status    running" in out.getvalue()
    assert "The history cannot be shown here: Event 3 has the type 'reply_given'" in out.getvalue()
    assert "4242" not in out.getvalue()
    forgotten(workflow_id)
    exported["events"].append({"seq": 3, "type": "reply_given", "at": frozen_clock.now.isoformat(), "data": {}})
    for source in (exported, json.dumps(exported)):
        with pytest.raises(NotReplayable, match="'reply_given', which this version of durable does not know"):
            testing.replay(source)
