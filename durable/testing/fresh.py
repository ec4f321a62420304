"""Replays in fresh processes, without module state and with another order of sets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

from django.conf import ENVIRONMENT_VARIABLE, settings

from durable.errors import NonDeterminism, WorkflowBlocked
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.testing.errors import Impure, NotReplayable
from durable.testing.histories import History

PATIENCE = 300
"""Seconds for one process."""

Job: TypeAlias = dict[str, Any]

_CODE = "import django; django.setup(); import durable.testing.answering; durable.testing.answering.answer()"
ADVICE = "Define the workflow at the top level of a module that can be imported, or use replay_here."
"""What to do about a workflow that another process cannot find."""


def job(history: History, definition: WorkflowDefinition[Any, Any]) -> Job:
    """The data that another process needs. Raises `NotReplayable` for code that it could not import."""
    module, _, _ = definition.place.rpartition(f".{definition.fn.__qualname__}")
    if "<locals>" in definition.fn.__qualname__ or module == "__main__":
        raise NotReplayable(f"A fresh process cannot import {definition.place}. {ADVICE}")
    return {
        "origin": history.origin,
        "module": module,
        "qualname": definition.fn.__qualname__,
        "history": history.exported,
    }


def replay(jobs: Sequence[Job], *, hash_seed: int) -> None:
    """Replays in one new process, with this project's settings. Raises what the replay raised there."""
    failed = _first_failed(jobs, hash_seed)
    if failed is not None:
        raise failed[1]


def replay_each(jobs: Sequence[Job], *, hash_seed: int) -> dict[int, Exception]:
    """The same, going on after each that fails, in one more process: the errors, by the index of the job."""
    errors: dict[int, Exception] = {}
    done = 0
    while done < len(jobs) and (failed := _first_failed(jobs[done:], hash_seed)) is not None:
        errors[done + failed[0]] = failed[1]
        done += failed[0] + 1
    return errors


def _first_failed(jobs: Sequence[Job], hash_seed: int) -> tuple[int, Exception] | None:
    """The index of the first job that does not replay, and why."""
    project = getattr(settings, "SETTINGS_MODULE", None) or os.environ.get(ENVIRONMENT_VARIABLE)
    if project is None:
        raise NotReplayable(
            "A fresh process needs a settings module, and this project is configured without. Use replay_here."
        )
    environment = os.environ | {
        ENVIRONMENT_VARIABLE: str(project),
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),  # noqa: PTH109 - text is wanted
    }
    ended = subprocess.run(  # noqa: S603 - this interpreter, and code of this module's own
        [sys.executable, "-c", _CODE],
        input=json.dumps(list(jobs)),
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    if ended.returncode != 0:
        raise NotReplayable(f"The fresh process could not replay (exit code {ended.returncode}):\n{ended.stderr}")
    answer = json.loads(ended.stdout)
    if answer is not None:
        error = _error(answer)
        error.add_note(f"While replaying {answer['origin']} in a fresh process with PYTHONHASHSEED={hash_seed}.")
        return answer["at"], error
    return None


def told(error: Exception) -> dict[str, Any]:
    """An error of a replay as plain JSON, for the process that has asked."""
    match error:
        case NonDeterminism():
            values = {"position": error.position, "recorded": error.recorded, "asked": error.asked}
            return {"kind": "non_determinism", "values": values}
        case WorkflowBlocked():
            return {"kind": "blocked", "values": {"reason": error.reason, "data": error.data}}
        case Impure():
            names = ("call", "function", "file", "line", "advice")
            return {"kind": "impure", "values": {name: getattr(error, name) for name in names}}
        case _:
            return {"kind": "not_replayable", "values": {"text": str(error)}}


def _error(answer: dict[str, Any]) -> Exception:
    values = answer["values"]
    match answer["kind"]:
        case "non_determinism":
            return NonDeterminism(**values)
        case "blocked":
            return WorkflowBlocked(**values)
        case "impure":
            return Impure(**values)
        case _:
            return NotReplayable(values["text"])
