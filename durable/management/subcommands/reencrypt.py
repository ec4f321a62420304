"""`durable reencrypt`: rewrite every stored payload in the form that the codec writes today."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from durable.flow.operator import reencrypt as reencrypting
from durable.management.subcommands.answer import Answer, CommandExit, Subcommand, workflow_id
from durable.outcomes import Reencrypted


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("workflow", nargs="?", metavar="WORKFLOW", help="only this one (default: all, oldest first)")
    parser.add_argument("--after", metavar="WORKFLOW", help="continue after this one, where an earlier call stopped")
    parser.add_argument("--limit", type=int, metavar="N", help="how many workflows at most")
    parser.add_argument("--dry-run", action="store_true", help="only count what would be rewritten; write nothing")


def _run(options: dict[str, Any]) -> Answer:
    dry_run = options["dry_run"]
    total, seen, changed = Reencrypted(), 0, 0
    last: uuid.UUID | None = None
    for owner in _meant(options):
        done = reencrypting.reencrypt(owner, dry_run=dry_run)
        total += done
        seen, changed, last = seen + 1, changed + bool(done.payloads), owner
    data = {
        "payloads": total.payloads,
        "workflows": changed,
        "looked_at": seen,
        "unreadable": total.unreadable,
        "last": None if last is None else str(last),
        "dry_run": dry_run,
    }
    did = "would be re-encrypted" if dry_run else "re-encrypted"
    lines = [f"{total.payloads:,} payloads of {changed:,} workflows {did}; {seen:,} workflows checked."]
    if total.unreadable:
        lines.append(f"{total.unreadable:,} payloads cannot be read and were left as they are; the log names them.")
    if last is not None and options["limit"] is not None:
        lines.append(f"To continue: --after {last}")
    return Answer(data, lines, CommandExit.REFUSED if total.unreadable else CommandExit.DONE)


def _meant(options: dict[str, Any]) -> Iterator[uuid.UUID]:
    if options["workflow"] is not None:
        yield workflow_id(options["workflow"])
        return
    left: int | None = options["limit"]
    after = None if options["after"] is None else workflow_id(options["after"])
    while owners := reencrypting.workflows_after(after):
        for owner in owners:
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            yield owner
        after = owners[-1]


SUBCOMMAND = Subcommand("encrypt stored payloads with the key that the codec writes with now", _add_arguments, _run)
