"""The turn: feeds new messages and due timers to workflows' code, and writes its commands. A batch, one transaction.

Workflows that are not in memory are replayed before the transaction, and `last_seq` is compared under the lock. On
PostgreSQL code runs inside the transaction, which locks the rows of its workflows: it is pure, short and bounded. On
SQLite, where a transaction that writes stops all other writers, code runs before it, and under the lock only those
plans are written whose workflow and messages are as they were read (ADR 017). Suspended workflows are cached only after
the commit was confirmed.
"""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Sequence
from functools import partial

from django.db import Error as DjangoDatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from durable import clock
from durable.flow.endings import closing, family
from durable.flow.transactions import reporting, transaction
from durable.flow.transactions.transaction import Patience, Waits
from durable.flow.turns import choosing, deciding, keeping, others, poison, reading
from durable.flow.turns.choosing import Choice, Hints
from durable.flow.turns.deciding import UNKNOWN_TYPE_WAITS, Ahead
from durable.flow.turns.passed_over import PassedOver
from durable.flow.turns.plan import Plan
from durable.flow.turns.preparing import Announce, Announcements, Batch, is_turnable, prepare
from durable.flow.turns.staged_claims import StagedClaims
from durable.kernel.replay.cache import Cache
from durable.logs import get_logger, words
from durable.outbound import send
from durable.outcomes import Claim, Company, OutboxStatus, TurnReport
from durable.store.connections import sql
from durable.store.deliveries import outbox, staging, together, work_items
from durable.store.runs import messages, sleeping, workflows
from durable.store.runs.workflows import Turnable

logger = get_logger("durable.flow")

_CODE_FOR = 0.05


def turn(
    *,
    cache: Cache,
    queues: tuple[str, ...] | None,
    limit: int,
    note: Announce,
    staged_claims: StagedClaims | None = None,
    company: Company = Company.ALONE,
    idle: int | None = None,
    hints: Hints | None = None,
    aside: PassedOver | None = None,
    reads: Announce = lambda _: None,
) -> TurnReport:
    """One batch of turns: at most `limit` workflows of `queues` (None: all queues) that have something due.

    Commits together, for each: events, staged rows, cancellations, `wake_at`, settled rows, the status, and the removal
    of exactly the messages that were read. `note` gets the id of the workflow whose code is about to run, and `None`
    afterwards: if a turn kills its process, the id stays there. `reads` gets the same for histories and long payloads
    that are about to be read. Any error drops every coroutine of the batch and is raised; retryable ones are tried
    again, from cold, before that. Workflows with counted poison turns are turned alone. With `staged_claims`,
    staged rows may be deliveries of this process from the beginning; the report has them. In company, other workers may
    have in memory what this process would replay, so it leaves that to them for a moment. Of workflows for which there
    is no room in memory, only as many begin as this process has slots `idle` (None: enough), or when they have waited
    for `START_WAIT_FOR`. `hints` name those in memory that have something due.

    If a batch meets a lock that is not granted, its workflows are turned one by one: the locked one is put `aside` for
    a few seconds, and stops no other.
    """
    # Workflows that an error has dropped from memory are in nobody else's, so a second try leaves nothing to others.
    tries = iter([company])
    passed_over = aside or PassedOver()
    announce = Announcements(note, reads)
    return transaction.retried(
        lambda: _turn_once(
            cache,
            queues,
            limit,
            announce,
            staged_claims,
            company=next(tries, Company.ALONE),
            idle=limit if idle is None else idle,
            hints=hints,
            aside=passed_over,
        )
    )


def claimed_in_doubt(staged_claims: StagedClaims) -> list[Claim]:
    """What the last turns have claimed without knowing that it was committed. Reads only, and only if
    there is doubt.
    """
    return transaction.reading(staged_claims.found)


def _turn_once(
    cache: Cache,
    queues: tuple[str, ...] | None,
    limit: int,
    announce: Announcements,
    staged_claims: StagedClaims | None,
    *,
    company: Company,
    idle: int,
    hints: Hints | None,
    aside: PassedOver,
) -> TurnReport:
    if staged_claims is not None and (committed := transaction.reading(staged_claims.found)):
        return TurnReport(claimed=tuple(committed))
    choice = transaction.reading(
        partial(
            choosing.choose,
            cache=cache,
            queues=queues,
            limit=limit,
            company=company,
            idle=idle,
            hints=hints,
            left_out=aside.left_out(),
        )
    )
    candidates = list(choice.waited)
    report = TurnReport()
    # Preparing costs more than looking: the second half is prepared only when others hold all of the first.
    while candidates and report == TurnReport():
        tried = candidates[: len(candidates) if choice.leaves else limit]
        try:
            report = _turn_some(cache, tried, choice, limit, announce, staged_claims)
        except DjangoDatabaseError as error:
            in_doubt = staged_claims is not None and staged_claims.in_doubt
            if in_doubt or not transaction.is_passing(error) or transaction.store_is_away(error):
                raise
            report = _turn_each(cache, tried, choice, announce, aside)
        done_with = choice.left.union(tried)
        candidates = [owner for owner in candidates if owner not in done_with]
    if staged_claims is not None:
        staged_claims.confirmed()
    aside.pass_over(choice.uncounted)
    if choice.missed and choice.hides and report == TurnReport():
        # Others have locked all of them: what is due after these must not wait for them.
        aside.pass_over(choice.missed)
        return TurnReport(deferred=len(choice.missed))
    return TurnReport(left=len(choice.left), without_room=choice.without_room) if report == TurnReport() else report


