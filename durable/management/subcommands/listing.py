"""`durable list`: the latest workflows that match."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.flow.looks import look
from durable.management.subcommands.answer import Answer, Subcommand, WrongUsage, plain, table
from durable.outcomes import WorkflowStatus

_MOST = 10_000


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--status", choices=[status.value for status in WorkflowStatus])
    parser.add_argument("--type", help="only this registered name, in full")
    parser.add_argument("--key", help="only this business key, in full")
    parser.add_argument("--blocked", action="store_true", help="only blocked workflows")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="how many at most (default: 50)")


def _run(options: dict[str, Any]) -> Answer:
    if not 1 <= options["limit"] <= _MOST:
        raise WrongUsage(f"--limit is {options['limit']}; it has to be from 1 to {_MOST:,}.")
    status = options["status"]
    snapshots = look.listing(
        status=WorkflowStatus(status) if status else None,
        workflow_type=options["type"],
        key=options["key"],
        blocked="only" if options["blocked"] else None,
        limit=options["limit"],
    )
    rows = [
        (
            each.id,
            each.status.value + (" (blocked)" if each.blocked_reason else ""),
            f"{each.created_at:%Y-%m-%d %H:%M:%S}Z",
            each.type,
            each.key or "",
        )
        for each in snapshots
    ]
    lines = table(["ID", "STATUS", "CREATED", "TYPE", "KEY"], rows) if rows else ["No workflow matches."]
    return Answer([plain(each) for each in snapshots], lines)


SUBCOMMAND = Subcommand("workflows, newest first", _add_arguments, _run)
