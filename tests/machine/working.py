"""Rules of workers: turns, claims, and everything that ends a delivery, in time or too late."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from django.db import connection
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from durable import clock
from durable.flow.delivery import abandon, acknowledge, claim, postpone, release, renew
from durable.flow.operator import terminate
from durable.flow.turns import turn
from durable.flow.turns.room import Room
from durable.flow.turns.staged_claims import StagedClaims
from durable.flow.upkeep import reconcile
from durable.models import WorkItem
from durable.outcomes import (
    AckOutcome,
    Cancelled,
    Cause,
    Claim,
    Completed,
    Ending,
    Failed,
    Failure,
    HeldDelivery,
    RetryLater,
    TurnReport,
)
from tests.ledger.models import Entry
from tests.machine import state as states
from tests.machine.crew import CALLER, HANDS
from tests.machine.promises import deliveries as promised
from tests.machine.promises import operators, turns
from tests.machine.stage import LEASE, Stage, delivery, hands, has_deliveries, postgresql, same
from tests.machine.state import State

ERROR = Failure("OSError", "the bank is closed", "")
queues = st.sampled_from([None, None, None, ("default",), ("side",)])
limits = st.sampled_from([50, 50, 2, 1])
endings = st.sampled_from(["done", "done", "error", "no_retry", "timeout", "stopped"])
HELD_BACK = timedelta(seconds=20)


class Working(Stage):
    """Workers do what the worker's threads do, each on a connection of its own."""

    @rule(by=hands, queues=queues, limit=limits, room=st.sampled_from([0, 0, 1, 50]))
    def turn(self, by: str, queues: tuple[str, ...] | None, limit: int, room: int) -> None:
        """With room, what is staged may be out with this very worker from the beginning."""
        report = self._turn(by, queues, limit, room)
        after = states.read()
        self._taken(by, report, after, room)
        turns.judge(self.state, turns.not_yet_taken(after, report), report, queues=queues, limit=limit)
        self._meet_children(after)
        self.note(
            "turned", *(f"a turn wrote {e['type']}" for key, e in after.events.items() if key not in self.state.events)
        )
        self.adopt(after)

    def _meet_children(self, after: State) -> None:
        """What a turn has started has a name from now on."""
        known = list(self.workflows.values())
        new = [row for key, row in after.workflows.items() if key not in known]
        for row in sorted(new, key=lambda row: (known.index(row["parent_id"]), row["parent_ordinal"])):
            self.introduce(row["id"])

    def _turn(self, by: str, queues: tuple[str, ...] | None, limit: int, room: int = 0) -> TurnReport:
        cache = self.crew[by].cache
        offered = Room()
        offered.open(room)
        staged_claims = StagedClaims(worker=by, queues=queues, lease_for=LEASE, room=offered) if room else None
        return self.crew[by].do(
            lambda: turn.turn(cache=cache, queues=queues, limit=limit, note=lambda _: None, staged_claims=staged_claims)
        )

    def _taken(self, by: str, report: TurnReport, after: State, room: int) -> None:
        """What a turn has taken stands there as if a claim had followed it."""
        assert len(report.claimed) <= room
        expected = turns.not_yet_taken(after, report)
        rows = [expected.rows[taken.row_id] for taken in report.claimed]
        promised.claim(expected, rows, report.claimed, worker=by, lease_for=LEASE)
        assert states.differences(expected, after) == []
        self.introduce_claims(report.claimed)
        self.note(f"taken by the turn: {min(len(report.claimed), 1)}")

    @rule(by=hands, queues=queues, limit=limits)
    def claim(self, by: str, queues: tuple[str, ...] | None, limit: int) -> None:
        answer = self.crew[by].do(lambda: claim.claim(worker=by, limit=limit, queues=queues, lease_for=LEASE))
        self._claimed(by, answer, queues, limit, suspects=False)

    @rule(by=hands, queues=queues)
    def claim_suspect(self, by: str, queues: tuple[str, ...] | None) -> None:
        wait = len(promised.due(self.state, queues=queues, suspects=True))
        assert self.crew[by].do(lambda: claim.suspects_due(queues)) == wait
        answer = self.crew[by].do(lambda: claim.claim_suspect(worker=by, queues=queues, lease_for=LEASE))
        self._claimed(by, answer, queues, 1, suspects=True)

    def _claimed(
        self,
        by: str,
        claims: list[Claim],
        queues: tuple[str, ...] | None,
        limit: int,
        *,
        suspects: bool,
        locked: tuple[int, ...] = (),
    ) -> None:
        expected = self.state.copy()
        rows = [row for row in promised.due(expected, queues=queues, suspects=suspects) if row["id"] not in locked]
        promised.claim(expected, rows[:limit], claims, worker=by, lease_for=LEASE)
        self.introduce_claims(claims)
        self.note("claimed a suspect" if suspects and claims else f"claimed: {min(len(claims), 2)}")
        self.arrive(expected)

    # --- ends of deliveries ----------------------------------------------------------------------------------------

    def _ending(self, name: str, kind: str) -> Ending:
        """What the worker that holds this delivery would send, by its own idea of the budget."""
        out, at = self.deliveries[name], clock.host_now()
        item = self.state.items.get(out.row_id)
        asked = item is not None and item["lock_token"] == out.token and item["cancel_requested_at"] is not None
        cause = Cause.TIMEOUT if kind == "timeout" else Cause.APPLICATION_ERROR
        match kind:
            case "error" | "timeout" if out.attempt_budget is None or out.attempt < out.attempt_budget:
                return RetryLater(out, ERROR, cause, at, 1_500_000, '"tired"')
            case "error" | "timeout":
                return Failed(out, ERROR, cause, at)
            case "no_retry":
                return Failed(out, ERROR, cause, at, spent=False)
            case "stopped" if asked:
                return Cancelled(out)
            case _:
                return Completed(out, name[1:])

    @precondition(has_deliveries)
    @rule(by=hands, batch=st.lists(st.tuples(delivery, endings), min_size=1, max_size=4))
    def acknowledge(self, by: str, batch: list[tuple[str, str]]) -> None:
        """Live and late ones in one batch, also the same one twice."""
        given = [self._ending(name, kind) for name, kind in batch]
        expected = self.state.copy()
        answers = promised.acknowledge(expected, given)
        self.note(*("acknowledged too late, and taken over" for name, _ in batch if name in self.overtaken))
        same(self.do(by, lambda: acknowledge.acknowledge(given)), answers)
        self.note(*(f"acknowledged {type(e).__name__}: {answer}" for e, answer in zip(given, answers, strict=True)))
        self.arrive(expected)

    @precondition(has_deliveries)
    @rule(by=hands, name=delivery, raises=st.booleans(), meanwhile=st.sampled_from(["", "", "terminate", "lost"]))
    def acknowledge_in_one_transaction(self, by: str, name: str, raises: bool, meanwhile: str) -> None:
        """The handler's own row and its completion, or neither; also when the delivery is lost while it runs."""
        out, label = self.deliveries[name], f"{name} paid"
        live = promised.item(self.state, out.row_id, out.token) is not None
        expected = self.state.copy()
        between = meanwhile if live and postgresql() else ""
        other = next(hand for hand in HANDS if hand != by)

        def handler() -> Completed:
            Entry.objects.create(label=label)
            if between == "terminate":
                self.crew[other].do(lambda: terminate.terminate(out.workflow_id, reason="meanwhile"))
            elif between == "lost":
                self.crew[other].do(lambda: _expire([out.row_id]))
                self.crew[other].do(reconcile.reconcile)
            if raises:
                raise LookupError(label)
            return Completed(out, name[1:])

        def attempt() -> Any:
            try:
                return acknowledge.transactional(out, handler)
            except LookupError:
                return "raised"

        answer = self.crew[by].do(attempt)
        self.note(f"in one transaction {between}: {answer}")
        if between == "terminate":
            operators.terminate(expected, out.workflow_id, "meanwhile")
        elif between == "lost":
            self._expect_expired(expected, [out.row_id])
            promised.reconcile(expected)
        if not live:
            same(answer, AckOutcome.TOKEN_MISSING)
        elif raises:
            same(answer, "raised")
        else:
            (outcome,) = promised.acknowledge(expected, [Completed(out, name[1:])])
            same(answer, outcome)
            if outcome is AckOutcome.ACKNOWLEDGED:
                expected.expect_new("ledger", label=label, amount=0, note="")
        self.arrive(expected)

    @precondition(has_deliveries)
    @rule(by=hands, names=st.lists(delivery, min_size=1, max_size=4), beat=st.sampled_from([None, '"half"']))
    def renew(self, by: str, names: list[str], beat: str | None) -> None:
        held = self._held(names, beat)
        expected = self.state.copy()
        answers = promised.renew(expected, held, lease_for=LEASE)
        same(self.do(by, lambda: renew.renew(held, lease_for=LEASE)), answers)
        self.note(*(f"renewed: {answer}" for answer in answers))
        self.arrive(expected)

    def _held(self, names: list[str], beat: str | None) -> list[HeldDelivery]:
        return [HeldDelivery(self.deliveries[name].row_id, self.deliveries[name].token, beat) for name in names]

    @precondition(has_deliveries)
    @rule(
        by=hands,
        name=delivery,
        cause=st.sampled_from([Cause.ACK_ABANDONED, Cause.UNKNOWN_HANDLER]),
        delay=st.sampled_from([None, timedelta(milliseconds=100)]),
    )
    def abandon(self, by: str, name: str, cause: Cause, delay: timedelta | None) -> None:
        out, expected = self.deliveries[name], self.state.copy()
        answer = promised.abandon(expected, out, cause=cause, failure=ERROR, delay=delay)
        same(self.do(by, lambda: abandon.abandon(out, cause=cause, failure=ERROR, delay=delay)), answer)
        self.note(f"abandoned: {answer}")
        self.arrive(expected)

    @precondition(has_deliveries)
    @rule(by=hands, names=st.lists(delivery, min_size=1, max_size=4, unique=True), stops=st.booleans())
    def give_back_uncounted(self, by: str, names: list[str], stops: bool) -> None:
        """At a stop, or because this process knows no such handler."""
        claims, expected = [self.deliveries[name] for name in names], self.state.copy()
        if stops:
            answers = promised.give_back_uncounted(expected, claims, delay=timedelta())
            same(self.do(by, lambda: release.release(claims)), answers)
        else:
            answers = promised.give_back_uncounted(expected, claims[:1], delay=HELD_BACK)
            same([self.do(by, lambda: postpone.postpone(claims[0], delay=HELD_BACK))], answers)
        self.note(*(f"given back uncounted: {answer}" for answer in answers))
        self.arrive(expected)

    # --- several steps at once: they bring walks to places where single ones seldom come -------------------------

    @rule(by=hands)
    def go_on(self, by: str) -> None:
        """What a worker does all the time."""
        self.turn(by, None, 50, 0)
        self.claim(by, None, 50)

    def let_die(self, by: str, name: str, cause: Cause) -> None:
        """This delivery and those that follow it fail, until the row is given no other."""
        row_id = self.deliveries[name].row_id
        while True:
            self.abandon(by, name, cause, None)
            clock.move(timedelta(seconds=3))
            self.unchanged()
            if row_id not in {row["id"] for row in promised.due(self.state, queues=None, suspects=False)}:
                return
            self.claim(by, None, 50)
            (name,) = [each for each in self.held if self.deliveries[each].row_id == row_id]

    # --- what is let fall, and taken up ----------------------------------------------------------------------------

    @precondition(has_deliveries)
    @rule(names=st.lists(delivery, min_size=1, max_size=3))
    def leases_run_out(self, names: list[str]) -> None:
        """As if their workers had been silent for long."""
        row_ids = [self.deliveries[name].row_id for name in names]
        expected = self.state.copy()
        self._expect_expired(expected, row_ids)
        _expire(row_ids)
        self.arrive(expected)

    def _expect_expired(self, expected: State, row_ids: list[int]) -> None:
        for row_id in row_ids:
            if row_id in expected.items:
                expected.items[row_id]["locked_until"] = expected.now - LEASE

    @precondition(has_deliveries)
    @rule(by=hands, fallen=st.lists(delivery, max_size=2))
    def reconcile(self, by: str, fallen: list[str]) -> None:
        if fallen:
            self.leases_run_out(fallen)
        expected = self.state.copy()
        counts = promised.reconcile(expected)
        report = self.crew[by].do(reconcile.reconcile)
        assert not report.errors
        self.note(*(f"reconciled: {name}" for name, count in counts.items() if count))
        same({name: getattr(report, name) for name in counts}, counts)
        self.arrive(expected)
        assert report.suspects_due == len(promised.due(self.state, queues=None, suspects=True))

    # --- somebody else holds a lock --------------------------------------------------------------------------------

    @precondition(lambda self: postgresql() and has_deliveries(self) and self.open is None)
    @rule(by=hands, what=st.sampled_from(["renew", "claim", "turn"]), names=st.lists(delivery, min_size=1, max_size=3))
    def beside_a_lock(self, by: str, what: str, names: list[str]) -> None:
        """Somebody else has locked the delivery, the row or the workflow that comes first: it is passed by."""
        locked = self.deliveries[names[0]]
        match what:
            case "renew":
                self._renew_beside(by, names, locked.row_id)
            case "claim":
                due = promised.due(self.state, queues=None, suspects=False)
                self._claim_beside(by, due[0]["id"] if due else locked.row_id)
            case _:
                due_ones = sorted(turns.due(self.state, None))
                self._turn_beside(by, due_ones[0] if due_ones else locked.workflow_id)

    def _renew_beside(self, by: str, names: list[str], row_id: int) -> None:
        held, expected = self._held(names, None), self.state.copy()
        answers = promised.renew(expected, held, lease_for=LEASE, busy=[row_id])
        with self.locked("durable_workitem", "outbox_row_id", row_id):
            answer = self.do(by, lambda: renew.renew(held, lease_for=LEASE))
        same(answer, answers)
        self.note(*(f"renewed beside a lock: {each}" for each in answers))
        self.arrive(expected)

    def _claim_beside(self, by: str, row_id: int) -> None:
        with self.locked("durable_outboxrow", "id", row_id):
            answer = self.crew[by].do(lambda: claim.claim(worker=by, limit=50, queues=None, lease_for=LEASE))
        self._claimed(by, answer, None, 50, suspects=False, locked=(row_id,))

    def _turn_beside(self, by: str, workflow_id: uuid.UUID) -> None:
        before = self.state.workflows[workflow_id]
        with self.locked("durable_workflow", "id", workflow_id):
            expected = self.state.copy()
            promised.reconcile(expected, locked=workflow_id)
            self.crew[by].do(reconcile.reconcile)
            self.arrive(expected)
            report = self._turn(by, None, 50)
        after = states.read()
        turns.judge(self.state, after, report, queues=None, limit=50, all_of_them=0)
        assert after.workflows[workflow_id] == before
        self._meet_children(after)
        self.adopt(after)

    def locked(self, table: str, column: str, key: Any) -> Any:
        """Somebody has this row locked for the length of the block."""
        return self.crew[CALLER].holding(f"SELECT 1 FROM {table} WHERE {column} = %s FOR UPDATE", key)


def _expire(row_ids: list[int]) -> None:
    past = clock.database_now(connection) - LEASE
    WorkItem.objects.filter(outbox_row_id__in=row_ids).update(locked_until=past)
