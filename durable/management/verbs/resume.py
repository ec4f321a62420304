"""`durable resume ID`: let a paused workflow go on."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.management.verbs.answer import Answer, Verb, workflow_id
from durable.operations import resume


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--reason", default="", help="becomes part of the history")
    parser.add_argument("--actor", default="", help="who asks for it")


def _run(options: dict[str, Any]) -> Answer:
    owner = workflow_id(options["id"])
    state = resume(owner, reason=options["reason"], actor=options["actor"] or None)
    return Answer(
        {"id": str(owner), "answer": state.value},
        ["Resumed: its code turns again, and what came meanwhile is read."],
    )


VERB = Verb("let a paused workflow go on", _add_arguments, _run)