def _turn_each(
    cache: Cache, candidates: Sequence[uuid.UUID], choice: Choice, announce: Announcements, aside: PassedOver
) -> TurnReport:
    """The same candidates, each in its own transaction; nothing is claimed meanwhile. One that meets a lock again is
    put aside; those that have met one before come last.
    """
    reports = []
    for owner in aside.last(candidates):
        try:
            reports.append(_turn_some(cache, [owner], choice, 1, announce, None, wait=sql.SHORT_LOCK_WAIT))
        except DjangoDatabaseError as error:
            if not transaction.is_passing(error) or transaction.store_is_away(error):
                raise
            aside.put(owner)
            logger.warning("workflow.turn_put_off", workflow=str(owner), error=words(error))
    return TurnReport(
        workflows=sum(report.workflows for report in reports),
        messages=sum(report.messages for report in reports),
        staged=sum(report.staged for report in reports),
        closed=sum(report.closed for report in reports),
        deferred=sum(report.deferred for report in reports),
        parked=sum(report.parked for report in reports),
        raised=tuple(error for report in reports for error in report.raised),
    )


def _turn_some(
    cache: Cache,
    candidates: list[uuid.UUID],
    choice: Choice,
    limit: int,
    announce: Announcements,
    staged_claims: StagedClaims | None,
    *,
    wait: str = sql.LOCK_WAIT,
) -> TurnReport:
    batch = Batch()
    plans: list[Plan] = []
    report = TurnReport()
    try:
        looked = transaction.reading(
            lambda connection: prepare(connection, cache, candidates, choice, limit, batch, announce)
        )
        chosen = [owner for owner in candidates if owner not in batch.overran]
        if chosen:
            ahead = _run_ahead(chosen, batch, announce, looked)
            plans, report = transaction.own(
                lambda connection: _turn(connection, chosen, batch, limit, announce, staged_claims, wait, ahead),
                patience=Patience.ONCE,
                waits=Waits.LATER,
            )
    except BaseException:
        announce.runs(None)
        announce.reads(None)
        batch.drop(cache)
        raise
    _keep(cache, batch, plans)
    for plan in plans:
        if plan.traced is not None and plan.events:
            plan.traced.end(blocked_by=plan.blocked_by, events=len(plan.events), activities=len(plan.rows))
    choice.missed.update(batch.missed)
    for owner in [*batch.overran, *(plan.workflow.id for plan in plans if plan.poisoned)]:
        if not poison.count(owner):
            choice.uncounted.add(owner)
    return report


def _run_ahead(
    candidates: Sequence[uuid.UUID], batch: Batch, announce: Announcements, looked: Turnable
) -> Ahead | None:
    """Runs the code before the transaction, if a write transaction stops all other writers. Returns None if
    transactions lock rows: these locks keep two workers from running the same code. Rows that were `looked` at just
    before are read again only if histories were replayed in between, which takes time.
    """
    if not sql.has_one_writer(transaction.engine_connection()):
        return None
    read = transaction.reading(
        lambda connection: reading.read(
            connection,
            workflows.look_for_turn(connection, candidates) if batch.replayed else looked.only(candidates),
            batch,
            announce,
        )
    )
    plans = deciding.decide(read, candidates, batch, announce, until=time.perf_counter() + _CODE_FOR)
    return Ahead(read, plans)


def _keep(cache: Cache, batch: Batch, plans: Sequence[Plan]) -> None:
    """After the commit: keeps executions that match their history, and those that were prepared but not used; drops the
    rest.
    """
    at = plans[0].at if plans else clock.host_now()
    planned = {plan.workflow.id: plan for plan in plans}
    kept = []
    for owner, execution in list(batch.executions.items()):
        plan = planned.get(owner)
        if plan is None:
            untouched = owner not in batch.ran and owner not in batch.overran
            keeps = untouched and owner in batch.seen and execution.last_seq == batch.seen[owner]
        else:
            keeps = plan.execution is execution and plan.closing is None and execution.last_seq == plan.last_seq
        if keeps and owner not in batch.blocked_by:
            del batch.executions[owner]
            if plan is not None:
                execution.patches.is_new = False
            if plan is not None or owner not in cache:
                kept.append((execution, batch.used_at.get(owner, at)))
    batch.drop(cache)
    cache.put_all(kept, at=at)
    if any(plan.out_of_memory for plan in plans):
        gc.collect()  # its frames are part of cycles, and the next workflow's code would find no memory either


