"""`durable discard`: close dead letters for good, one or many."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from durable.management.subcommands import letters
from durable.management.subcommands.answer import Answer, Subcommand, WrongUsage
from durable.operations import RedriveMode, discard, discard_many, preview_redrive

_DISCARDED = "discarded"


def _add_arguments(parser: CommandParser) -> None:
    letters.add_selection(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="becomes part of the audit; required")
    parser.add_argument(
        "--then",
        choices=["fail", "cancel"],
        default="fail",
        help="for workflows that are waiting: the activity fails (default), or the workflow is cancelled",
    )


def _run(options: dict[str, Any]) -> Answer:
    single = letters.one_of(options)
    if options["dry_run"]:
        # A discard passes the same gates as a forced redrive: it closes judged ones, too.
        meant = [single] if single is not None else letters.wanted(options)
        return letters.previewed(
            preview_redrive(meant, mode=RedriveMode.FORCED), _DISCARDED, letters.first_of(options, single)
        )
    if not options["reason"].strip():
        raise WrongUsage("discard needs --reason TEXT, which becomes part of the audit.")
    actor = letters.actor(options)
    if single is not None:
        with letters.refusals_said_once():
            done = discard(*single, reason=options["reason"], then=options["then"], actor=actor)
        return letters.one_done(done, _DISCARDED)
    change = partial(discard_many, reason=options["reason"], then=options["then"], actor=actor)
    with letters.refusals_said_once():
        return letters.many_done(letters.wanted(options), change, _DISCARDED)


SUBCOMMAND = Subcommand(
    "close dead letters for good; waiting workflows get a failure or are cancelled", _add_arguments, _run
)
