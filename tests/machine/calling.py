"""Rules of callers: start, enqueue, signal, cancel, in transactions of their own that may stay open for a while."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import durable
from durable import clock
from durable.errors import WorkflowNotFound
from durable.flow.looks import look
from tests.machine import crew as crews
from tests.machine.cases import ACTIVITIES, WORKFLOWS
from tests.machine.crew import CALLER
from tests.machine.promises import callers
from tests.machine.stage import Stage, anybody, hands, live_ones, postgresql, same
from tests.machine.state import State

kinds = st.sampled_from(list(WORKFLOWS))
activities = st.sampled_from(list(ACTIVITIES))
keys = st.sampled_from([None, None, "a", "b"])
few = st.integers(1, 3)
waits = st.sampled_from([None, None, None, 45])
timeouts = st.sampled_from([None, None, None, 100])


class Calling(Stage):
    """Callers come in through the public names."""

    def __init__(self) -> None:
        super().__init__()
        self.said = 0
        self.begun = 0

    def _number(self) -> int:
        self.begun += 1
        return self.begun

    def _definition(self, kind: str) -> Any:
        return WORKFLOWS.get(kind) or ACTIVITIES[kind]

    def _begin(self, kind: str, key: str | None, wait: int | None, timeout: int | None) -> Any:
        options: dict[str, Any] = {"key": key}
        if wait is not None:
            options["start_at"] = clock.host_now() + timedelta(seconds=wait)
        if kind in ACTIVITIES:
            return self._definition(kind).options(**options).enqueue(1)
        if timeout is not None:
            options["timeout"] = timedelta(seconds=timeout)
        return self._definition(kind).options(**options).start(self._number())

    def _expect(self, state: State, answer: Any, kind: str, key: str | None, **more: Any) -> None:
        definition = self._definition(kind)
        if not callers.taken(state, answer, definition.name, key):
            self.introduce(answer.id)
            callers.begin(state, answer.id, definition, single=kind in ACTIVITIES, key=key, **more)

    @rule(by=hands, kind=kinds, key=keys, wait=waits, timeout=timeouts)
    def start(self, by: str, kind: str, key: str | None, wait: int | None, timeout: int | None) -> None:
        answer = self.do(by, lambda: self._begin(kind, key, wait, timeout))
        expected = self.state.copy()
        self._expect(expected, answer, kind, key, wait=_span(wait), timeout=_span(timeout))
        self.arrive(expected)

    @rule(by=hands, kind=activities, key=keys, wait=waits)
    def enqueue(self, by: str, kind: str, key: str | None, wait: int | None) -> None:
        answer = self.do(by, lambda: self._begin(kind, key, wait, None))
        expected = self.state.copy()
        self._expect(expected, answer, kind, key, wait=_span(wait))
        self.arrive(expected)

    @rule(by=hands, kind=st.one_of(kinds, activities), keys=st.lists(keys, min_size=1, max_size=3))
    def start_many(self, by: str, kind: str, keys: list[str | None]) -> None:
        definition = self._definition(kind)
        many = definition.enqueue_many if kind in ACTIVITIES else definition.start_many
        arguments = [(self._number(),) for _ in keys]
        answers = self.do(by, lambda: many(arguments, keys=keys))
        expected = self.state.copy()
        assert isinstance(answers, list)
        for answer, key in zip(answers, keys, strict=True):
            self._expect(expected, answer, kind, key)
        self.arrive(expected)

    @rule(by=hands, to=anybody, dedup=st.sampled_from([None, None, "x"]))
    def signal(self, by: str, to: str, dedup: str | None) -> None:
        workflow_id, payload = self.workflow(to), self._word()
        expected = self.state.copy()
        promised = callers.signal(expected, workflow_id, "go", payload, dedup=dedup)
        same(self.do(by, lambda: durable.get_workflow(workflow_id).signal("go", payload, dedup=dedup)), promised)
        self.arrive(expected)

    def _word(self) -> int:
        self.said += 1
        return self.said

    @rule(by=hands, whom=anybody)
    def cancel(self, by: str, whom: str) -> None:
        workflow_id = self.workflow(whom)
        if workflow_id in self.asked_in_open:
            return  # it would wait for the open transaction, which has asked already
        expected = self.state.copy()
        promised = callers.cancel(expected, workflow_id, reason="enough")
        same(self.do(by, lambda: durable.get_workflow(workflow_id).cancel(reason="enough")), promised)
        self.arrive(expected)

    # --- transactions of callers ------------------------------------------------------------------------------------

    @precondition(lambda self: self.open is None)
    @rule(kind=st.one_of(kinds, activities), to=live_ones, keep=st.booleans())
    def within_one_transaction(self, kind: str, to: str, keep: bool) -> None:
        """Nobody else sees anything before the commit, and nothing is left of what is rolled back."""
        workflow_id, payload, caller = self.workflow(to), self._word(), self.crew[CALLER]
        live, expected = self.state.is_live(workflow_id), self.state.copy()
        caller.do(crews.begin)
        made = caller.do(lambda: self._begin(kind, None, None, None))
        if kind in WORKFLOWS:
            caller.do(lambda: made.signal("go", payload))
        live = live and not self.state.workflows[workflow_id]["single"]
        if live:
            caller.do(lambda: durable.get_workflow(workflow_id).signal("go", payload))
        self.unchanged()
        same(self.do("anna", lambda: look.snapshot(made.id)), WorkflowNotFound)
        caller.do(lambda: crews.end(keep=keep))
        if keep:
            self._expect(expected, made, kind, None)
            if kind in WORKFLOWS:
                callers.accept(expected, made.id, "go", payload)
            if live:
                callers.accept(expected, workflow_id, "go", payload)
        self.arrive(expected)

    @precondition(lambda self: self.open is None and postgresql())
    @rule()
    def begin_a_transaction(self) -> None:
        self.crew[CALLER].do(crews.begin)
        self.open = []

    @precondition(lambda self: self.open is not None)
    @rule(kind=st.one_of(kinds, activities))
    def start_in_the_open_one(self, kind: str) -> None:
        made = self.crew[CALLER].do(lambda: self._begin(kind, None, None, None))
        at = clock.host_now()

        def effect(state: State) -> None:
            self.introduce(made.id)
            state.now = at
            callers.begin(state, made.id, self._definition(kind), single=kind in ACTIVITIES)

        self._will(effect)

    @precondition(lambda self: self.open is not None)
    @rule(to=live_ones)
    def signal_in_the_open_one(self, to: str) -> None:
        workflow_id, payload = self.workflow(to), self._word()
        if not self.state.is_live(workflow_id) or self.state.workflows[workflow_id]["single"]:
            return
        self.crew[CALLER].do(lambda: durable.get_workflow(workflow_id).signal("go", payload))
        at = clock.host_now()

        def effect(state: State) -> None:
            state.now = at
            callers.accept(state, workflow_id, "go", payload)

        self._will(effect)

    @precondition(lambda self: self.open is not None)
    @rule(whom=live_ones)
    def cancel_in_the_open_one(self, whom: str) -> None:
        workflow_id = self.workflow(whom)
        single = self.state.workflows.get(workflow_id, {}).get("single", True)
        if single or not self.state.is_live(workflow_id) or workflow_id in self.asked_in_open:
            return  # of a single activity it locks the rows, and the others would have to wait
        if any(m["dedup"] == "" for m in self.state.messages_of(workflow_id)):
            return
        self.crew[CALLER].do(lambda: durable.get_workflow(workflow_id).cancel(reason="enough"))
        self.asked_in_open.add(workflow_id)
        at = clock.host_now()

        def effect(state: State) -> None:
            state.now = at
            callers.ask(state, workflow_id, reason="enough")

        self._will(effect)

    def _will(self, effect: Callable[[State], None]) -> None:
        assert self.open is not None
        self.open.append(effect)
        self.unchanged()

    @precondition(lambda self: self.open is not None)
    @rule(keep=st.booleans())
    def end_the_open_one(self, keep: bool) -> None:
        effects, self.open = self.open or [], None
        self.asked_in_open.clear()
        self.crew[CALLER].do(lambda: crews.end(keep=keep))
        expected = self.state.copy()
        for effect in effects if keep else ():
            effect(expected)
        self.arrive(expected)


def _span(seconds: int | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
