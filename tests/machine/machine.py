"""The state machine: every transition in any order, from several connections, and an end in which everything ends."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from durable import clock, operations
from durable.flow import prove
from tests.machine import invariants
from tests.machine.calling import Calling, activities, kinds
from tests.machine.crew import HANDS
from tests.machine.operating import Operating
from tests.machine.promises import deliveries, turns
from tests.machine.working import Working

ROUNDS = 40
"""More than any workflow of `cases` needs, however often its dead letters are given back."""


class Machine(Calling, Working, Operating):
    """All rules together."""

    @initialize(kinds=st.lists(st.one_of(kinds, activities), min_size=2, max_size=6), turned=st.booleans())
    def something_is_there(self, kinds: list[str], turned: bool) -> None:
        """Nobody's rules do anything to nothing."""
        for number, kind in enumerate(kinds):
            self.start(HANDS[number % len(HANDS)], kind, None, None, None)
        if turned:
            self.go_on("anna")

    def teardown(self) -> None:
        """Whatever was left where, everything comes to an end, and nothing that lives is left."""
        try:
            if not self.is_broken:
                self._drain()
        finally:
            clock.unfreeze()

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
        for name, ordinal in self.where("failed"):
            if self.state.is_live(self.workflow(name)):
                self.redrive(by, (name, ordinal), operations.RedriveMode.ELIGIBLE, None)
        for name, workflow_id in self.workflows.items():
            if self.state.is_live(workflow_id) and "approval" in self.state.workflows[workflow_id]["type"]:
                self.signal(by, name, None)
        self.claim(by, None, 1000)
        while deliveries.due(self.state, queues=None, suspects=True):
            self.claim_suspect(by, None)
        for name in self.held:
            self.acknowledge(by, [(name, "done")])

    def _nothing_is_left(self) -> None:
        assert not self.state.items
        assert not self.state.messages
        assert not [row for row in self.state.rows.values() if row["status"] not in ("done", "cancelled")]
        assert prove.contradictions() == []
        invariants.check(self.state)
