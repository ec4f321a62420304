"""What the verbs on dead letters share: which ones are selected, who acts, and what is printed about each."""

from __future__ import annotations

import logging
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser
from django.db import Error as DjangoDatabaseError
from django.db import InterfaceError

from durable.errors import RedriveRefused, StoreUnavailable
from durable.flow.looks import look
from durable.management.subcommands import hiding
from durable.management.subcommands.answer import Answer, CommandExit, WrongUsage, printable, table, workflow_id
from durable.outcomes import (
    OF_DEAD_LETTERS,
    Cause,
    DeadLetterFilter,
    Discarded,
    Naming,
    Redriven,
    RedrivePreview,
    RowSnapshot,
)

Done = Redriven | Discarded

MOST = 1_000_000
_NAMED = 20
_NAMELESS = Naming(None, "")


def add_filter(parser: CommandParser) -> None:
    """The conditions on a dead letter."""
    parser.add_argument("--activity", metavar="NAME", help="only those of one activity, by its registered name")
    parser.add_argument(
        "--cause",
        choices=[cause.value for cause in OF_DEAD_LETTERS],
        metavar="CAUSE",
        help=f"only those of one cause: {', '.join(cause.value for cause in OF_DEAD_LETTERS)}",
    )
    parser.add_argument(
        "--error-group", metavar="GROUP", help="only those with one kind of error: `error_group` of --json"
    )


def add_selection(parser: CommandParser) -> None:
    """One dead letter, all of them, or those that match."""
    parser.add_argument("workflow", nargs="?", metavar="WORKFLOW", help="the id of its workflow")
    parser.add_argument("ordinal", nargs="?", metavar="ORDINAL", help="the number of the activity in its current run")
    parser.add_argument("--all", action="store_true", help="all dead letters")
    add_filter(parser)
    parser.add_argument("--actor", metavar="USERNAME", help="who does it; becomes part of the audit")
    parser.add_argument("--dry-run", action="store_true", help="only say what would happen; write nothing")


def one_of(options: Mapping[str, Any]) -> tuple[uuid.UUID, int] | None:
    """The single selected dead letter; None if many are. Raises `WrongUsage` unless exactly one way of selection was
    used.
    """
    filtered = any(options[name] is not None for name in ("activity", "cause", "error_group"))
    single = options["workflow"] is not None
    if single + options["all"] + filtered != 1:
        raise WrongUsage(
            "Select dead letters in one of these ways: WORKFLOW ORDINAL; or --all; or --activity NAME, --cause "
            "CAUSE and --error-group GROUP (given together, all of them have to match)."
        )
    if not single:
        return None
    if options["ordinal"] is None:
        raise WrongUsage("ORDINAL is missing: the number of the activity. `durable deadletters` shows it.")
    return workflow_id(options["workflow"]), _ordinal(options["ordinal"])


