"""Rules of operators, of time, and of what is counted beside the queue."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from durable import clock, operations
from durable.conf import settings
from durable.errors import RedriveRefused
from durable.flow.looks import look, prove
from durable.flow.operator import redrive as redriving
from durable.flow.operator import unblock
from durable.flow.turns import poison
from durable.flow.upkeep import beat, settle
from durable.kernel.definitions.registry import registry
from durable.outcomes import DeadLetterFilter, Discarded, RedriveMode, Redriven, Then
from tests.machine import state as states
from tests.machine.promises import operators as promised
from tests.machine.promises import turns
from tests.machine.stage import Stage, anybody, hands, live_ones, place, same

spans = st.sampled_from([1, 1, 30, 45, 61, 120])
modes = st.sampled_from([RedriveMode.ELIGIBLE, RedriveMode.ELIGIBLE, RedriveMode.FORCED])
requests = st.sampled_from([None, None, uuid.UUID(int=1), uuid.UUID(int=2)])
"""A form that is sent now and then a second time."""
REASON = "the bank is back"
_VERBS: dict[str, tuple[Any, Any]] = {
    "pause": (operations.pause, promised.pause),
    "resume": (operations.resume, promised.resume),
    "terminate": (operations.terminate, promised.terminate),
    "unblock": (operations.unblock, promised.unblock),
}


class Operating(Stage):
    """Staff, the clock, and housekeeping."""

    def __init__(self) -> None:
        super().__init__()
        self.done: set[tuple[uuid.UUID, uuid.UUID, int]] = set()
        """What was done under a request: it and the activity."""

    @rule(seconds=spans)
    def time_passes(self, seconds: int) -> None:
        clock.move(timedelta(seconds=seconds))
        self.unchanged()

    @rule(by=hands, verb=st.sampled_from(list(_VERBS)), whom=anybody)
    def operate(self, by: str, verb: str, whom: str) -> None:
        act, promise = _VERBS[verb]
        workflow_id, expected = self.workflow(whom), self.state.copy()
        answer = promise(expected, workflow_id, REASON)
        same(self.do(by, lambda: act(workflow_id, reason=REASON)), answer)
        self.note(f"{verb}: {answer.__name__ if isinstance(answer, type) else answer}")
        self.arrive(expected)

    @rule(by=hands, whom=live_ones)
    def a_turn_ends_its_process(self, by: str, whom: str) -> None:
        """Its supervisor counts it. A single activity has no turns."""
        workflow_id, expected = self.workflow(whom), self.state.copy()
        if self.state.workflows.get(workflow_id, {}).get("single"):
            return
        promised.poison(expected, workflow_id)
        self.crew[by].do(lambda: poison.count(workflow_id))
        self.arrive(expected)

    # --- dead letters ----------------------------------------------------------------------------------------------

    def _place(self, where: tuple[str, int]) -> tuple[uuid.UUID, int]:
        return self.workflow(where[0]), where[1]

    @rule(by=hands, where=place, mode=modes, request=requests)
    def redrive(self, by: str, where: tuple[str, int], mode: RedriveMode, request: uuid.UUID | None) -> None:
        """What the preview says is what the redrive does, and a refusal changes nothing."""
        workflow_id, ordinal = self._place(where)
        forced = mode is RedriveMode.FORCED
        verdict = promised.redrive_verdict(self.state, workflow_id, ordinal, forced=forced)
        same(self.crew[by].do(lambda: redriving.verdicts([(workflow_id, ordinal)], mode=mode)), [verdict])
        preview = self.crew[by].do(lambda: operations.preview_redrive([(workflow_id, ordinal)], mode=mode))
        told = (preview.redrivable, dict(preview.refused))
        same(told, (1, {}) if verdict == "redrivable" else (0, {verdict: 1}))
        answer = self.do(
            by,
            lambda: operations.redrive(workflow_id, ordinal, mode=mode, reason=REASON, request=request),
        )
        if self._came_again(answer, request, workflow_id, ordinal):
            return
        self.note(f"redriven {mode}: {verdict}")
        expected = self.state.copy()
        self._expect_redriven(expected, answer, verdict, workflow_id, ordinal, mode, request, timedelta())
        self.arrive(expected)

    def _came_again(self, answer: object, request: uuid.UUID | None, workflow_id: uuid.UUID, ordinal: int) -> bool:
        """A form that was sent twice: done once."""
        if request is None or (request, workflow_id, ordinal) not in self.done:
            return False
        assert isinstance(answer, RedriveRefused)
        assert answer.code == "already_done"
        self.note("a form came again")
        self.unchanged()
        return True

    def _expect_redriven(
        self,
        expected: states.State,
        answer: Any,
        verdict: str,
        workflow_id: uuid.UUID,
        ordinal: int,
        mode: RedriveMode,
        request: uuid.UUID | None,
        wait: timedelta,
    ) -> None:
        if verdict != "redrivable":
            assert isinstance(answer, RedriveRefused), f"{answer} was told for what had to be refused as {verdict}"
            same(answer.code, verdict)
            return
        assert isinstance(answer, Redriven), f"{answer!r} for what may be redriven"
        row_id, judged = promised.redrive(
            expected, workflow_id, ordinal, mode=mode.value, reason=REASON, request=request, wait=wait
        )
        same((answer.row.pk, answer.was_judged, answer.row.status), (row_id, judged, "pending"))
        if request is not None:
            self.done.add((request, workflow_id, ordinal))

    @rule(by=hands, where=st.lists(place, min_size=1, max_size=4), mode=modes, all_of_them=st.booleans())
    def redrive_many(self, by: str, where: list[tuple[str, int]], mode: RedriveMode, all_of_them: bool) -> None:
        """One answer for each, of which not one is untrue; as many as the preview has said."""
        forced = mode is RedriveMode.FORCED
        places = [self._place(each) for each in where]
        chosen: Any = places
        if all_of_them:
            chosen = DeadLetterFilter()
            rows = [row for row in self.state.rows.values() if row["status"] == "dead"]
            rows.sort(key=lambda row: (row["dead_lettered_at"], row["id"]))
            places = [(row["workflow_id"], row["ordinal"]) for row in rows]
        preview = self.crew[by].do(lambda: operations.preview_redrive(chosen, mode=mode))
        answers = self.crew[by].do(lambda: operations.redrive_many(chosen, mode=mode, reason=REASON))
        expected = self.state.copy()
        moved = 0
        for answer, (workflow_id, ordinal) in zip(answers, places, strict=True):
            verdict = promised.redrive_verdict(expected, workflow_id, ordinal, forced=forced)
            wait = timedelta(seconds=moved / (settings.redrive_per_second or float("inf")))
            self._expect_redriven(expected, answer, verdict, workflow_id, ordinal, mode, None, wait)
            moved += isinstance(answer, Redriven)
        self.arrive(expected)
        refused = Counter(answer.code for answer in answers if isinstance(answer, RedriveRefused))
        same((preview.redrivable, dict(preview.refused)), (moved, dict(refused)))

    @rule(by=hands, where=place, then=st.sampled_from(["fail", "cancel"]), request=requests)
    def discard(self, by: str, where: tuple[str, int], then: Then, request: uuid.UUID | None) -> None:
        workflow_id, ordinal = self._place(where)
        answer = self.do(
            by, lambda: operations.discard(workflow_id, ordinal, reason=REASON, then=then, request=request)
        )
        if self._came_again(answer, request, workflow_id, ordinal):
            return
        expected = self.state.copy()
        verdict = promised.discard_verdict(self.state, workflow_id, ordinal)
        self.note(f"discarded, then {then}: {verdict}")
        if verdict == "discardable":
            assert isinstance(answer, Discarded), f"{answer!r} for what may be discarded"
            told = promised.discard(expected, workflow_id, ordinal, then=then, reason=REASON, request=request)
            same((answer.row.pk, answer.was_judged), told)
            if request is not None:
                self.done.add((request, workflow_id, ordinal))
        else:
            assert isinstance(answer, RedriveRefused), f"{answer} was told for what had to be refused as {verdict}"
            same(answer.code, verdict)
        self.arrive(expected)

    # --- beside the queue ------------------------------------------------------------------------------------------

    @rule(by=hands, what=st.sampled_from(["beat", "gone", "deploy", "same code", "settle", "prove", "list", "health"]))
    def housekeeping(self, by: str, what: str) -> None:
        """What changes little, or nothing."""
        expected = self.state.copy()
        match what:
            case "beat":
                self._beat(by, expected)
            case "gone":
                self.crew[by].do(lambda: beat.gone(by))
                expected.workers.pop(by, None)
            case "deploy" | "same code":
                code = registry.version() if what == "same code" else "another"
                offered = promised.deploy(expected, code)
                if offered > 1:
                    return  # they would be due at the same instant, see `cases`
                same(self.crew[by].do(lambda: unblock.after_deploy(code).count), offered)
                self.note(f"offered to other code: {min(offered, 1)}")
            case "settle":
                same(self.crew[by].do(settle.settle_closed), 0)
            case "prove":
                same(self.crew[by].do(prove.contradictions), [])
            case "list":
                self._list(by)
            case _:
                self._look_at_the_health(by)
        self.arrive(expected)

    def _beat(self, name: str, expected: states.State) -> None:
        self.crew[name].do(lambda: beat.beat(name=name, queues=["default"], version="1"))
        former = expected.workers.get(name, {})
        expected.workers[name] = {
            "name": name, "queues": ["default"], "started_at": former.get("started_at", expected.now),
            "beat_at": expected.now, "version": "1", "wakes_by": "", "cluster": "",
        }  # fmt: skip

    def _list(self, by: str) -> None:
        for workflow_id in self.state.workflows:
            told = self.crew[by].do(lambda: operations.list_dead_letters(workflow_id))  # noqa: B023 - done at once
            there = [row for row in self.state.rows_of(workflow_id) if row["status"] == "dead"]
            same(sorted((r.pk, r.failure_delivered) for r in told), [(r["id"], r["failure_delivered"]) for r in there])

    def _look_at_the_health(self, by: str) -> None:
        told = self.crew[by].do(look.health)
        rows = [row for row in self.state.rows.values() if row["status"] == "pending" and not row["paused"]]
        queues = Counter(row["queue"] for row in rows if row["visible_after"] <= self.state.now)
        can_run = Counter(self.state.workflows[each]["queue"] for each in turns.due(self.state, None))
        same({state.queue: state.due for state in told.queues}, dict(queues))
        same({state.queue: state.due for state in told.turns}, dict(can_run))
        dead = [row for row in self.state.rows.values() if row["status"] == "dead"]
        blocked = [each for each in self.state.workflows.values() if each["blocked_reason"]]
        expired = [item for item in self.state.items.values() if item["locked_until"] < self.state.now]
        same((told.dead_letters, told.blocked, told.expired), (len(dead), len(blocked), len(expired)))
