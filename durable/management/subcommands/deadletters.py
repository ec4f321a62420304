"""`durable deadletters`: list dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.core.management.base import CommandParser

from durable.flow.looks import look
from durable.management.subcommands import letters
from durable.management.subcommands.answer import Answer, Subcommand, WrongUsage, table, workflow_id


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--workflow", metavar="ID", help="only those of one workflow")
    letters.add_filter(parser)
    parser.add_argument("--limit", type=int, default=1_000, metavar="N", help="how many at most (default: 1000)")


def _run(options: dict[str, Any]) -> Answer:
    if not 1 <= options["limit"] <= letters.MOST:
        raise WrongUsage(f"--limit is {options['limit']}; it has to be from 1 to {letters.MOST:,}.")
    wanted = letters.wanted(options)
    if options["workflow"] is not None:
        wanted = replace(wanted, workflow_id=workflow_id(options["workflow"]))
    listed = look.dead_letters_matching(wanted, limit=options["limit"] + 1)
    more = len(listed) > options["limit"]
    listed = listed[: options["limit"]]
    named = look.naming([row.pk for row in listed])
    data = {"dead_letters": [letters.plain_row(row) | letters.plain_naming(row, named) for row in listed], "more": more}
    if not listed:
        return Answer(data, ["No dead letter matches."])
    rows = [
        (
            row.workflow_id,
            row.ordinal,
            f"{row.dead_lettered_at:%Y-%m-%d %H:%M:%S}Z",
            row.cause,
            "judged" if row.failure_delivered else "held",
            row.attempts,
            row.deliveries,
            row.redrive_count,
            row.activity,
            *letters.naming_cells(row, named),
        )
        for row in listed
    ]
    headings = [
        "WORKFLOW",
        "#",
        "SINCE",
        "CAUSE",
        "STATE",
        "ATTEMPTS",
        "DELIVERIES",
        "REDRIVEN",
        "ACTIVITY",
        "KEY",
        "ERROR",
    ]
    lines = table(headings, rows)
    if more:
        lines.append(f"… and more: --limit {options['limit'] * 2}")
    return Answer(data, lines)


SUBCOMMAND = Subcommand("dead letters, oldest first, with their attempts", _add_arguments, _run)