def _ordinal(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise WrongUsage(f"ORDINAL is {text!r}; it has to be a whole number.") from None


def wanted(options: Mapping[str, Any]) -> DeadLetterFilter:
    """The filter that the options make."""
    cause = options["cause"]
    return DeadLetterFilter(
        activity=options["activity"],
        cause=None if cause is None else Cause(cause),
        error_group=options["error_group"],
    )


def first_of(options: Mapping[str, Any], single: tuple[uuid.UUID, int] | None) -> list[RowSnapshot]:
    """The first of the selected dead letters, one more than are listed."""
    if single is None:
        return look.dead_letters_matching(wanted(options), limit=_NAMED + 1)
    letters = look.dead_letters(single[0])
    while letters.more and all(row.ordinal != single[1] for row in letters):
        letters = look.dead_letters(single[0], after=letters[-1])
    return [row for row in letters if row.ordinal == single[1]]


def actor(options: Mapping[str, Any]) -> Any:
    """The user of `--actor`. Raises `WrongUsage` if there is no such user."""
    name = options["actor"]
    if name is None:
        return None
    users = get_user_model()
    try:
        return users._default_manager.get(**{users.USERNAME_FIELD: name})
    except (users.DoesNotExist, ValueError, ValidationError):
        raise WrongUsage(f"--actor is {name!r}; there is no such user.") from None


def plain_row(row: RowSnapshot) -> dict[str, Any]:
    """A dead letter as plain JSON."""
    return {
        "workflow": str(row.workflow_id),
        "ordinal": row.ordinal,
        "activity": row.activity,
        "status": row.status,
        "cause": row.cause,
        "error_class": row.error_class,
        "error_group": row.error_group,
        "judged": row.failure_delivered,
        "attempts": row.attempts,
        "deliveries": row.deliveries,
        "delivery_failures": row.delivery_failures,
        "redrive_count": row.redrive_count,
        "queue": row.queue,
        "dead_lettered_at": row.dead_lettered_at.isoformat() if row.dead_lettered_at else None,
        "due": row.visible_after.isoformat(),
    }


def plain_naming(row: RowSnapshot, named: Mapping[int, Naming]) -> dict[str, Any]:
    """The business key and the error's first line, as plain JSON."""
    known = hiding.of_naming(named.get(row.pk, _NAMELESS))
    return {"key": known.key, "error": known.error}


def naming_cells(row: RowSnapshot, named: Mapping[int, Naming]) -> tuple[str, str]:
    """The same for a table."""
    known = hiding.of_naming(named.get(row.pk, _NAMELESS))
    return known.key or "-", known.error or "-"


def _naming_after(row: RowSnapshot) -> dict[int, Naming]:
    """For a row that was changed: an error of this read must not hide the change."""
    try:
        return look.naming([row.pk])
    except (DjangoDatabaseError, InterfaceError):
        return {}


@contextmanager
def refusals_said_once() -> Iterator[None]:
    """Keeps the log lines of refusals off stderr: the output lists each with its code. Other handlers get them."""
    own = [stream for stream in (sys.stderr, sys.__stderr__) if stream is not None]
    here = [
        handler
        for handler in (*_handlers(logging.getLogger("durable.flow")), logging.lastResort)
        if handler is not None and getattr(handler, "stream", None) in own
    ]
    for handler in here:
        handler.addFilter(_is_no_refusal)
    try:
        yield
    finally:
        for handler in here:
            handler.removeFilter(_is_no_refusal)


def _handlers(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def _is_no_refusal(record: logging.LogRecord) -> bool:
    said = str(record.msg)  # a text, or structlog's fields, as the host has configured
    return "redrive.refused" not in said and "discard.refused" not in said


def one_done(done: Done, done_word: str) -> Answer:
    """The answer for a single one that was changed."""
    row = done.row
    judged = " Its workflow had moved on." if done.was_judged else ""
    named = _naming_after(row)
    data = {"answer": done_word, "was_judged": done.was_judged, "row": plain_row(row) | plain_naming(row, named)}
    known = str(hiding.of_naming(named.get(row.pk, _NAMELESS)))
    shown = f"{printable(row.activity)}, activity {row.ordinal} of {row.workflow_id}"
    return Answer(data, [f"{shown}{f' ({printable(known)})' if known else ''}: {done_word}.{judged}"])


def many_done(
    meant: DeadLetterFilter, change: Callable[[Sequence[RowSnapshot]], Sequence[Done | RedriveRefused]], done_word: str
) -> Answer:
    """Changes what matches, and returns one outcome for each. Exits with 3 if the database was away for any."""
    rows = look.dead_letters_matching(meant, limit=MOST)
    named = look.naming([row.pk for row in rows])
    outcomes = change(rows)
    refused = Counter(outcome.code for outcome in outcomes if isinstance(outcome, RedriveRefused))
    done = len(outcomes) - refused.total()
    data = {
        done_word: done,
        "refused": dict(refused),
        "outcomes": [
            _plain(row, outcome, done_word) | plain_naming(row, named)
            for row, outcome in zip(rows, outcomes, strict=True)
        ],
    }
    lines = ["No dead letter matches."] if not rows else [f"{done:,} {done_word}, {refused.total():,} refused."]
    lines += table(
        ["WORKFLOW", "#", "KEY", "ERROR", "REFUSED", "WHY"],
        [
            (row.workflow_id, row.ordinal, *naming_cells(row, named), outcome.code, outcome)
            for row, outcome in zip(rows, outcomes, strict=True)
            if isinstance(outcome, RedriveRefused)
        ],
    )[0 if refused else 1 :]
    if StoreUnavailable.code in refused:
        return Answer(data, lines, CommandExit.STORE)
    return Answer(data, lines, CommandExit.REFUSED if refused else CommandExit.DONE)


def _plain(row: RowSnapshot, outcome: Done | RedriveRefused, done_word: str) -> dict[str, Any]:
    place = {"workflow": str(row.workflow_id), "ordinal": row.ordinal, "activity": row.activity}
    if isinstance(outcome, RedriveRefused):
        return place | {"outcome": "refused", "code": outcome.code, "message": str(outcome)}
    return place | {
        "outcome": done_word,
        "was_judged": outcome.was_judged,
        "due": outcome.row.visible_after.isoformat(),
    }


def previewed(preview: RedrivePreview, done_word: str, rows: Sequence[RowSnapshot]) -> Answer:
    """The answer of a dry run. Exits as the run itself would. Names `rows`, the first of those that are meant."""
    named = look.naming([row.pk for row in rows])
    refused = sum(preview.refused.values())
    data = {
        f"would_be_{done_word}": preview.redrivable,
        "refused": dict(preview.refused),
        "looked_at": preview.looked_at,
        "capped": preview.capped,
        "first": [
            {"workflow": str(row.workflow_id), "ordinal": row.ordinal, "activity": row.activity}
            | plain_naming(row, named)
            for row in rows[:_NAMED]
        ],
    }
    lines = [
        f"Dry run, of {preview.total_text}: {preview.redrivable:,} would be {done_word}, {refused:,} refused.",
        *(f"  {number:,} {code}" for code, number in sorted(preview.refused.items())),
    ]
    if any(map(str, named.values())):
        cells = [(row.workflow_id, row.ordinal, row.activity, *naming_cells(row, named)) for row in rows[:_NAMED]]
        lines += table(["WORKFLOW", "#", "ACTIVITY", "KEY", "ERROR"], cells)
        if len(rows) > _NAMED:
            lines.append("… and more: `durable deadletters` lists them.")
    return Answer(data, lines, CommandExit.REFUSED if refused else CommandExit.DONE)
