"""One worker process on the calling thread: the worker's own parts, moved by hand, and all that dies with it."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import uuid
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

from django.db import connections

from durable.conf import settings
from durable.flow.delivery import begin
from durable.flow.transactions.commits import ClaimCommit
from durable.flow.upkeep import beat
from durable.kernel.replay.cache import Cache
from durable.outcomes import ReconcileReport
from durable.queues import SentQueue
from durable.worker.handlers import execute, transactional
from durable.worker.handlers.delivery import Conclusion, Delivery, Start
from durable.worker.handlers.execute import Call, Outcome
from durable.worker.handlers.slots import Handlers
from durable.worker.loops import notes
from durable.worker.loops.acks import Acks
from durable.worker.loops.claims import Claims
from durable.worker.loops.dispatch import Dispatcher
from durable.worker.loops.housekeeping import Housekeeping
from durable.worker.loops.leases import Leases
from durable.worker.loops.notes import Note
from durable.worker.loops.sending import Sender
from durable.worker.loops.turns import Turns
from durable.worker.threads import hygiene
from durable.worker.threads.wakeup import Pace, Wake
from tests.crashpoints import cases
from tests.worker.making import CountedTime

LOST_AT_FIRST = (cases.vanishing.name, cases.told.name)
"""Workers lose these: the handler is gone, and nobody renews the lease."""


class Slots:
    """What `Claims` sees of the handlers: as many slots as it likes, and one queue."""

    size = 50
    ahead = 0

    def __init__(self) -> None:
        self.queue: list[Delivery] = []
        self.running: list[Delivery] = []

    @property
    def free(self) -> int:
        return self.size - self.busy

    @property
    def busy(self) -> int:
        return len(self.queue) + len(self.running)

    @property
    def waiting(self) -> int:
        return 0

    def dispatch(self, delivery: Delivery) -> None:
        self.queue.append(delivery)

    def withdraw(self) -> list[Delivery]:
        taken, self.queue = self.queue, []
        return taken


class Mail:
    """What `Dispatcher` sees of a transport: messages that arrive in this process."""

    def __init__(self, worker: str) -> None:
        self.messages: list[tuple[int, uuid.UUID, ClaimCommit]] = []
        self._worker = worker

    def ping(self) -> None:
        """It is here."""

    def send(self, row_id: int, token: uuid.UUID) -> None:
        self.messages.append((row_id, token, ClaimCommit(self._worker)))

    def end(self) -> None:
        """Nothing to end."""


class Shift:
    """A worker process: its memory is the cache of coroutines, what it holds, and the note of whose code runs.

    Every step is one that a loop of the worker makes. Errors of the database are raised, as they are to the loops.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.cache = Cache(100)
        self.slots = Slots()
        self.notes: list[Note] = []
        self._ready = threading.Event()
        self._rng = random.Random(0)
        self._folder = folder
        self.leases = Leases(lease_for=settings.lease_for, idle=Wake())
        self.acks = self._new_acks()
        self.claims = Claims(
            worker=name,
            queues=None,
            lease_for=settings.lease_for,
            handlers=cast(Handlers, self.slots),
            leases=self.leases,
            pace=Pace(timedelta(seconds=1)),
            ready=self._ready,
            but=("reports",),
        )
        self.mail = Mail(name)
        self.dispatcher = Dispatcher(
            SentQueue("reports", "mail", "any"),
            worker=name,
            lease_for=settings.lease_for,
            pace=Pace(timedelta(seconds=1)),
            ready=self._ready,
            sender=cast(Sender, self.mail),
        )
        self.turns = Turns(
            queues=None,
            cache=self.cache,
            note=self._new_note,
            staged=lambda: None,
            pace=Pace(timedelta(seconds=1)),
            ready=self._ready.is_set,
            claims=self.claims,
        )
        self.housekeeping = Housekeeping(
            worker=name,
            queues=None,
            count_the_dead=partial(notes.count_the_dead, folder),
            ready=self._ready.set,
            on_report=self._reconciled,
            wakes_by=lambda: "polling",
        )

    # --- steps; each answers whether it has found anything to do ---

    def keep_house(self) -> bool:
        """Count the dead, settle, offer blocked workflows (at first), give a sign of life, reconcile."""
        self._reported = ReconcileReport()
        hygiene.connect()
        self.housekeeping.step()
        report = self._reported
        return bool(report.settled or report.rearmed or report.dead_lettered or report.suspects_due)

    def renew(self) -> bool:
        """Renew what is held, if anything is."""
        hygiene.connect()
        self.leases.beat()
        self._end_the_stopped()
        return False

    def turn(self) -> bool:
        """One batch of turns."""
        hygiene.connect()
        return self.turns.step() == 0.0

    def claim(self) -> bool:
        """Claim what is due."""
        hygiene.connect()
        return self.claims.step() == 0.0

    def renew_sent(self) -> bool:
        """Renew what was sent and has not begun, if anything was."""
        hygiene.connect()
        self.dispatcher.beat()
        return False

    def send(self) -> bool:
        """Claim what is due of the queue that is sent, and send it."""
        hygiene.connect()
        before = len(self.mail.messages)
        self.dispatcher.step()
        return len(self.mail.messages) > before

    def receive(self) -> bool:
        """Begin what has come, as a process of a cluster does: again, until the store has answered."""
        hygiene.connect()
        found = bool(self.mail.messages)
        while self.mail.messages:
            row_id, token, commit = self.mail.messages[0]
            claim = begin.begin(row_id, token, worker=self.name, lease_for=settings.lease_for, commit=commit)
            del self.mail.messages[0]
            if claim is not None:
                delivery = Delivery(claim)
                self.leases.hold([delivery])
                self.slots.dispatch(delivery)
        return found

    def work(self) -> bool:
        """Run the handlers of what was claimed, one after another.

        Which of them ends first is chance in life, and where several are due at one moment PostgreSQL has its own idea
        of their order. Here it is by name, so that the story can be told twice.
        """
        found = bool(self.slots.queue)
        self.slots.queue.sort(key=lambda delivery: (delivery.claim.activity, delivery.claim.payload))
        while self.slots.queue:
            self._run(self.slots.queue.pop(0))
        return found

    def acknowledge(self) -> bool:
        """Write what has ended, on the whole schedule of retries."""
        if not self.acks.pending:
            return False
        acks, self.acks = self.acks, self._new_acks()
        acks.finish(0)
        acks.run()
        return True

    def stop(self) -> None:
        """Stop in good order: what has not begun goes back uncounted."""
        hygiene.connect()
        self.claims.close()
        self.dispatcher.close()
        self.turns.close()
        self.notes.clear()
        beat.gone(self.name)

    def die(self) -> None:
        """All memory is gone, and so are the locks on the notes. The database hears nothing of it."""
        self.cache.drop_all()
        for note in self.notes:
            note._map.close()  # as the kernel closes it when a process dies
            os.close(note._file)  # as the kernel closes it when a process dies

    # --- handlers ---

    def _run(self, delivery: Delivery) -> None:
        claim = delivery.claim
        if claim.activity in LOST_AT_FIRST and claim.delivery_budget == settings.delivery_attempts:
            self.leases.end(delivery)
            return
        if claim.activity == cases.slow.name:
            delivery.begin()
            delivery.heartbeat = '"at work"'
            self.slots.running.append(delivery)
            return
        hygiene.refresh()
        if (outcome := self._outcome(delivery)) is not None:
            self._hand_over(delivery, outcome)

    def _outcome(self, delivery: Delivery) -> Outcome | None:
        call = execute.prepare(delivery.claim, rng=self._rng)
        if not isinstance(call, Call):
            return call
        if delivery.begin() is not Start.GO:
            return None
        if call.definition.transactional:
            return transactional.run(call, delivery, wait=lambda microseconds: None)
        return execute.perform(call, delivery)

    def _end_the_stopped(self) -> None:
        """Slow handlers end when they are told to, those of single activities without a word."""
        for delivery in [running for running in self.slots.running if running.cancelled]:
            self.slots.running.remove(delivery)
            if delivery.claim.single:
                self.leases.end(delivery)  # this one takes it as a reason to die
                continue
            call = execute.prepare(delivery.claim, rng=self._rng)
            assert isinstance(call, Call)
            self._hand_over(delivery, call.failed(asyncio.CancelledError(), delivery))

    def _hand_over(self, delivery: Delivery, outcome: Outcome) -> None:
        if delivery.conclude() is Conclusion.FIRST:
            self.acks.submit(delivery, outcome)

    # --- wires ---

    def _new_acks(self) -> Acks:
        return Acks(ended=lambda delivery, _: self.leases.end(delivery), timing=CountedTime())

    def _new_note(self) -> Note:
        self.notes.append(Note(self._folder))
        return self.notes[-1]

    def _reconciled(self, report: ReconcileReport) -> None:
        self._reported = report
        if report.suspects_due:
            self.claims.suspects_due()


def forget_connections() -> None:
    """What a new process begins with: no connection at all."""
    for alias in list(connections):
        with suppress(Exception):
            connections[alias].close()
        with suppress(AttributeError):
            del connections[alias]


def leave_note(folder: Path, name: str, workflow_id: Any) -> None:
    """The note of a process that has died while it ran this workflow's code."""
    (folder / f"{name}.note").write_bytes(bytes([1]) + workflow_id.bytes)
