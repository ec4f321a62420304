"""The state machine: every transition in any order, from several connections, and an end in which everything ends."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from durable import clock
from durable.client import ids
from durable.flow.looks import prove
from durable.outcomes import Cause, RedriveMode
from tests.machine import cases, invariants
from tests.machine.calling import Calling, activities, kinds
from tests.machine.crew import HANDS
from tests.machine.operating import Operating
from tests.machine.promises import deliveries, turns
from tests.machine.stage import CHANCE, Stage, hands, of_stage
from tests.machine.stage import held as held_ones
from tests.machine.working import Working

ROUNDS = 40
"""More than any workflow of `cases` needs, however often its dead letters are given back."""


def _told(stage: Stage) -> list[str]:
    told = [name for name in stage.held if stage.deliveries[name].activity == cases.told.name]
    return [name for name in told if not stage.deliveries[name].single] or stage.held


told_ones = of_stage(_told)
"""Deliveries whose death their workflows would be told of."""


class Machine(Calling, Working, Operating):
    """All rules together."""

    @initialize(kinds=st.lists(st.one_of(kinds, activities), min_size=2, max_size=6), turned=st.booleans())
    def something_is_there(self, kinds: list[str], turned: bool) -> None:
        """Nobody's rules do anything to nothing."""
        for number, kind in enumerate(kinds):
            self.start(HANDS[number % len(HANDS)], kind, None, None, None)
        if turned:
            self.go_on("anna")

    @precondition(lambda self: bool(self.held))
    @rule(
        by=hands,
        name=st.one_of(held_ones, told_ones),
        cause=st.sampled_from([Cause.ACK_ABANDONED, Cause.UNKNOWN_HANDLER]),
        later=st.sampled_from([0, 0, 45]),
        turned=st.booleans(),
        then=st.sampled_from(["nothing", "redrive", "force", "discard"]),
    )
    def a_row_dies(self, by: str, name: str, cause: Cause, later: int, turned: bool, then: str) -> None:
        """Its workflow may learn of it, or give it up by itself, before somebody decides about it."""
        owner = self.deliveries[name]
        self.let_die(by, name, cause)
        clock.move(timedelta(seconds=later))
        self.unchanged()
        if turned:
            self.turn(by, None, 50, 0)
        where = (self.name_of(owner.workflow_id), owner.ordinal)
        match then:
            case "redrive":
                self.redrive(by, where, RedriveMode.ELIGIBLE, None)
            case "force":
                self.redrive(by, where, RedriveMode.FORCED, None)
            case "discard":
                self.discard(by, where, "fail", None)
            case _:
                pass

    @precondition(lambda self: bool(self.held))
    @rule(by=hands, name=held_ones)
    def a_worker_sleeps_too_long(self, by: str, name: str) -> None:
        """Its delivery is taken up and given to somebody else; it knows nothing of that."""
        self.reconcile(by, [name])
        clock.move(timedelta(seconds=6))
        self.unchanged()
        while deliveries.due(self.state, queues=None, suspects=True):
            self.claim_suspect(by, None)

    @precondition(lambda self: bool(self.held))
    @rule(by=hands, name=held_ones, how=st.sampled_from(["stopped", "error", "abandon", "release", "renew", "silence"]))
    def a_row_is_no_longer_wanted(self, by: str, name: str, how: str) -> None:
        """Its workflow asks for an end while it is out; then the delivery ends."""
        owner = self.deliveries[name].workflow_id
        self.cancel(by, self.name_of(owner))
        self.turn(by, None, 50, 0)
        match how:
            case "stopped" | "error":
                self.acknowledge(by, [(name, how)])
            case "abandon":
                self.abandon(by, name, Cause.ACK_ABANDONED, None)
            case "release":
                self.give_back_uncounted(by, [name], stops=True)
            case "renew":
                self.renew(by, [name], '"half"')
            case _:
                self.reconcile(by, [name])

    def teardown(self) -> None:
        """Whatever was left where, everything comes to an end, and nothing that lives is left."""
        try:
            if not self.is_broken:
                self._drain()
        finally:
            clock.unfreeze()
            ids.new = CHANCE

    def _drain(self) -> None:
        if self.open is not None:
            self.end_the_open_one(keep=True)
        for name in self.workflows:
            self.operate("anna", "unblock", name)
            self.operate("anna", "resume", name)
        for number in range(ROUNDS):
            if not any(self.state.is_live(workflow_id) for workflow_id in self.state.workflows):
                break
            self._round(HANDS[number % len(HANDS)])
        live = [key for key in self.state.workflows if self.state.is_live(key)]
        assert not live, f"these never end: {[self.state.workflows[key] for key in live]}"
        self.turn("anna", None, 1000, 0)
        self._nothing_is_left()

    def _round(self, by: str) -> None:
        clock.move(timedelta(hours=1))
        self.reconcile(by, [])
        while turns.due(self.state, None):
            self.turn(by, None, 1000, 0)
        for name, ordinal in self.where("dead"):
            if self.state.is_live(self.workflow(name)):
                self.redrive(by, (name, ordinal), RedriveMode.ELIGIBLE, None)
        for name, workflow_id in self.workflows.items():
            if self.state.is_live(workflow_id) and "approval" in self.state.workflows[workflow_id]["type"]:
                self.signal(by, name, None)
        self.claim(by, None, 1000)
        while deliveries.due(self.state, queues=None, suspects=True):
            self.claim_suspect(by, None)
        if self.held:
            self.acknowledge(by, [(name, "done") for name in self.held])

    def _nothing_is_left(self) -> None:
        assert not self.state.items
        left = [message for message in self.state.messages.values() if not message["parked"]]
        assert not left, "what ended workflows keep is parked"
        assert not [row for row in self.state.rows.values() if row["status"] not in ("done", "cancelled")]
        assert prove.contradictions() == []
        invariants.check(self.state)
