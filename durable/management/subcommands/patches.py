"""`durable patches`: which old ways of the code live workflows still need."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.flow.looks import patching
from durable.management.subcommands.answer import Answer, CommandExit, Subcommand, table


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--type", metavar="NAME", help="only workflows of this registered name, in full")
    parser.add_argument(
        "--require-removable",
        metavar="ID",
        help="exit 1 unless the old way of this patch can be deleted, in every type that asks for it",
    )


def _run(options: dict[str, Any]) -> Answer:
    wanted = options["require_removable"]
    states = [state for state in patching.states(options["type"]) if wanted is None or state.id == wanted]
    data = [
        {
            "type": state.type,
            "patch": state.id,
            "new_way": state.new,
            "old_way": state.old,
            "not_said": state.unsaid,
            "since": None if state.first_recorded_at is None else state.first_recorded_at.isoformat(),
            "removable": state.is_removable,
        }
        for state in states
    ]
    rows = [
        (
            state.type,
            state.id,
            state.new,
            state.old,
            state.unsaid,
            "" if state.first_recorded_at is None else f"{state.first_recorded_at:%Y-%m-%d %H:%M:%S}Z",
            "yes" if state.is_removable else "no",
        )
        for state in states
    ]
    lines = ["No workflow has come by a patch." if wanted is None else f"No workflow has come by the patch {wanted!r}."]
    if rows:
        lines = table(["TYPE", "PATCH", "NEW WAY", "OLD WAY", "NOT SAID", "SINCE", "REMOVABLE"], rows)
    fails = wanted is not None and not (states and all(state.is_removable for state in states))
    return Answer(data, lines, CommandExit.REFUSED if fails else CommandExit.DONE)


SUBCOMMAND = Subcommand("patches of workflow code, and which of them can be removed", _add_arguments, _run)
