"""The story: clients, staff and a worker, each of whom looks at the database and does what is next to do.

Nobody remembers anything that matters. Whoever takes the story up behind a crash, with all memory gone, goes on:
clients keep a row of the ledger in the transaction of what they did, staff look at what they are about to change, and
the worker is a worker.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import DatabaseError, InterfaceError, connections, transaction

from durable import clock
from durable.client import ids
from durable.conf import settings
from durable.errors import RedriveRefused, StoreUnavailable
from durable.flow.caller import cancel, enqueue, signal, start
from durable.flow.operator import discard, pause, redrive, resume, terminate, unblock
from durable.flow.transactions.faults import Fault, classify
from durable.kernel.codec import encode_call
from durable.kernel.definitions.options import resolve
from durable.kernel.definitions.registry import registry
from durable.kernel.payloads import birthplace
from durable.models import OutboxRow
from durable.outcomes import DeadLetterFilter, KeyHeld, RedriveMode
from tests.crashpoints import cases, sight, stage
from tests.crashpoints.shift import Shift, leave_note
from tests.crashpoints.sight import Sight
from tests.crashpoints.wire import ALIAS, Wire
from tests.ledger.models import Entry

MOST_ROUNDS = 120
SLACK = timedelta(seconds=1)
"""How much further than to the next moment the clock is moved: what comes due about then comes due together."""

STARTED: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "mended": (cases.mended, (), {}),
    "lost": (cases.lost, (), {}),
    "judged": (cases.judged, (), {}),
    "given up": (cases.given_up, (), {}),
    "called off": (cases.called_off, (), {}),
    "impatient": (cases.impatient, (), {}),
    "interrupted": (cases.interrupted, ("interrupted",), {}),
    "halted": (cases.halted, (), {}),
    "ended": (cases.ended, (), {}),
    "poisoned": (cases.poisoned, (), {}),
    "undeployed": (cases.undeployed, (), {}),
    "overdue": (cases.overdue, (), {"timeout": cases.GIVEN_UP_AFTER}),
    "family": (cases.family, (), {}),
    "planned": (cases.planned, (), {"start_at": stage.BEGINS_AT + timedelta(minutes=10)}),
}
ENQUEUED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "calm": (cases.calm, (1,)),
    "paid": (cases.book, ("paid",)),
    "broke": (cases.broke, (13,)),
    "coming": (cases.coming, (17,)),
    "stopped": (cases.slow, (19,)),
    "reported": (cases.report, (23,)),
}
FORM = uuid.uuid5(uuid.NAMESPACE_OID, "the form that staff has sent")
"""Under one request each row is changed once, however often it is sent."""
KIDS = ("first kid", "second kid", "third kid", "fourth kid", "kept kid")
KEYS = frozenset({"journey", "far off", *STARTED, *ENQUEUED, *KIDS})


class Story:
    """One process that goes on with the story, wherever it stands."""

    def __init__(self, wire: Wire, folder: Path) -> None:
        self.wire = wire
        self.folder = folder
        self.faults: list[str] = []
        self._names = 0
        self._asked: set[str] = set()
        self._has_stopped_a_shift = False
        self._has_new_activity = False
        self._deployed = False
        self.shift = self._next_shift()

    def play(self) -> None:
        """Go on until the goal is reached. Raises `AssertionError` when it is not reached any more."""
        for _ in range(MOST_ROUNDS):
            seen = self._look()
            if self._is_over(seen):
                self._tried(self.shift.stop)
                return
            faults = len(self.faults)
            if not self._round(seen) and faults == len(self.faults) and self._look() == seen:
                self._let_time_pass(seen)
        raise AssertionError(f"Still not over after {MOST_ROUNDS} rounds: {self._open(self._look())}")

    def _round(self, seen: Sight) -> bool:
        """Everybody once. Answers whether anybody found something to do."""
        found = False
        if seen.workflows and not self._deployed:
            self._deploy(seen)
        if not self.shift.housekeeping._is_ready:  # memory of a process that shows in what it does next only
            found |= self._tried(self.shift.keep_house)
        if self.shift.leases.count:
            self._tried(self.shift.renew)
            self._tried(self.shift.acknowledge)
        self._tried(self.shift.renew_sent)
        for act in (*self._clients(seen), *self._staff(seen)):
            found |= self._tried(act)
        found |= self._tried(self.shift.turn)
        found |= self._tried(self.shift.claim)
        found |= self._tried(self.shift.send)
        found |= self._tried(self.shift.receive)
        if self.shift.slots.queue and not self._has_stopped_a_shift and "calm" in self._queued():
            self._has_stopped_a_shift = True
            self._tried(self.shift.stop)
            self._begin_shift()
        found |= self._tried(self.shift.work)
        found |= self._tried(self.shift.acknowledge)
        # The cadence is the worker's to choose; here it is: whenever somebody else's rows may have to be taken up.
        something_is_out = any(row.out for workflow in seen.workflows.values() for row in workflow.rows.values())
        return found or (something_is_out and self._tried(self.shift.keep_house))

    def _look(self) -> Sight:
        with self.wire.quiet():
            return sight.look()

    def _tried(self, act: Callable[[], object]) -> bool:
        """Do something. An error of the store is noted, and everybody goes on, as loops and people do."""
        try:
            return act() is not False
        except (DatabaseError, InterfaceError, StoreUnavailable) as error:
            cause = error.cause if isinstance(error, StoreUnavailable) else error
            self.faults.append(f"{getattr(act, '__name__', act)}: {cause}")
            if classify(cause) is Fault.NEW_CONNECTION:
                connections[ALIAS].close()
            return True

    # --- time, deploys, shifts ---

    def _let_time_pass(self, seen: Sight) -> None:
        """Only where nothing has changed: a turn that was made, and not reported as such, is news to the others."""
        with self.wire.quiet():
            moment = sight.next_moment()
        if moment is None:
            raise AssertionError(f"Nobody has anything to do any more, and it is not over: {self._open(seen)}")
        clock.freeze(max(moment, clock.host_now()) + SLACK)
        stage.write_time(self.folder)

    def _next_shift(self) -> Shift:
        self._names += 1
        return Shift(f"shift-{uuid.uuid4().hex[:6]}-{self._names}", self.folder)

    def _begin_shift(self) -> None:
        self.shift = self._next_shift()
        self._tried(self.shift.keep_house)

    def _queued(self) -> set[str]:
        return {delivery.claim.activity.removeprefix("crashpoints.") for delivery in self.shift.slots.queue}

    def _deploy(self, seen: Sight) -> None:
        """Bring the code that is there by now. A workflow's comes with a new worker; an activity's is just there."""
        if not self._has_new_activity and clock.host_now() > stage.BEGINS_AT:
            self._has_new_activity = True
            registry.add_activity(cases.COMES_SOON)
        if "workflow_blocked" in seen["undeployed"].events:
            registry.add_workflow(cases.COMES_LATER)
            self._deployed = True
            self._tried(self.shift.stop)
            self._begin_shift()

    # --- clients: each act in a transaction of theirs, beside a row of the ledger ---

    def _clients(self, seen: Sight) -> list[Callable[[], object]]:
        if not seen.workflows:
            return [self._order]
        acts: dict[str, Callable[[], object]] = {}
        if not seen["journey"].over:
            acts["again"] = self._order_again
        if "timer_fired" in seen["journey"].events:
            acts["go"] = lambda: self._signal(seen, "journey", "go")
        if 1 in (rows := seen["judged"].rows) and (rows[1].status, rows[1].redrives) == ("done", 1):
            acts["judged end"] = lambda: self._signal(seen, "judged", "end")
        if 1 in (rows := seen["impatient"].rows) and rows[1].status == "cancelled":
            acts["impatient end"] = lambda: self._signal(seen, "impatient", "end")
        if 1 in (rows := seen["interrupted"].rows) and rows[1].status == "claimed":
            acts["interrupt"] = lambda: cancel.cancel(seen["interrupted"].id, reason="enough")
        if seen["stopped"].rows[1].status == "claimed":
            acts["stop"] = lambda: cancel.cancel(seen["stopped"].id, reason="enough")
        acts["far off"] = lambda: cancel.cancel(seen["far off"].id, reason="never mind")
        for key in ("halted", "ended"):
            if seen[key].status == "paused":
                acts[f"{key} on"] = lambda key=key: self._signal(seen, key, "on")  # type: ignore[misc]
        if "second kid" in seen.workflows and seen["second kid"].status == "paused":
            acts["family on"] = lambda: self._signal(seen, "family", "on")
        acts["planned on"] = lambda: self._signal(seen, "planned", "on")
        if seen["poisoned"].blocked:
            acts["poisoned on"] = lambda: self._signal(seen, "poisoned", "on")
        return [self._noted(name, act) for name, act in acts.items() if f"client: {name}" not in seen.ledger]

    def _noted(self, name: str, act: Callable[[], object]) -> Callable[[], object]:
        def with_note() -> None:
            with transaction.atomic(using=ALIAS):
                Entry.objects.create(label=f"client: {name}")
                act()

        with_note.__name__ = name
        return with_note

    def _order(self) -> None:
        """One and many, workflows and single activities, all in one transaction of the caller's."""
        with transaction.atomic(using=ALIAS):
            Entry.objects.create(label="client: order")
            cases.journey.options(key="journey").start("journey")
            start.start([_workflow(key, *what) for key, what in STARTED.items()])
            later = clock.host_now() + timedelta(days=365)
            cases.calm.options(key="far off", start_at=later).enqueue(0)
            enqueue.enqueue([_activity(key, *what) for key, what in ENQUEUED.items()])

    def _order_again(self) -> None:
        """A double click."""
        (outcome,) = start.start([_workflow("journey", cases.journey, ("journey",), {})])
        assert isinstance(outcome, KeyHeld)

    def _signal(self, seen: Sight, key: str, name: str) -> None:
        born = birthplace.signal(seen[key].id, name)
        payload = settings.codec().encode(f"{name}!", Any, path="payload", birthplace=born)
        signal.signal(seen[key].id, name, payload=payload, dedup=name)

    # --- staff: they look before they act ---

    def _staff(self, seen: Sight) -> list[Callable[[], object]]:
        if not seen.workflows:
            return []
        acts: list[Callable[[], object]] = []

        def letter(key: str) -> bool:
            row = seen[key].rows.get(1)
            return row is not None and row.status == "dead" and not seen[key].over

        if letter("mended"):
            acts.append(lambda: redrive.redrive(seen["mended"].id, 1, actor="ops", reason="the other side is back"))
        if "not dead" not in self._asked and letter("mended"):
            acts.insert(0, lambda: self._refused("not dead", seen["halted"].id, "not_dead_lettered"))
        if letter("lost"):
            acts.append(lambda: redrive.redrive_many([(seen["lost"].id, 1)], actor="ops", request=FORM))
        if letter("judged") and "activity_failed" in seen["judged"].events:
            if "judged" not in self._asked:
                acts.append(lambda: self._refused("judged", seen["judged"].id, "history_records_outcome"))
            acts.append(
                lambda: redrive.redrive(
                    seen["judged"].id, 1, mode=RedriveMode.FORCED, actor="ops", reason="it must happen"
                )
            )
        if letter("given up"):
            acts.append(lambda: discard.discard(seen["given up"].id, 1, reason="nobody has such forms", request=FORM))
        if letter("called off"):
            meant = DeadLetterFilter(workflow_id=seen["called off"].id)
            acts.append(lambda: discard.discard_many(meant, reason="nobody has such forms", then="cancel", actor="ops"))
        if letter("impatient") and "activity_cancelled" in seen["impatient"].events:
            acts.append(lambda: discard.discard(seen["impatient"].id, 1, reason="nobody waits", actor="ops"))
        return acts + self._staff_of_workflows(seen)

    def _staff_of_workflows(self, seen: Sight) -> list[Callable[[], object]]:
        acts: list[Callable[[], object]] = []
        halted, ended, poisoned = seen["halted"], seen["ended"], seen["poisoned"]
        waits = 1 in halted.rows and (halted.rows[1].status, halted.rows[1].attempts) == ("pending", 1)
        if halted.status == "running" and waits and "workflow_paused" not in halted.events:
            acts.append(lambda: pause.pause(halted.id, reason="later", actor="ops"))
        if halted.status == "paused" and halted.parked == [True]:
            acts.append(lambda: resume.resume(halted.id, reason="now", actor="ops"))
        if ended.status == "running" and 1 in ended.rows and ended.rows[1].status == "claimed":
            acts.append(lambda: pause.pause(ended.id, reason="to be ended", actor="ops"))
        if ended.status == "paused" and ended.parked:
            acts.append(lambda: terminate.terminate(ended.id, reason="enough", actor="ops"))
        # Not before the deploy, which would offer it again on its own.
        deployed = "workflow_unblocked" in seen["undeployed"].events
        if deployed and "workflow_begun" in poisoned.events and "workflow_blocked" not in poisoned.events:
            acts.append(lambda: self._die_over(poisoned.id, settings.turn_poison_limit - poisoned.poison))
        second = seen.workflows.get("second kid")
        if second is not None and "workflow_begun" in second.events and "workflow_paused" not in second.events:
            acts.append(lambda: pause.pause(second.id, reason="nobody can turn it", actor="ops"))
        if poisoned.blocked and poisoned.parked == [True]:
            acts.append(lambda: unblock.unblock(poisoned.id, reason="the worker is mended", actor="ops"))
        if seen["calm"].over and seen["calm"].rows[1].status == "done":
            acts.append(lambda: self._meddle(seen["calm"].rows[1].id))
        return acts

    def _refused(self, what: str, workflow_id: uuid.UUID, code: str) -> None:
        try:
            redrive.redrive(workflow_id, 1, reason="please")
        except RedriveRefused as refusal:
            if refusal.code != code:
                raise
            self._asked.add(what)
        else:
            raise AssertionError(f"The redrive of {what} was not refused.")

    def _die_over(self, workflow_id: uuid.UUID, times: int) -> None:
        """Worker processes have died over a workflow's code, and left their notes."""
        for number in range(times):
            leave_note(self.folder, f"died-{number}", workflow_id)
        self.shift.keep_house()

    def _meddle(self, row_id: int) -> None:
        """Somebody changes a row by hand, from outside; settling puts it right."""
        with self.wire.quiet():
            OutboxRow.objects.filter(id=row_id).update(status="dead", dead_lettered_at=clock.host_now())
        self.shift.keep_house()

    # --- the goal ---

    def _is_over(self, seen: Sight) -> bool:
        return seen.workflows.keys() == KEYS and not self._open(seen) and seen["calm"].rows[1].status == "cancelled"

    def _open(self, seen: Sight) -> dict[str, Any]:
        return {
            key: (found.status, found.blocked, found.events, found.rows, found.parked)
            for key, found in seen.workflows.items()
            if not found.over or any(row.status in ("pending", "claimed") for row in found.rows.values())
        }


def _workflow(key: str, definition: Any, args: tuple[Any, ...], options: dict[str, Any]) -> start.NewWorkflow:
    workflow_id = ids.new()
    payload = encode_call(definition, args, {}, codec=settings.codec(), workflow_id=workflow_id).payload
    return start.new_workflow(id=workflow_id, type=definition.name, payload=payload, key=key, **options)


def _activity(key: str, definition: Any, args: tuple[Any, ...]) -> enqueue.NewActivity:
    workflow_id = ids.new()
    terms = resolve({}, definition, settings)
    return enqueue.new_activity(
        id=workflow_id,
        activity=definition.name,
        payload=encode_call(definition, args, {}, codec=settings.codec(), workflow_id=workflow_id).payload,
        key=key,
        attempt_budget=terms.attempt_budget,
        delivery_budget=terms.delivery_budget,
        queue=terms.queue,
    )
