"""Histories of every release replay on today's code, for ever."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from durable import testing
from durable.kernel.definitions.registry import registry
from durable.kernel.history.events import EventType
from tests.golden import workflows
from tests.golden.stories import BEGIN, STORIES

FOLDER = Path(__file__).parent
GOLDEN = sorted(FOLDER.glob("*/*.json"))
RELEASES = {"0.1"}

FEATURES = {
    EventType.WORKFLOW_STARTED,
    EventType.WORKFLOW_COMPLETED,
    EventType.WORKFLOW_FAILED,
    EventType.WORKFLOW_CANCELLED,
    EventType.WORKFLOW_TIMED_OUT,
    EventType.CANCEL_REQUESTED,
    EventType.ACTIVITY_SCHEDULED,
    EventType.ACTIVITY_COMPLETED,
    EventType.ACTIVITY_FAILED,
    EventType.ACTIVITY_CANCELLED,
    EventType.TIMER_FIRED,
    EventType.SIGNAL_RECEIVED,
    EventType.MARKER_RECORDED,
    EventType.WORKFLOW_BEGUN,
    EventType.CHILD_STARTED,
    EventType.CHILD_COMPLETED,
    EventType.CHILD_FAILED,
    EventType.CHILD_CANCELLED,
    EventType.SIGNAL_SENT,
    EventType.SIGNAL_ANSWERED,
}


def shape(history: dict[str, Any]) -> list[tuple[str, int | None, str | None]]:
    """What happened, without what differs from run to run."""
    return [(event["type"], event.get("ordinal"), event["data"].get("activity")) for event in history["events"]]


def read(path: Path) -> dict[str, Any]:
    history: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return history


def test_every_release_has_every_story() -> None:
    assert {path.parent.name for path in GOLDEN} == RELEASES
    assert {path.stem for path in GOLDEN if path.parent.name == "0.1"} == set(STORIES)


def test_the_stories_use_every_kind_of_event_that_code_can_bring_about() -> None:
    found = {EventType(event["type"]) for path in GOLDEN for event in read(path)["events"]}
    assert found == FEATURES


def test_every_workflow_has_a_history() -> None:
    known = {it.name for it in registry.workflows() if it.fn.__module__ == workflows.__name__}
    assert {read(path)["type"] for path in GOLDEN} == known


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_golden_history_replays_here(path: Path) -> None:
    replayed = testing.replay_here(path)
    assert replayed.drift == 0
    assert replayed.events == len(read(path)["events"])


def test_golden_histories_replay_in_fresh_processes() -> None:
    """With two other hash seeds, and nothing warm."""
    assert len(testing.replay_all(GOLDEN)) == len(GOLDEN)


@pytest.mark.django_db
@pytest.mark.parametrize("name", STORIES)
def test_todays_engine_writes_the_same_history(name: str) -> None:
    """The newest release's: what the same code does today has the same events in the same order."""
    with testing.freeze(BEGIN):
        history = testing.export_history(STORIES[name]())
    assert shape(history) == shape(read(FOLDER / "0.1" / f"{name}.json"))
    assert history["events"][0]["data"]["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    testing.replay_here(history)


@pytest.mark.django_db
@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_the_same_with_the_cache_off(name: str) -> None:
    """Faults R3."""
    with testing.freeze(BEGIN), testing.cold():
        history = testing.export_history(STORIES[name]())
    assert shape(history) == shape(read(FOLDER / "0.1" / f"{name}.json"))
