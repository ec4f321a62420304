"""Histories as plain JSON: exported from the database, and read back for a replay."""

from __future__ import annotations

import json
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import durable
from durable.client.handle import Handle
from durable.errors import NewerEngine
from durable.flow.looks import look
from durable.kernel.history import effective
from durable.kernel.history.events import Event, EventType
from durable.kernel.history.known import beyond_event
from durable.kernel.payloads.unwritable import a
from durable.testing.errors import NotReplayable

FORMAT = 1
_PAGE = 1_000

Exported: TypeAlias = dict[str, Any]
Source: TypeAlias = Mapping[str, Any] | str | PathLike[str]


@dataclass(frozen=True, slots=True)
class History:
    """An exported history. `origin` tells people where it came from."""

    workflow_id: uuid.UUID
    type: str
    run: int
    key: str | None
    events: tuple[Event, ...]
    origin: str
    exported: Exported


def export_history(workflow: Handle[Any] | uuid.UUID | str, *, payloads: bool = True) -> Exported:
    """A workflow's whole history as plain JSON, payloads included as the codec wrote them.

    `json.dump` it into a file beside your tests, and `replay` the file. Without `payloads` it holds only the order and
    the names of events, activities and signals, which people can read and no code can be replayed on. Raises
    `WorkflowNotFound`.
    """
    workflow_id = workflow.id if isinstance(workflow, Handle) else uuid.UUID(str(workflow))
    snapshot = look.snapshot(workflow_id)
    events = events_of(workflow_id)
    return {
        "format": FORMAT,
        "engine": durable.__version__,
        "python": platform.python_version(),
        "workflow_id": str(workflow_id),
        "type": snapshot.type,
        "key": snapshot.key if payloads else None,
        "status": snapshot.status.value,
        "run": effective.run_at_end(events),
        **({} if payloads else {"payloads": False}),
        "events": [_exported(event, payloads=payloads) for event in events],
    }


def read(source: Source) -> History:
    """Reads an exported history: the dictionary itself, its JSON text, or the path of a file that holds it.

    Raises `NotReplayable` for anything else, and for a single activity, which has no code to replay.
    """
    origin, data = _loaded(source)
    if data.get("payloads") is False:
        raise NotReplayable(
            f"{origin} was exported without payloads: no code can be replayed on it. Export it with its payloads."
        )
    try:
        known = data["format"] == FORMAT
        history = History(
            workflow_id=uuid.UUID(data["workflow_id"]),
            type=data["type"],
            run=data["run"],
            key=data.get("key"),
            events=tuple(_event(event) for event in data["events"]),
            origin=origin,
            exported=dict(data),
        )
    except NewerEngine as error:
        raise NotReplayable(f"{origin} cannot be replayed here: {error.reason} Update durable.") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotReplayable(f"{origin} is no exported history ({type(error).__name__}: {error}).") from error
    if not known:
        raise NotReplayable(f"{origin} has the format {data['format']!r}; this version reads {FORMAT}.")
    if not history.events:
        raise NotReplayable(f"{origin} has no events.")
    if "input" not in history.events[0].data:
        raise NotReplayable(f"{origin} is the history of a single activity ({history.type}): it has no code to replay.")
    return history


def events_of(workflow_id: uuid.UUID) -> list[Event]:
    """All events of a workflow, in order."""
    events: list[Event] = []
    while page := look.history(workflow_id, after=events[-1].seq if events else 0, limit=_PAGE):
        events += page
    return events


def _loaded(source: Source) -> tuple[str, Mapping[str, Any]]:
    if isinstance(source, Mapping):
        return "The given history", source
    origin, text = "The given text", str(source)
    try:
        if isinstance(source, PathLike) or not text.lstrip().startswith("{"):
            origin = text
            text = Path(source).read_text(encoding="utf-8")
        data = json.loads(text)
    except (OSError, ValueError) as error:
        raise NotReplayable(f"{origin} cannot be read: {error}.") from error
    if not isinstance(data, dict):
        raise NotReplayable(f"{origin} holds {a(type(data).__name__)}, not an exported history.")
    return origin, data


_NAMES = frozenset(
    {"type", "python", "activity", "timer", "name", "kind", "id", "seq", "cause", "keeps", "mode", "then"}
)
"""What the data of events says without payloads, texts of failures, and people: names, and references to events."""


def _exported(event: Event, *, payloads: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"seq": event.seq, "type": event.type.value, "at": event.recorded_at.isoformat()}
    if event.ordinal is not None:
        shown["ordinal"] = event.ordinal
    data = event.data if payloads else {name: value for name, value in event.data.items() if name in _NAMES}
    return {**shown, "data": data}


def _event(data: Mapping[str, Any]) -> Event:
    if beyond := beyond_event(data["type"], data["data"]):
        raise NewerEngine(f"Event {data['seq']} has {beyond}, which this version of durable does not know.")
    return Event(
        seq=data["seq"],
        type=EventType(data["type"]),
        data=data["data"],
        recorded_at=datetime.fromisoformat(data["at"]),
        ordinal=data.get("ordinal"),
    )
