"""Plays a workflow against a script of what happens to it, warm and cold, and holds both to the same history.

*Warm*: one execution lives throughout. *Cold*: each message meets a new execution that replays the whole history first,
as with the cache off. `play` does both, replays the finished history once more, and answers it as a `Story`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from durable.decorators.activities import Activity
from durable.kernel.codec import Codec, JsonCodec
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.history.commands import (
    CancelActivity,
    CancelChild,
    CancelWorkflow,
    Command,
    CompleteWorkflow,
    FailWorkflow,
    RecordPatch,
    RecordUnreadable,
    ScheduleActivity,
    SendSignal,
    StartChild,
)
from durable.kernel.history.events import Event, EventType
from durable.kernel.replay.execution import Activation, Execution, Limits

WORKFLOW_ID = uuid.UUID("01990000-0000-7000-8000-00000000002a")
EPOCH = datetime(2030, 1, 1, 12, tzinfo=UTC)
TICK = timedelta(seconds=1)
LIMITS = Limits(cpu_for=None, max_events=50_000)


def _echo(value: Any) -> Any:
    return value


def _other(value: Any) -> Any:
    return value


def _number(value: int) -> int:
    return value


echo: Any = Activity(_echo, name="tests.echo")
other: Any = Activity(_other, name="tests.other")
number: Any = Activity(_number, name="tests.number")


def still() -> float:
    """A CPU clock on which nothing takes time."""
    return 0.0


def defined(code: Any) -> WorkflowDefinition[Any, Any]:
    """The definition of a workflow function, unregistered."""
    return code if isinstance(code, WorkflowDefinition) else WorkflowDefinition(code, name=f"tests.{code.__name__}")


def begun(
    code: Any,
    *,
    limits: Limits = LIMITS,
    cpu_clock: Callable[[], float] = still,
    workflow_id: uuid.UUID = WORKFLOW_ID,
    run: int = 1,
    codec: Codec | None = None,
) -> Execution:
    """A new execution that has seen nothing."""
    codec = JsonCodec() if codec is None else codec
    return Execution.begin(
        defined(code), workflow_id=workflow_id, run=run, codec=codec, limits=limits, cpu_clock=cpu_clock
    )


def replayed(code: Any, history: list[Event], **how: Any) -> Execution:
    """A new execution that has replayed a history."""
    execution = begun(code, **how)
    try:
        execution.replay(history)
    except BaseException:
        execution.close()
        raise
    return execution


@dataclass
class Driver:
    """Plays the engine for one workflow: gives events their numbers and times, and records what the code asks for."""

    code: Any
    cold: bool
    arguments: dict[str, Any] = field(default_factory=dict)
    limits: Limits = LIMITS
    history: list[Event] = field(default_factory=list)
    activations: list[Activation] = field(default_factory=list)
    now: datetime = EPOCH
    _warm: Execution | None = None

    def execution(self) -> Execution:
        """The one that will be fed next."""
        if self.cold or self._warm is None:
            self.close()
            self._warm = begun(self.code, limits=self.limits)
            if self.history:
                self._warm.replay(self.history)
                assert self._warm.last_seq == len(self.history)
                assert self._warm.drift == 0
        return self._warm

    def feed(self, type: EventType, data: dict[str, Any], ordinal: int | None = None) -> None:
        """Append one input event, and the records of what the code asks for."""
        execution = self.execution()
        event = Event(len(self.history) + 1, type, data, self.now, ordinal)
        activation = execution.activate(event)
        self.activations.append(activation)
        self.history.append(event)
        for command in activation.commands:
            self.history.append(record(command, len(self.history) + 1, self.now))
        assert execution.last_seq == len(self.history)
        self.now += TICK

    def note(self, type: EventType, data: dict[str, Any] | None = None) -> None:
        """Append an event that is no input, as an operator's verb does. A warm execution is dropped by it."""
        self.close()
        self.history.append(Event(len(self.history) + 1, type, data or {}, self.now))

    def close(self) -> None:
        """Take the execution from memory."""
        if self._warm is not None:
            self._warm.close()
            self._warm = None


