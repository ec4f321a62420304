"""The other side of `fresh`: what a fresh process does with the jobs that it gets."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from durable.errors import NonDeterminism, WorkflowBlocked
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.testing import fresh
from durable.testing.errors import Impure, NotReplayable
from durable.testing.replaying import replayed


def answer() -> None:
    """The other process: replays the jobs from standard input, and writes the first error to standard output."""
    stdout = os.dup(1)
    os.dup2(2, 1)  # output of the project goes elsewhere, so that standard output has only the answer
    result = _first_error(json.load(sys.stdin))
    with os.fdopen(stdout, "w", encoding="utf-8") as out:
        json.dump(result, out)


def _first_error(jobs: Sequence[fresh.Job]) -> dict[str, Any] | None:
    for at, job in enumerate(jobs):
        try:
            replayed(job["history"], _found(job))
        except (NonDeterminism, WorkflowBlocked, Impure, NotReplayable) as error:
            return {"at": at, "origin": job["origin"], **fresh.told(error)}
    return None


def _found(job: fresh.Job) -> WorkflowDefinition[Any, Any]:
    definition: Any = importlib.import_module(job["module"])
    try:
        for name in job["qualname"].split("."):
            definition = getattr(definition, name)
    except AttributeError as error:
        raise NotReplayable(f"{job['module']} has no {job['qualname']} in a fresh process. {fresh.ADVICE}") from error
    if not isinstance(definition, WorkflowDefinition):
        raise NotReplayable(f"{job['qualname']} of {job['module']} is no workflow in a fresh process. {fresh.ADVICE}")
    return definition
