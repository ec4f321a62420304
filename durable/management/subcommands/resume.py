"""`durable resume ID`: let a paused workflow continue."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.management.subcommands.answer import Answer, Subcommand, workflow_id
from durable.operations import resume


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--reason", default="", help="becomes part of the history")
    parser.add_argument("--actor", default="", help="who does it; becomes part of the audit")


def _run(options: dict[str, Any]) -> Answer:
    owner = workflow_id(options["id"])
    state = resume(owner, reason=options["reason"], actor=options["actor"] or None)
    return Answer(
        {"id": str(owner), "answer": state.value},
        ["Resumed: its code runs again, and messages that came meanwhile are read."],
    )


SUBCOMMAND = Subcommand("let a paused workflow continue", _add_arguments, _run)
