"""`durable cancel ID`: ask a workflow to cancel itself."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.flow.caller.cancel import cancel
from durable.flow.looks import look
from durable.kernel.definitions.options import check_text
from durable.kernel.limits import MAX_REASON_LENGTH
from durable.management.subcommands.answer import Answer, CommandExit, Subcommand, put_off, workflow_id
from durable.outcomes import CancelAnswer

_WORDS = {
    CancelAnswer.DONE: "Cancelled: it had not started, and will not start.",
    CancelAnswer.ASKED: "Requested: the workflow sees it at its next turn, and may clean up first.",
    CancelAnswer.ALREADY_OVER: "Already ended.",
    CancelAnswer.NOT_FOUND: "There is no such workflow.",
}


_SINGLE_ASKED = "Requested: the running handler sees it when it next checks; one that never checks runs to its end."


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--reason", default="", help="becomes part of the history")
    parser.add_argument("--actor", default="", help="who does it; becomes part of the audit")


def _run(options: dict[str, Any]) -> Answer:
    owner = workflow_id(options["id"])
    if options["reason"]:
        check_text("reason", options["reason"], MAX_REASON_LENGTH)
    outcome = cancel(owner, reason=options["reason"], actor=options["actor"] or None, audited=True)
    words = _SINGLE_ASKED if outcome.single and outcome.answer is CancelAnswer.ASKED else _WORDS[outcome.answer]
    if outcome.answer is CancelAnswer.ALREADY_OVER and outcome.status is not None:
        words = f"Already ended: it is {outcome.status.value}."
    if outcome.answer is CancelAnswer.ASKED and outcome.status is not None and not outcome.single:
        words += put_off(outcome.status, look.snapshot(owner).blocked_reason)
    data = {
        "id": str(owner),
        "answer": outcome.answer.value,
        "status": outcome.status.value if outcome.status else None,
    }
    refused = outcome.answer in (CancelAnswer.ALREADY_OVER, CancelAnswer.NOT_FOUND)
    return Answer(data, [words], CommandExit.REFUSED if refused else CommandExit.DONE)


SUBCOMMAND = Subcommand("ask a workflow to cancel itself", _add_arguments, _run)
