"""`durable health`: say whether all is well, with reasons."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.flow.looks import clusters, look, prove
from durable.management.subcommands.answer import Answer, CommandExit, Subcommand, printable


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--deep", action="store_true", help="also check every status against its history (slow)")


def _run(options: dict[str, Any]) -> Answer:
    state = look.health()
    sent = clusters.states()
    problems = [*state.problems, *clusters.problems(sent)]
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
        "transports": [
            {
                "queue": of_queue.queue.name,
                "transport": of_queue.queue.transport,
                "cluster": of_queue.queue.cluster,
                "processes": of_queue.processes,
                "due": of_queue.due,
                "unbegun": of_queue.unbegun,
                "running": of_queue.running,
            }
            for of_queue in sent
        ],
        "blocked": state.blocked,
        "failed": state.failed,
        "dead_letters": state.dead_letters,
        "expired": state.expired,
        "contradictions": None if contradictions is None else len(contradictions),
        "at": state.at.isoformat(),
    }
    lines = [printable(_shown(of_queue)) for of_queue in sent]
    if problems:
        return Answer(data, [*(printable(problem) for problem in problems), *lines], CommandExit.REFUSED)
    workers = ", ".join(state.workers) or (
        f"nothing waits for a worker; silent: {', '.join(name for name, _ in state.silent[:5])}"
        if state.silent
        else "no worker is running, and no work is waiting"
    )
    return Answer(data, [f"All is well ({printable(workers)}).", *lines])


def _shown(state: clusters.SentState) -> str:
    queue = state.queue
    return (
        f"Queue {queue.name!r} is sent to the cluster {queue.cluster!r} by {queue.transport}: {state.processes:,} "
        f"live processes, {state.unbegun:,} not begun, {state.running:,} running."
    )


SUBCOMMAND = Subcommand("say whether all is well, with reasons; exits with 1 when it is not", _add_arguments, _run)
