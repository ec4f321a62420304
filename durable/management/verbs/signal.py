"""`durable signal ID NAME`: send a signal."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.client.find import get_workflow
from durable.management.verbs.answer import Answer, Verb, printable, read_json


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--payload", default="null", metavar="JSON", help="what the workflow receives (default: null)")


def _run(options: dict[str, Any]) -> Answer:
    handle = get_workflow(options["id"])
    handle.signal(options["name"], read_json("--payload", options["payload"]))
    text = f"The signal {printable(options['name'])} was accepted; the workflow takes it at its next turn."
    return Answer({"id": str(handle.id), "signal": options["name"], "answer": "accepted"}, [text])


VERB = Verb("send a signal", _add_arguments, _run)
