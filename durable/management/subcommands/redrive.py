"""`durable redrive`: give dead letters back, one or many."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from durable.management.subcommands import letters
from durable.management.subcommands.answer import Answer, Subcommand, WrongUsage
from durable.operations import RedriveMode, preview_redrive, redrive, redrive_many

_REDRIVEN = "redriven"


def _add_arguments(parser: CommandParser) -> None:
    letters.add_selection(parser)
    parser.add_argument("--force", action="store_true", help="also those whose workflow has moved on; needs --reason")
    parser.add_argument("--reason", default="", metavar="TEXT", help="becomes part of the audit")


def _run(options: dict[str, Any]) -> Answer:
    single = letters.one_of(options)
    mode = RedriveMode.FORCED if options["force"] else RedriveMode.ELIGIBLE
    if options["dry_run"]:
        meant = [single] if single is not None else letters.wanted(options)
        return letters.previewed(preview_redrive(meant, mode=mode), _REDRIVEN, letters.first_of(options, single))
    if options["force"] and not options["reason"].strip():
        raise WrongUsage("--force needs --reason TEXT, which becomes part of the audit.")
    actor = letters.actor(options)
    if single is not None:
        with letters.refusals_said_once():
            done = redrive(*single, mode=mode, actor=actor, reason=options["reason"])
        return letters.one_done(done, _REDRIVEN)
    change = partial(redrive_many, mode=mode, actor=actor, reason=options["reason"])
    with letters.refusals_said_once():
        return letters.many_done(letters.wanted(options), change, _REDRIVEN)


SUBCOMMAND = Subcommand("queue dead letters for retry; refused ones are listed with the reason", _add_arguments, _run)