def record(command: Command, seq: int, at: datetime) -> Event:
    """The event that a command becomes."""
    data: dict[str, Any]
    match command:
        case ScheduleActivity(ordinal, activity, _, digest, _):
            return Event(seq, EventType.ACTIVITY_SCHEDULED, {"activity": activity, "digest": digest}, at, ordinal)
        case CancelActivity(ordinal):
            return Event(seq, EventType.ACTIVITY_CANCELLED, {}, at, ordinal)
        case StartChild(ordinal, child, type, key, _, digest, parent_close, _):
            data = {"child": str(child), "type": type, "digest": digest, "key": key, "parent_close": parent_close}
            return Event(seq, EventType.CHILD_STARTED, data, at, ordinal)
        case CancelChild(ordinal, child, _):
            return Event(seq, EventType.CHILD_CANCELLED, {"child": str(child)}, at, ordinal)
        case SendSignal(ordinal, to, type, key, name, _, digest, _):
            data = {"to": None if to is None else str(to), "type": type, "key": key, "name": name, "digest": digest}
            return Event(seq, EventType.SIGNAL_SENT, data, at, ordinal)
        case RecordUnreadable(signal_seq, problem):
            data = {"kind": "unreadable", "seq": signal_seq, "problem": problem}
            return Event(seq, EventType.MARKER_RECORDED, data, at)
        case RecordPatch(id):
            return Event(seq, EventType.MARKER_RECORDED, {"kind": "patch", "id": id}, at)
        case CompleteWorkflow(payload, tasks, dropped):
            return Event(seq, EventType.WORKFLOW_COMPLETED, {"result": payload, **_dropped(tasks, dropped)}, at)
        case FailWorkflow(failure, tasks, dropped, cause=cause):
            data = {"cause": list(cause), "failure": failure.as_data(), **_dropped(tasks, dropped)}
            return Event(seq, EventType.WORKFLOW_FAILED, data, at)
        case CancelWorkflow(reason, tasks, dropped):
            return Event(seq, EventType.WORKFLOW_CANCELLED, {"reason": reason, **_dropped(tasks, dropped)}, at)


def _dropped(tasks: int, commands: tuple[str, ...]) -> dict[str, Any]:
    return {"dropped_tasks": tasks, "dropped_commands": list(commands)}


# --- what may happen ------------------------------------------------------------------------------------------------

Step = Callable[[Driver], None]


def start() -> Step:
    return lambda driver: driver.feed(
        EventType.WORKFLOW_STARTED, {"type": "tests", "input": json.dumps(driver.arguments), "python": "3.11"}
    )


def done(ordinal: int, value: Any = None) -> Step:
    return lambda driver: driver.feed(EventType.ACTIVITY_COMPLETED, {"result": json.dumps(value)}, ordinal)


def failed(ordinal: int, type: str = "shop.CardRefused", message: str = "no money") -> Step:
    failure = {"type": type, "message": message, "traceback": f"{type}: {message}"}
    return lambda driver: driver.feed(EventType.ACTIVITY_FAILED, {"failure": failure, "attempts": 5}, ordinal)


def child_done(ordinal: int, value: Any = None) -> Step:
    """The child that was started by this call has ended with a result."""
    return lambda driver: driver.feed(
        EventType.CHILD_COMPLETED, {"child": _child_of(driver, ordinal), "result": json.dumps(value)}, ordinal
    )


def child_failed(ordinal: int, **end: Any) -> Step:
    """The same with another end."""
    return lambda driver: driver.feed(EventType.CHILD_FAILED, {"child": _child_of(driver, ordinal), **end}, ordinal)


def answered(ordinal: int, **answer: Any) -> Step:
    """What became of a signal that was sent and awaited."""
    return lambda driver: driver.feed(EventType.SIGNAL_ANSWERED, answer, ordinal)


def _child_of(driver: Driver, ordinal: int) -> str:
    return next(
        str(event.data["child"])
        for event in driver.history
        if event.type is EventType.CHILD_STARTED and event.ordinal == ordinal
    )


