"""Housekeeping: what has to be done before the first claim, and then periodically."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from django.db import Error as DatabaseFault
from django.db import OperationalError, connections

from durable.conf import settings
from durable.databases import Weight, server_findings
from durable.flow.operator import unblock
from durable.flow.transactions import transaction
from durable.flow.turns import poison
from durable.flow.upkeep import beat, reconcile, settle
from durable.kernel.definitions.registry import registry
from durable.logs import words
from durable.outcomes import Company, ReconcileReport
from durable.worker.loops.hostclock import HostClock
from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.housekeeping")

SETTLE_ROUND = 1000

_SHORTEST = timedelta(microseconds=1)

PUT_OFF_FOR = 1.0
"""Seconds until an early round, after one that could not do all of its parts."""


class Housekeeping:
    """Its first step counts the poison turns of dead processes, settles, offers this code what other code had to block,
    and reconciles; then `ready` is called, once.

    The parts are independent: one that meets another session's lock, or an error that may not affect the next one, is
    put off to an early round, and neither the other parts nor the readiness wait for it. If the database is away, it
    waits.

    `on_report` is called with each report, so that loops can be woken.
    """

    def __init__(
        self,
        *,
        worker: str,
        queues: tuple[str, ...] | None,
        count_the_dead: Callable[[Callable[[UUID], bool]], list[UUID]],
        ready: Callable[[], None],
        on_report: Callable[[ReconcileReport], None],
        wakes_by: Callable[[], str],
    ) -> None:
        self._worker = worker
        self._queues = queues
        self._count_all = count_the_dead
        self._ready = ready
        self._on_report = on_report
        self._wakes_by = wakes_by
        self._is_ready = False
        self._has_beaten = False
        self._began = time.monotonic()
        self._to_offer: frozenset[UUID] | None = None
        self._clock = HostClock() if connections[settings.database_alias].vendor == "sqlite" else None
        self._due = 0.0
        self.company = Company.ALONE
        """Who else served these queues at the last look."""

    def step(self) -> float:
        """Does a round if one is due. Returns the seconds until the next one."""
        now = time.monotonic()
        if now < self._due:
            return self._due - now
        if not self._is_ready:
            self._see_the_server()
        # The heartbeat comes first, before anything that may have to wait: a worker that is starting, or held up, is
        # alive, too.
        done = [
            self._is_done("beat", self._beat),
            self._is_done("count the dead", self._count_the_dead),
            self._is_done("settle", self._settle),
            self._is_done("offer", self._offer),
            self._is_done("reconcile", self.reconcile),
        ]
        if not self._is_ready:
            self._is_ready = True
            self._ready()
        every = settings.reconcile_every.total_seconds()
        rest = every if all(done) and not self._to_offer else min(every, PUT_OFF_FOR)
        self._due = time.monotonic() + rest
        return rest

    def _is_done(self, name: str, part: Callable[[], object]) -> bool:
        """Does one part of a round. Returns whether it is done. Raises the error of a database that is away."""
        try:
            part()
        except (DatabaseFault, ValueError, LookupError, TypeError) as fault:
            if isinstance(fault, DatabaseFault) and transaction.store_is_away(fault):
                raise
            log.warning("housekeeping_put_off", part=name, error=words(fault))
            return False
        return True

    def _settle(self) -> None:
        settled = settle.settle_closed(limit=SETTLE_ROUND if self._is_ready else None)
        if settled:
            log.info("swept", settled=settled)

    def _offer(self) -> None:
        """Offers workflows that were blocked under other code, once, and those that were locked then, until they were
        offered; from then on those that workers of other code have blocked, once these workers are gone.
        """
        if self._to_offer is not None and not self._to_offer:
            offered = unblock.after_old_workers(registry.version())
        else:
            offered = unblock.after_deploy(registry.version(), left=self._to_offer)
        self._to_offer = offered.left
        if offered.count:
            log.info("blocked_workflows_offered", count=offered.count, worker=self._worker)

    def _beat(self) -> None:
        self.company = beat.beat(
            name=self._worker,
            queues=list(self._queues or ()),
            version=registry.version(),
            wakes_by=self._wakes_by(),
            up_for=None if self._has_beaten else _SHORTEST + timedelta(seconds=time.monotonic() - self._began),
        )
        self._has_beaten = True

    def reconcile(self) -> ReconcileReport:
        """One round of reconciling, in the calling thread. Does nothing while the host's clock has just jumped."""
        if self._clock is not None and not self._clock.leases_can_be_judged(settings.lease_for):
            return ReconcileReport()
        report = reconcile.reconcile()
        if report.rearmed or report.dead_lettered or report.settled:
            log.info("reconciled", rearmed=report.rearmed, dead_lettered=report.dead_lettered, settled=report.settled)
        self._on_report(report)
        return report

    def _see_the_server(self) -> None:
        """Logs settings of the session with a cost. Raises `OperationalError`, in words, for a session that cannot
        write: a standby may become the primary, so the worker waits.
        """
        faults = list(server_findings(connections[settings.database_alias]))
        for fault in faults:
            if fault.weight is Weight.REFUSED:
                raise OperationalError(f"{fault.text} {fault.cure}")
        for fault in faults:
            log.warning("database_setting", fault=fault.text, cure=fault.cure, check=fault.id, worker=self._worker)

    def _count_the_dead(self) -> None:
        for workflow_id in self._count_all(self._count):
            log.error("poison_turn_counted", workflow=str(workflow_id), worker=self._worker)

    def _count(self, workflow_id: UUID) -> bool:
        """Counts one. If an error belongs to this workflow, its note stays for a later round, and the others are
        counted.
        """
        try:
            return poison.count(workflow_id)
        except (DatabaseFault, ValueError, LookupError, TypeError) as fault:
            if isinstance(fault, DatabaseFault) and transaction.store_is_away(fault):
                raise
            log.warning("poison_turn_not_counted", workflow=str(workflow_id), error=words(fault), worker=self._worker)
            return False
