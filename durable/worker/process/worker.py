"""The worker of one process: assembles the loops, starts them in order, and stops them in order."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta

from django.db import Error as DatabaseFault
from django.db import connections

from durable.conf import settings
from durable.kernel.replay.cache import Cache
from durable.logs import words
from durable.metrics import counting, series
from durable.outcomes import ReconcileReport
from durable.store.connections import unpooled
from durable.worker.handlers.delivery import Delivery
from durable.worker.handlers.execute import Outcome
from durable.worker.handlers.pools import PoolWatch
from durable.worker.handlers.slots import Handlers
from durable.worker.loops import notes
from durable.worker.loops.acks import Acks
from durable.worker.loops.burst import Burst, Quiet
from durable.worker.loops.claims import Claims
from durable.worker.loops.dispatch import Dispatcher
from durable.worker.loops.housekeeping import Housekeeping
from durable.worker.loops.leases import Leases
from durable.worker.loops.listening import Listener
from durable.worker.loops.turns import Turns
from durable.worker.process import speaking, stopping
from durable.worker.process.modes import StoreAtStart, WorkerExit, WorkerMode
from durable.worker.process.presence import new_name
from durable.worker.process.tally import Tally
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger
from durable.worker.threads.loop import Loop, Pulse
from durable.worker.threads.wakeup import Doorbell, ForeignWrites, Pace, Wake

log = get_logger("durable.worker")

TICK = 0.5
BURST_TICK = 0.02
STUCK_AFTER = 30.0
"""Seconds after which a step of a loop that has not come back makes the worker red."""

LOST_AFTER = 300.0
"""Seconds after which such a step makes the process one that only a restart can mend."""

MORE_THREADS = "raise `ulimit -u`, pids.max or the memory limit"

LOOKS = 4
"""How often in `POLL_FOR` the watcher looks on SQLite: a look takes some 20 microseconds and no lock."""

LONGEST_LOOK = timedelta(seconds=0.25)
"""Even where the cheap watcher notices every write, the loops poll this often: a row becomes due without one."""


class Worker:
    """Turns, claims, runs and acknowledges until it is stopped. `run` is for the thread that owns it, once.

    `on_tick` is called from `run` about twice a second, to show or watch the worker.
    """

    def __init__(
        self,
        *,
        name: str = "",
        queues: Sequence[str] = (),
        concurrency: int | None = None,
        mode: WorkerMode = WorkerMode.SERVE,
        at_start: StoreAtStart = StoreAtStart.WAIT,
        on_tick: Callable[[Worker], None] | None = None,
    ) -> None:
        self.name = name or new_name()
        self.tally = Tally()
        self.ready = threading.Event()
        self.is_heard = True
        """After the end: False if code of the project still blocks the thread that emits lines and signals."""
        self._mode = mode
        self._at_start = at_start
        self._on_tick = on_tick
        self._alias = settings.database_alias
        self._queues = tuple(queues) or None
        self._doorbell = Doorbell()
        self._exit: WorkerExit | None = None
        self.grace_is_cut = False
        self._hangs: uuid.UUID | None = None
        self._has_threads = False
        self._hang_after = 5 * settings.turn_cpu_for.total_seconds()
        self._pools = PoolWatch()
        self._assemble(concurrency or settings.concurrency)

    def _assemble(self, concurrency: int) -> None:
        self._claim_wake, self._turn_wake = Wake(), Wake()
        self._freed = Wake()
        places = notes.NotePlaces(self._alias)
        self.cache = Cache(settings.cached_workflows)
        self.leases = Leases(lease_for=settings.lease_for, idle=self._claim_wake)
        self.acks = Acks(ended=self._ended, set_aside=self.leases.set_aside, counted_again=self.leases.count_again)
        self.handlers = Handlers(
            concurrency=concurrency,
            finished=self.acks.submit,
            slot_freed=self._slot_freed,
            rng=random.Random(),
        )
        self.claims = Claims(
            worker=self.name,
            queues=self._queues,
            lease_for=settings.lease_for,
            handlers=self.handlers,
            leases=self.leases,
            pace=self._pace(),
            ready=self.ready,
            hungry=self._turn_wake.ring,
            but=tuple(settings.sent_queues),
        )
        self.dispatchers = self._made_dispatchers()
        self.turns = Turns(
            queues=self._queues,
            cache=self.cache,
            note=places.open,
            staged=self._claim_wake.ring,
            claims=self.claims,
            pace=self._pace(),
            ready=self.ready.is_set,
            closed=self._closed,
            company=lambda: self.housekeeping.company,
        )
        self.listener = Listener(alias=self._alias, queues=self._queues, ring=self.ring)
        self.housekeeping = Housekeeping(
            worker=self.name,
            queues=self._queues,
            count_the_dead=places.count_the_dead,
            ready=self._prepared,
            on_report=self._reconciled,
            wakes_by=lambda: self.listener.wakes_by.value,
        )
        self.claim_loop = Loop("claim", self.claims.step, wake=self._claim_wake, at_end=self.claims.close)
        self.turn_loop = Loop("turn", self.turns.step, wake=self._turn_wake, at_end=self.turns.close)
        self.lease_loop = Loop("lease", self._renew)
        self.dispatch_loops = [
            Loop(
                f"dispatch {each.queue.name}", each.step, wake=self._dispatch_wakes[each.queue.name], at_end=each.close
            )
            for each in self.dispatchers
        ]
        self.housekeeping_loop = Loop("housekeeping", self.housekeeping.step)
        self.loops = [self.housekeeping_loop, self.lease_loop, self.turn_loop, self.claim_loop, *self.dispatch_loops]
        if connections[self._alias].vendor == "sqlite":
            watcher = ForeignWrites(alias=self._alias, on_change=self.ring)
            pause = settings.poll_for.total_seconds() / LOOKS

            def watch() -> float:
                watcher.look()
                return pause

            self.loops.append(Loop("watch", watch))
        elif settings.notify:
            # Not with Django's connection, which no step of this loop needs.
            self.loops.append(Loop("listen", self.listener.step, at_end=self.listener.close, prepare=lambda: None))

    def _made_dispatchers(self) -> list[Dispatcher]:
        """One for each queue of this worker that a transport serves. A burst has none: it would take back at its end
        what it has sent.
        """
        mine = [
            queue
            for queue in settings.sent_queues.values()
            if self._mode is WorkerMode.SERVE and (self._queues is None or queue.name in self._queues)
        ]
        self._dispatch_wakes = {queue.name: Wake() for queue in mine}
        return [
            Dispatcher(queue, worker=self.name, lease_for=settings.lease_for, pace=self._pace(), ready=self.ready)
            for queue in mine
        ]

    def _renew(self) -> float:
        rest = self.leases.beat()
        for dispatcher in self.dispatchers:
            dispatcher.beat()
        return rest

    def _pace(self) -> Pace:
        """On SQLite a cheaper watcher notices others' writes, at `POLL_FOR`; on PostgreSQL the looks do."""
        watched = connections[self._alias].vendor == "sqlite"
        return Pace(max(settings.poll_for, LONGEST_LOOK) if watched else settings.poll_for)

    # --- running ---

    def run(self) -> WorkerExit:
        """Works until stopped (or, in a burst, until nothing is due), then stops cleanly. Returns the exit code."""
        try:
            speaking.start()
        except (RuntimeError, MemoryError) as full:
            log.error("start_without_threads", error=str(full), cure=MORE_THREADS)
            self._doorbell.close()
            return WorkerExit.MACHINE
        try:
            with unpooled.kept_out(self._alias):
                return self._run()
        finally:
            self._doorbell.close()
            self.is_heard = speaking.stop()

    def _run(self) -> WorkerExit:
        if self._at_start is StoreAtStart.REQUIRE and not self._store_answers():
            return WorkerExit.STORE
        log.info("worker_started", worker=self.name, queues=self._queues or "all", mode=self._mode.value)
        self._start_threads()
        burst = Burst(
            queues=self._queues,
            claims=self.claims,
            leases=self.leases,
            acks=self.acks,
            housekeeping=self.housekeeping,
            ring=self.ring,
            turns=self.turns,
        )
        failures = 0
        while self._exit is None:
            self._doorbell.wait(TICK if self._mode is WorkerMode.SERVE else BURST_TICK)
            self._watch_turns()
            self._watch_threads()
            self._pools.look()
            if self._on_tick is not None:
                self._on_tick(self)
            if self._mode is WorkerMode.BURST and self._exit is None:
                failures = self._look_whether_done(burst, failures)
        code = stopping.stop(self, self._exit, grace=settings.grace_for.total_seconds())
        if code is WorkerExit.RESTART and self._exit is not WorkerExit.RESTART:
            code = self._exit  # somebody asked for an end meanwhile
        log.info("worker_stopped", worker=self.name, code=int(code))
        return code

    def _start_threads(self) -> None:
        try:
            self.acks.start()
            for loop in self.loops:
                loop.start()
            self._has_threads = True
        except (RuntimeError, MemoryError) as full:
            # Half a worker would hold rows that it never finishes. What has begun ends cleanly.
            log.error("start_without_threads", error=str(full), cure=MORE_THREADS)
            self.stop(WorkerExit.MACHINE)

    def stop(self, code: WorkerExit = WorkerExit.CLEAN) -> None:
        """Asks the worker to stop cleanly. From any thread, and from signal handlers. If a restart is in progress and a
        stop is requested, it becomes a stop; nothing else is revoked.
        """
        if self._exit is None or self._exit is WorkerExit.RESTART:
            self._exit = code
        self._doorbell.ring()

    def cut_grace(self) -> None:
        """Makes a stop, even one in progress, wait for no handler. From any thread, and from signal handlers."""
        self.grace_is_cut = True

    def ring(self) -> None:
        """Makes the turn, claim and dispatch loops look now."""
        self._turn_wake.ring()
        self._claim_wake.ring()
        for wake in self._dispatch_wakes.values():
            wake.ring()

    def wait_for_slot(self, seconds: float) -> None:
        """Waits until a slot becomes free, `seconds` at most."""
        self._freed.wait(seconds)

    def complaints(self) -> list[str]:
        """Why this worker is not well, in words; empty when it is."""
        texts = []
        if self._hangs is not None:
            texts.append(f"the code of workflow {self._hangs} hangs; this worker restarts itself")
        elif self._exit is not None:
            texts.append("stopping")
        elif not self.ready.is_set():
            texts.append("starting: not ready yet")
        texts += [pulse.complaint(stuck_after=STUCK_AFTER) for pulse in self._pulses()]
        if self._exit is None:
            texts += [f"the {name} loop is gone" for name in self._gone()]
        texts += self._pools.complaints()
        return [complaint for complaint in texts if complaint]

    def faults(self) -> list[str]:
        """What only a restart of this process can mend, in words. A database that is away is no such thing."""
        texts = [pulse.stuck(LOST_AFTER) for pulse in self._pulses()]
        if self._hangs is not None:
            texts.append(f"the code of workflow {self._hangs} hangs")
        if self._exit is None and self._has_threads:
            texts += [f"the {name} loop is gone" for name in self._gone()]
        return [text for text in texts if text]

    @property
    def waits_for_store(self) -> bool:
        """Whether the only obstacle is a database that does not answer."""
        pulse = self.housekeeping_loop.pulse
        return bool(pulse.trouble) and not pulse.is_bug and self._hangs is None

    @property
    def has_handlers_running(self) -> bool:
        """Whether handlers are still running after the worker's end; they must not keep the process alive."""
        return self.handlers.busy > 0 or self.turn_loop.alive

    def _pulses(self) -> list[Pulse]:
        return [loop.pulse for loop in self.loops] + [self.acks.pulse]

    def _watch_turns(self) -> None:
        hanging = self.turns.hanging(self._hang_after)
        if hanging is not None and self._hangs is None:
            # A thread cannot be stopped from outside without leaving locks held: the process has to end. The note of
            # whose code is running stays, and the next start counts it.
            self._hangs = hanging
            log.error("turn_hangs", workflow=str(hanging), seconds=self._hang_after, worker=self.name)
            self.stop(WorkerExit.RESTART)

    def _watch_threads(self) -> None:
        gone = self._gone()
        if gone and self._exit is None:
            # Half a worker would hold rows that it never finishes. None of these threads ends by itself.
            log.error("loops_gone", loops=gone, worker=self.name)
            self.stop(WorkerExit.RESTART)

    def _gone(self) -> list[str]:
        threads = [(loop.pulse.name, loop.alive) for loop in self.loops]
        return [name for name, alive in [*threads, (self.acks.pulse.name, self.acks.alive)] if not alive]

    def _look_whether_done(self, burst: Burst, failures: int) -> int:
        try:
            hygiene.refresh()
            quiet = burst.look() if self.ready.is_set() else Quiet.NOT_YET
            if quiet is not Quiet.NOT_YET:
                self.stop(WorkerExit.CLEAN if quiet is Quiet.DONE else WorkerExit.STORE)
            elif not self.ready.is_set() and self.housekeeping_loop.pulse.trouble:
                failures += 1
        except DatabaseFault as fault:
            connections[self._alias].close()
            log.warning("burst_can_not_look", error=words(fault), worker=self.name)
            failures += 1
        else:
            if self.ready.is_set():
                failures = 0
        if failures > stopping.BURST_PATIENCE:
            self.stop(WorkerExit.STORE)
        return failures

    def _store_answers(self) -> bool:
        try:
            connections[self._alias].ensure_connection()
        except DatabaseFault as fault:  # its text says everything; a traceback of the driver's would hide it
            log.error("store_unreachable", error=words(fault), worker=self.name)
            return False
        return True

    # --- wires between the loops ---

    def _prepared(self) -> None:
        self.claims.suspects_due()
        self.ready.set()
        self.ring()

    def _reconciled(self, report: ReconcileReport) -> None:
        if report.suspects_due:
            self.claims.suspects_due()
        if report.rearmed or report.dead_lettered or report.settled or report.suspects_due:
            self.ring()

    def _slot_freed(self) -> None:
        self._freed.ring()
        self._room_was_made()

    def _closed(self, number: int) -> None:
        self.tally.closed += number

    def _room_was_made(self) -> None:
        if not self._claim_wake.rung and self.claims.room:
            self._claim_wake.ring()

    def _ended(self, delivery: Delivery, acknowledged: Outcome | None) -> None:
        self.leases.end(delivery)
        self._room_was_made()
        counting.add(series.ATTEMPTS, delivery.claim.activity, self.tally.count(acknowledged))
        if not delivery.claim.single:
            self.turns.hints.add(delivery.claim.workflow_id)
            self._turn_wake.ring()