def signal(name: str, value: Any = None) -> Step:
    return lambda driver: driver.feed(EventType.SIGNAL_RECEIVED, {"name": name, "payload": json.dumps(value)})


def cancel(reason: str = "asked") -> Step:
    return lambda driver: driver.feed(EventType.CANCEL_REQUESTED, {"reason": reason})


def fire() -> Step:
    """The earliest timer fires when it is due, or now if that is later."""

    def step(driver: Driver) -> None:
        timer = driver.execution().next_timer()
        assert timer is not None, "no timer is pending"
        driver.now = max(driver.now, timer.due)
        driver.feed(EventType.TIMER_FIRED, {"timer": list(timer.id)})

    return step


def wait(seconds: float) -> Step:
    def step(driver: Driver) -> None:
        driver.now += timedelta(seconds=seconds)

    return step


def paused() -> Step:
    return lambda driver: driver.note(EventType.WORKFLOW_PAUSED)


def check(look: Callable[[Execution], None]) -> Step:
    """Look at the execution, warm or freshly replayed."""
    return lambda driver: look(driver.execution())


# --- the story ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Story:
    """What came of a script."""

    code: Any
    history: list[Event]
    activations: list[Activation]

    @property
    def end(self) -> Event:
        """The last event, which has to be one that ends the workflow."""
        last = self.history[-1]
        assert last.type.value.startswith("workflow_"), self.told
        return last

    @property
    def result(self) -> Any:
        """The decoded result of a completed workflow."""
        assert self.end.type is EventType.WORKFLOW_COMPLETED, self.end
        return json.loads(self.end.data["result"])

    @property
    def told(self) -> list[str]:
        """The history in short words, one for each event."""
        return [_short(event) for event in self.history]


def _short(event: Event) -> str:
    kind = event.type.value.removeprefix("activity_").removeprefix("workflow_")
    if event.type is EventType.ACTIVITY_SCHEDULED:
        return f"{kind} {event.ordinal} {event.data['activity'].removeprefix('tests.')}"
    if event.type is EventType.CHILD_STARTED:
        return f"child {event.ordinal} {event.data['type'].removeprefix('tests.')}"
    if event.type is EventType.TIMER_FIRED:
        return f"{kind} {event.data['timer'][0]}.{event.data['timer'][1]}"
    if event.type is EventType.SIGNAL_RECEIVED:
        return f"signal {event.data['name']}"
    return kind if event.ordinal is None else f"{kind} {event.ordinal}"


def play(code: Any, *steps: Step, limits: Limits = LIMITS, **arguments: Any) -> Story:
    """Run a script, beginning with the start, warm and cold; both must tell the same, and replay must agree."""
    stories = []
    for cold in (False, True):
        driver = Driver(code, cold=cold, arguments=arguments, limits=limits)
        try:
            for step in (start(), *steps):
                step(driver)
            seen = _state(driver.execution()) if not cold else None
        finally:
            driver.close()
        stories.append(Story(code, driver.history, driver.activations))
        if seen is not None:
            again = replayed(code, driver.history)
            assert again.drift == 0
            assert _state(again) == seen
            again.close()
    warm, chilled = stories
    assert _plain(warm) == _plain(chilled)
    return warm


def commands(story: Story, kind: type) -> list[Any]:
    """The commands of one kind, in their order."""
    return [command for activation in story.activations for command in activation.commands if isinstance(command, kind)]


def _state(execution: Execution) -> Any:
    return (
        execution.done,
        execution.last_seq,
        execution.pending_timers(),
        sorted(execution.calls.open),
        execution.calls.last_ordinal,
        execution.unread_signals(),
        execution.weight,
    )


def _plain(story: Story) -> Any:
    """Without tracebacks: a replay's first frame may differ."""
    history = []
    for event in story.history:
        data = dict(event.data)
        if "failure" in data:
            data["failure"] = {**data["failure"], "traceback": ""}
        history.append((event.seq, event.type, event.ordinal, event.recorded_at, data))
    return history
