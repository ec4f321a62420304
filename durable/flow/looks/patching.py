"""Which patches of the code are still needed by live workflows."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.flow.transactions import transaction
from durable.kernel.definitions.options import check_storable
from durable.kernel.definitions.registry import registry
from durable.outcomes import PatchState
from durable.store.runs import patches


def states(workflow_type: str | None = None) -> list[PatchState]:
    """Each patch that a live workflow has answered, or whose new way an ended one has taken, with how many live
    workflows take which way; by type and id. Of one type, or of all that are live or registered. Raises `OptionInvalid`
    for a type that no database takes.

    A statement, one more for each type, and one for each patch.
    """
    if workflow_type is not None:
        check_storable("type", workflow_type)
    return transaction.reading(partial(_states, workflow_type=workflow_type))


def _states(connection: BaseDatabaseWrapper, *, workflow_type: str | None) -> list[PatchState]:
    by_type: dict[str, list[patches.Answered]] = defaultdict(list)
    for answered in patches.of_live(connection, workflow_type=workflow_type):
        by_type[answered.type].append(answered)
    registered = {definition.name for definition in registry.workflows()} if workflow_type is None else {workflow_type}
    return [state for kind in sorted({*by_type, *registered}) for state in _of_type(connection, kind, by_type[kind])]


def _of_type(connection: BaseDatabaseWrapper, kind: str, live: list[patches.Answered]) -> list[PatchState]:
    firsts = patches.first_recorded(connection, kind)
    ids = sorted({id for answered in live for id in answered.answers} | firsts.keys())
    states = []
    for id in ids:
        # One that began later and has not asked will take the new way when it asks, with or without the `if`.
        may_need = patches.of_live(connection, workflow_type=kind, made_before=firsts.get(id))
        states.append(
            PatchState(
                type=kind,
                id=id,
                new=sum(answered.number for answered in live if answered.answers.get(id) is True),
                old=sum(answered.number for answered in live if answered.answers.get(id) is False),
                unsaid=sum(answered.number for answered in may_need if id not in answered.answers),
                first_recorded_at=firsts.get(id),
            )
        )
    return states
