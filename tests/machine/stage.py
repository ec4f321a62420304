"""The stage on which the rules act: names for people, the state before, and what is compared after each rule."""

from __future__ import annotations

import itertools
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeVar

from django.db import connection
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from durable import clock
from durable.client import ids
from durable.errors import DurableError
from durable.outcomes import Claim
from tests.machine import invariants
from tests.machine import state as states
from tests.machine.crew import HANDS, Crew
from tests.machine.state import State

BEGINNING = datetime(2030, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(minutes=1)
NOBODY = uuid.UUID(int=7)
"""The id of a workflow that never was."""

Answer = TypeVar("Answer")


CHANCE = ids.new


def counted_ids() -> Callable[[], uuid.UUID]:
    """Ids that are the same in each walk, and with them those of children. These start at one instant, and their order
    of turns depends on their ids.
    """
    numbers = itertools.count(1)
    begins = (int(BEGINNING.timestamp() * 1000) << 80) | (0x7 << 76) | (0b10 << 62)
    return lambda: uuid.UUID(int=begins | next(numbers))


class Stage(RuleBasedStateMachine):
    """Rules speak of `w1`, `w2`, … and of deliveries `d1`, `d2`, …: a program that is printed can be read."""

    crew: ClassVar[Crew]
    reached: ClassVar[Counter[str]]
    """How often the walks have come to which situation: a machine that never gets anywhere proves nothing."""

    def __init__(self) -> None:
        super().__init__()
        clock.freeze(BEGINNING)
        ids.new = counted_ids()
        self.crew.forget()
        states.empty()
        self.workflows: dict[str, uuid.UUID] = {}
        self.deliveries: dict[str, Claim] = {}
        self.tokens: set[uuid.UUID] = set()
        self.state = states.read()
        self.open: list[Callable[[State], None]] | None = None
        """What the caller's open transaction will bring when it is committed; None: there is none."""
        self.asked_in_open: set[uuid.UUID] = set()
        self._raised_before = sys.exc_info()[1]

    # --- names -----------------------------------------------------------------------------------------------------

    def introduce(self, workflow_id: uuid.UUID) -> None:
        """Give a workflow its name."""
        self.workflows[f"w{len(self.workflows) + 1}"] = workflow_id

    def introduce_claims(self, claims: Sequence[Claim]) -> None:
        """Give deliveries their names. No token comes twice."""
        for claim in claims:
            self.deliveries[f"d{len(self.deliveries) + 1}"] = claim
        tokens = {claim.token for claim in claims}
        assert self.tokens.isdisjoint(tokens), "a token has been issued twice"
        self.tokens |= tokens

    def workflow(self, name: str) -> uuid.UUID:
        """The id behind a name."""
        return self.workflows.get(name, NOBODY)

    def name_of(self, workflow_id: uuid.UUID) -> str:
        """The name behind an id."""
        return next(name for name, key in self.workflows.items() if key == workflow_id)

    @property
    def held(self) -> list[str]:
        """The deliveries whose token is still good."""
        out = {(row_id, item["lock_token"]) for row_id, item in self.state.items.items()}
        return [name for name, claim in self.deliveries.items() if (claim.row_id, claim.token) in out]

    @property
    def overtaken(self) -> list[str]:
        """The deliveries whose token is gone, and whose row is out again."""
        held = set(self.held)
        return [
            name for name, claim in self.deliveries.items() if name not in held and claim.row_id in self.state.items
        ]

    def where(self, *statuses: str) -> list[tuple[str, int]]:
        """Activities in these states, by the workflow's name and the ordinal."""
        names = {workflow_id: name for name, workflow_id in self.workflows.items()}
        rows = self.state.rows.values()
        return [(names[r["workflow_id"]], r["ordinal"]) for r in rows if r["status"] in statuses]

    @property
    def is_broken(self) -> bool:
        """Whether a rule has failed already, and this is the way out."""
        return sys.exc_info()[1] is not self._raised_before

    # --- acting ----------------------------------------------------------------------------------------------------

    def do(self, by: str, verb: Callable[[], Answer]) -> Answer | DurableError:
        """Have somebody do something on a connection of their own. A refusal is an answer."""
        try:
            return self.crew[by].do(verb)
        except DurableError as refusal:
            return refusal

    def note(self, *situations: str) -> None:
        """Count situations for the report."""
        self.reached.update(situations)

    def arrive(self, expected: State) -> None:
        """The tables have to hold exactly this now."""
        actual = states.read()
        found = states.differences(expected, actual)
        assert not found, "\n".join(found)
        self.adopt(actual)

    def adopt(self, actual: State) -> None:
        """From here the next rule begins, a moment later."""
        clock.move(timedelta(milliseconds=1))
        actual.now = clock.host_now()
        self.state = actual

    def unchanged(self) -> None:
        """Nothing at all may have changed."""
        self.arrive(self.state)

    @invariant()
    def every_invariant_holds(self) -> None:
        invariants.check(self.state)


def same(answer: object, promised: object) -> None:
    """The answer is the one that was promised; a class stands for any refusal of it."""
    if isinstance(promised, type):
        assert type(answer) is promised, f"{answer!r} and not {promised.__name__}"
    else:
        assert answer == promised, f"{answer!r} and not {promised!r}"


def postgresql(_: object = None) -> bool:
    """Whether one writer leaves others room."""
    return connection.vendor == "postgresql"


def of_stage(names: Callable[[Any], Sequence[Any]]) -> st.SearchStrategy[Any]:
    """One of what the stage has at that moment."""
    return st.runner().flatmap(lambda stage: st.sampled_from(list(names(stage))))


def _live(stage: Stage) -> list[str]:
    live = [name for name, key in stage.workflows.items() if stage.state.is_live(key)]
    return live or [*stage.workflows, "nobody"]


hands = st.sampled_from(HANDS)
live_ones = of_stage(_live)
anybody = st.one_of(live_ones, live_ones, of_stage(lambda stage: [*stage.workflows, "nobody"]))
"""Any workflow, more often than not a live one; now and then one that never was."""
held = of_stage(lambda stage: stage.held or list(stage.deliveries))
overtaken = of_stage(lambda stage: stage.overtaken or list(stage.deliveries))
delivery = st.one_of(held, held, overtaken, of_stage(lambda stage: list(stage.deliveries)))
"""Any delivery that ever was: often one whose token is good, or one whose row somebody else holds by now."""
dead = of_stage(lambda stage: stage.where("dead") or stage.where("pending", "claimed", "done") or [("nobody", 1)])
place = st.one_of(dead, dead, dead, st.tuples(anybody, st.integers(0, 4)))
"""Where an activity stands or might stand, more often than not a dead letter."""


def has_deliveries(stage: Any) -> bool:
    """There is something to end."""
    return bool(stage.deliveries)
