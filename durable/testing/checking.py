"""Many histories against today's code, each with its own answer: what `durable replay` prints."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.definitions.registry import registry
from durable.testing import fresh, histories
from durable.testing.histories import History, Source
from durable.testing.replaying import HASH_SEEDS, replay_here

_AT_ONCE = 32 * 1024 * 1024
"""Characters of histories that are in memory at the same time, so that the fresh processes can share them; a longer
history is replayed alone.
"""


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one history; `error` is None if today's code reproduces it. Of one that cannot be read only the
    `origin` is known.
    """

    origin: str
    workflow_id: uuid.UUID | None
    type: str
    events: int
    error: Exception | None


def check_all(
    sources: Iterable[tuple[str, Callable[[], Source]]], *, hash_seeds: Sequence[int] = HASH_SEEDS
) -> Iterator[Checked]:
    """Replays each source (its name for people, and a function that is called when it is its turn) as `replay_all`
    does, in the order given, and goes on after each that fails.
    """
    part: list[History | Checked] = []
    characters = 0
    for origin, source in sources:
        try:
            history = histories.read(source())
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one must not hide the others
            part.append(Checked(origin, None, "", 0, error))
            continue
        size = len(json.dumps(history.exported))
        if characters and characters + size > _AT_ONCE:
            yield from _checked(part, hash_seeds)
            part, characters = [], 0
        part.append(history)
        characters += size
    yield from _checked(part, hash_seeds)


def _checked(part: Sequence[History | Checked], hash_seeds: Sequence[int]) -> Iterator[Checked]:
    errors: dict[int, Exception] = {}
    jobs: dict[int, fresh.Job] = {}
    for at, history in enumerate(part):
        if isinstance(history, Checked):
            continue
        try:
            definition: WorkflowDefinition[Any, Any] = registry.workflow(history.type)
            replay_here(history.exported, definition)
            jobs[at] = fresh.job(history, definition)
        except Exception as error:  # noqa: BLE001 - as above
            errors[at] = error
    for seed in hash_seeds:
        places = [at for at in jobs if at not in errors]
        for place, failed in fresh.replay_each([jobs[at] for at in places], hash_seed=seed).items():
            errors[places[place]] = failed
    for at, history in enumerate(part):
        if isinstance(history, Checked):
            yield history
        else:
            yield Checked(history.origin, history.workflow_id, history.type, len(history.events), errors.get(at))
