"""`durable terminate ID`: end a workflow without asking its code."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.management.subcommands.answer import Answer, Subcommand, WrongUsage, workflow_id
from durable.operations import terminate


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--reason", required=True, help="becomes part of the history")
    parser.add_argument("--actor", default="", help="who does it; becomes part of the audit")


def _run(options: dict[str, Any]) -> Answer:
    if not options["reason"].strip():
        raise WrongUsage("--reason is empty; it becomes part of the history.")
    owner = workflow_id(options["id"])
    state = terminate(owner, reason=options["reason"], actor=options["actor"] or None)
    return Answer({"id": str(owner), "answer": state.value}, ["Terminated: it has ended as `cancelled`."])


SUBCOMMAND = Subcommand("end a workflow without asking its code", _add_arguments, _run)
