"""What a verb prints: the same facts as plain JSON and as lines for people."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from django.core.management.base import CommandParser

from durable.client import hidden
from durable.conf import settings
from durable.errors import KeyInvalid, PayloadError
from durable.errors.showing import visible
from durable.kernel.payloads.birthplace import Birthplace
from durable.management.subcommands import hiding
from durable.outcomes import Failure, Snapshot, WorkflowStatus


class CommandExit(IntEnum):
    """Exit codes of the command."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    STORE = 3


class WrongUsage(Exception):
    """An invalid argument. The text says which, and the cure."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`data` is printed with `--json`, `lines` without."""

    data: Any
    lines: Sequence[str]
    exit_code: CommandExit = CommandExit.DONE


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One subcommand. `run` gets the parsed options, answers, or raises what the product raises."""

    help: str
    add_arguments: Callable[[CommandParser], None]
    run: Callable[[dict[str, Any]], Answer]


def workflow_id(text: str) -> uuid.UUID:
    """An id as it was typed. Raises `KeyInvalid` for text that is no id."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise KeyInvalid("workflow id", text, "it is not the text of a UUID") from None


def read_json(option: str, text: str) -> Any:
    """The JSON of an option, or for `-` that of standard input, since all users of the machine can see the arguments of
    a command. Raises `WrongUsage` naming option and place.
    """
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise WrongUsage(f"{option} is not JSON: {error}. Quote it for the shell, as in {option} '[42]'.") from None


def plain(snapshot: Snapshot) -> dict[str, Any]:
    """A workflow as plain JSON."""
    return {
        "id": str(snapshot.id),
        "type": snapshot.type,
        "key": snapshot.key,
        "status": snapshot.status.value,
        "blocked_reason": hiding.of_text(snapshot.blocked_reason),
        "single": snapshot.single,
        "queue": snapshot.queue,
        "created_at": snapshot.created_at.isoformat(),
        "closed_at": snapshot.closed_at.isoformat() if snapshot.closed_at else None,
    }


def plain_payload(text: str | None, born: Birthplace) -> Any:
    """A stored payload as plain JSON, or the stored text if it cannot be read, or cannot be written as JSON."""
    if text is None:
        return None
    try:
        data = settings.codec().unseal(text, path="payload", birthplace=born)
        json.dumps(data)
        return hidden.of_data(data, born)
    except (PayloadError, RecursionError):
        return hidden.of_text(text, born)


def plain_failure(failure: Failure | None) -> dict[str, str] | None:
    """A failure as plain JSON."""
    return None if failure is None else hiding.of_failure(failure).as_data()


def printable(text: object) -> str:
    """Text for a terminal, on one line: terminal escapes and invisible characters are escaped."""
    return visible(str(text))


def put_off(status: WorkflowStatus, blocked_reason: str = "") -> str:
    """A note for the sender if the workflow is not turned now (paused or blocked); otherwise empty."""
    if status is WorkflowStatus.PAUSED:
        return " It is paused, so this takes effect after `durable resume`."
    return " It is blocked, so this takes effect when it is unblocked." if blocked_reason else ""


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Rows in columns, each as wide as its widest cell."""
    cells = [[printable(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(headings))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