def _turn(
    connection: BaseDatabaseWrapper,
    candidates: Sequence[uuid.UUID],
    batch: Batch,
    limit: int,
    announce: Announcements,
    staged_claims: StagedClaims | None,
    wait: str,
    ahead: Ahead | None,
) -> tuple[list[Plan], TurnReport]:
    turnable = workflows.lock_for_turn(connection, candidates, limit=limit, wait=wait)
    locked = turnable.workflows
    batch.missed = [owner for owner in candidates if owner not in locked]
    if not locked:
        return [], TurnReport()
    if ahead is None:
        read = reading.read(connection, turnable, batch, announce)
        decided = deciding.decide(read, candidates, batch, announce, until=time.perf_counter() + _CODE_FOR)
    else:
        decided = ahead.standing(connection, locked)
    plans: list[Plan] = []
    ended: list[uuid.UUID] = []
    waiting: list[uuid.UUID] = []
    deferred = 0
    for owner in candidates:
        workflow = locked.get(owner)
        if workflow is None:
            continue
        if not workflow.is_live:
            ended.append(owner)
        elif not is_turnable(workflow):
            waiting.append(owner)
        elif (plan := decided.get(owner)) is not None:
            plans.append(plan)
        else:
            deferred += 1
    orders = messages.orders_to_terminate(connection, waiting)
    plans += [deciding.terminated(Plan(locked[owner], turnable.at), payload) for owner, payload in orders.items()]
    waiting = [owner for owner in waiting if owner not in orders]
    offered = keeping.offer(connection, [locked[owner] for owner in waiting], turnable.at)
    waiting = [owner for owner in waiting if owner not in offered]
    claimed = _write(connection, plans, ended=ended, waiting=waiting, staged_claims=staged_claims)
    if staged_claims is not None and claimed:
        staged_claims.about_to_commit()
    return plans, TurnReport(
        workflows=len(plans),
        messages=sum(len(plan.consumed) for plan in plans),
        staged=sum(len(plan.rows) for plan in plans),
        closed=sum(plan.closing is not None for plan in plans),
        deferred=deferred + len(offered),
        parked=len(ended) + len(waiting),
        claimed=tuple(claimed),
        raised=tuple(plan.raised for plan in plans if plan.raised is not None),
    )


def _write(
    connection: BaseDatabaseWrapper,
    plans: Sequence[Plan],
    *,
    ended: list[uuid.UUID],
    waiting: list[uuid.UUID],
    staged_claims: StagedClaims | None,
) -> list[Claim]:
    """Everything that one batch of turns changes, in a constant number of statements. Returns what was claimed."""
    for departure in [departure for plan in plans for departure in plan.said]:
        send(departure)
    claimed: list[Claim] = []
    if staged_claims is None:
        staging.stage(connection, [row for plan in plans for row in plan.rows])
    else:
        claimed = staged_claims.stage(connection, plans)
    _cancel(connection, [plan for plan in plans if plan.cancelled])
    others.start_children(connection, plans)
    others.send(connection, plans)
    closed = [plan.workflow.id for plan in plans if plan.closing is not None]
    closing.settle(connection, closed)
    unread = closing.consume_messages(connection, closed, read=[id for plan in plans for id in plan.consumed])
    events = []
    for plan in plans:
        events += [(plan.workflow.id, event) for event in plan.events]
        if plan.closing is not None:
            events.append((plan.workflow.id, plan.closing_event(unread.get(plan.workflow.id, {}))))
            reporting.closed(
                plan.workflow,
                plan.closing.status,
                failure=None if plan.closing.failure is None else plan.closing.failure.failure,
                reason=str(plan.closing.data.get("reason") or ""),
                error=plan.closing.error,
            )
    together.record(connection, events, [made for plan in plans if (made := plan.progress()) is not None])
    family.tell(connection, [end for plan in plans if (end := plan.ended()) is not None])
    messages.insert(connection, [answer for plan in plans for answer in plan.answers])
    sleeping.wake_later(connection, [plan.workflow.id for plan in plans if plan.unknown], by=UNKNOWN_TYPE_WAITS)
    sleeping.sleep(connection, [*waiting, *ended])
    messages.park(connection, [*waiting, *(plan.workflow.id for plan in plans if plan.blocked)])
    keeping.leave_signals(connection, [plan for plan in plans if plan.full])
    messages.put_off(connection, {id: until for plan in plans for id, until in plan.later.items()})
    for owner, kind in messages.keep_late(connection, ended):
        logger.warning("message.came_after_the_end", workflow=str(owner), kind=kind)
    return claimed


def _cancel(connection: BaseDatabaseWrapper, plans: Sequence[Plan]) -> None:
    """Activities that the code no longer awaits: pending rows are closed, running ones asked to stop, and dead letters
    marked as judged.
    """
    if not plans:
        return
    wanted = {plan.workflow.id: (plan.workflow.run, plan.cancelled) for plan in plans}
    rows = outbox.of_ordinals(connection, wanted)
    out = [row.id for row in rows.values() if row.status is OutboxStatus.CLAIMED]
    work_items.lock_of_rows(connection, out)
    work_items.ask_to_cancel(connection, out)
    outbox.cancel(connection, [row.id for row in rows.values() if row.status is OutboxStatus.PENDING])
    outbox.mark_judged(connection, [row.id for row in rows.values() if row.status is OutboxStatus.DEAD])
