"""`durable health`: say whether all is well, with reasons."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.flow.looks import look, prove
from durable.management.subcommands.answer import Answer, CommandExit, Subcommand, printable


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--deep", action="store_true", help="also check every status against its history (slow)")


def _run(options: dict[str, Any]) -> Answer:
    state = look.health()
    problems = list(state.problems)
    contradictions = prove.contradictions() if options["deep"] else None
    problems.extend(f"{contradiction.subject}: {contradiction.text}" for contradiction in contradictions or ())
    data = {
        "healthy": not problems,
        "problems": problems,
        "queues": [
            {"queue": queue.queue, "due": queue.due, "oldest_due": queue.oldest_due.isoformat()}
            for queue in state.queues
        ],
        "turns": [
            {"queue": queue.queue, "due": queue.due, "oldest_due": queue.oldest_due.isoformat()}
            for queue in state.turns
        ],
        "workers": list(state.workers),
        "silent_workers": [{"worker": name, "last_sign": at.isoformat()} for name, at in state.silent],
        "blocked": state.blocked,
        "failed": state.failed,
        "dead_letters": state.dead_letters,
        "expired": state.expired,
        "contradictions": None if contradictions is None else len(contradictions),
        "at": state.at.isoformat(),
    }
    if problems:
        return Answer(data, [printable(problem) for problem in problems], CommandExit.REFUSED)
    workers = ", ".join(state.workers) or (
        f"nothing waits for a worker; silent: {', '.join(name for name, _ in state.silent[:5])}"
        if state.silent
        else "no worker is running, and no work is waiting"
    )
    return Answer(data, [f"All is well ({printable(workers)})."])


SUBCOMMAND = Subcommand("say whether all is well, with reasons; exits with 1 when it is not", _add_arguments, _run)
