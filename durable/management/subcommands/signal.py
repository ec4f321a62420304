"""`durable signal ID NAME`: send a signal."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from durable.client.handle import send_for_staff
from durable.flow.looks import look
from durable.management.subcommands.answer import Answer, Subcommand, printable, put_off, read_json, workflow_id


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--payload", default="null", metavar="JSON", help="the payload (default: null)")
    parser.add_argument("--actor", default="", help="who does it; becomes part of the audit")


def _run(options: dict[str, Any]) -> Answer:
    owner = workflow_id(options["id"])
    payload = read_json("--payload", options["payload"])
    now = look.snapshot(owner)
    send_for_staff(owner, options["name"], payload, actor=options["actor"] or None)
    text = f"The signal {printable(options['name'])} was accepted; the workflow takes it at its next turn."
    data = {"id": str(owner), "signal": options["name"], "answer": "accepted", "status": now.status.value}
    return Answer(data, [text + put_off(now.status, now.blocked_reason)])


SUBCOMMAND = Subcommand("send a signal", _add_arguments, _run)
