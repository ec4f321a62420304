"""Housekeeping: what has to be in order before the first claim, and then on a cadence."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from django.db import OperationalError, connections

from durable.conf import settings
from durable.databases import Weight, server_findings
from durable.flow import beat, poison, reconcile, settle, unblock
from durable.kernel.registry import registry
from durable.outcomes import Company, ReconcileReport
from durable.worker.hostclock import HostClock
from durable.worker.logs import get_logger

log = get_logger("durable.worker.housekeeping")

SETTLE_ROUND = 1000


class Housekeeping:
    """Its first step counts the poison turns of dead processes, settles, offers this code what other code had to block,
    and reconciles; then `ready` is called, once.

    `found` is called with each report, so that loops can be woken for what it brought.
    """

    def __init__(
        self,
        *,
        worker: str,
        queues: tuple[str, ...] | None,
        count_the_dead: Callable[[Callable[[UUID], None]], list[UUID]],
        ready: Callable[[], None],
        found: Callable[[ReconcileReport], None],
        wakes_by: Callable[[], str],
    ) -> None:
        self._worker = worker
        self._queues = queues
        self._count = count_the_dead
        self._ready = ready
        self._found = found
        self._wakes_by = wakes_by
        self._is_ready = False
        self._clock = HostClock() if connections[settings.database_alias].vendor == "sqlite" else None
        self._due = 0.0
        self.company = Company.ALONE
        """Who else served these queues at the last look."""

    def step(self) -> float:
        """Do a round if one is due. Answers seconds until the next one."""
        now = time.monotonic()
        if now < self._due:
            return self._due - now
        if not self._is_ready:
            self._see_the_server()
        # First, before anything that may have to wait: a worker that is starting, or held up, is there all the same.
        self.company = beat.beat(
            name=self._worker,
            queues=list(self._queues or ()),
            version=registry.version(),
            wakes_by=self._wakes_by(),
        )
        poisoned = self._count_the_dead()
        settled = settle.settle_closed(limit=SETTLE_ROUND if self._is_ready else None)
        if not self._is_ready and (offered := unblock.after_deploy(registry.version())):
            log.info("blocked_workflows_offered", count=offered, worker=self._worker)
        self.reconcile()
        if settled or poisoned:
            log.info("swept", settled=settled, poison_turns=[str(workflow_id) for workflow_id in poisoned])
        if not self._is_ready:
            self._is_ready = True
            self._ready()
        self._due = time.monotonic() + settings.reconcile_every.total_seconds()
        return settings.reconcile_every.total_seconds()

    def reconcile(self) -> ReconcileReport:
        """One round of reconciling, in the calling thread. Nothing is judged while the host's clock has just jumped."""
        if self._clock is not None and not self._clock.leases_can_be_judged(settings.lease_for):
            return ReconcileReport()
        report = reconcile.reconcile()
        if report.rearmed or report.dead_lettered or report.settled:
            log.info("reconciled", rearmed=report.rearmed, dead_lettered=report.dead_lettered, settled=report.settled)
        self._found(report)
        return report

    def _see_the_server(self) -> None:
        """Tell what of the session's settings costs something. Raises `OperationalError`, in words, for one in which
        nothing can be written: a standby may become the primary, so the worker waits.
        """
        found = list(server_findings(connections[settings.database_alias]))
        for fault in found:
            if fault.weight is Weight.REFUSED:
                raise OperationalError(f"{fault.text} {fault.cure}")
        for fault in found:
            log.warning("database_setting", fault=fault.text, cure=fault.cure, check=fault.id, worker=self._worker)

    def _count_the_dead(self) -> list[UUID]:
        counted = self._count(poison.count)
        for workflow_id in counted:
            log.error("poison_turn_counted", workflow=str(workflow_id), worker=self._worker)
        return counted
