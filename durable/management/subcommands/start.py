"""`durable start NAME`: start a workflow, or enqueue a single activity, by its registered name."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from django.core.management.base import CommandParser
from django.db.backends.base.base import BaseDatabaseWrapper

from durable.client import start
from durable.errors import ArgumentsMismatch, NotRegistered
from durable.flow.audit import auditing
from durable.flow.transactions import transaction
from durable.kernel.definitions.definition import ActivityDefinition, WorkflowDefinition
from durable.kernel.definitions.options import ActivityOptions, StartOptions
from durable.kernel.definitions.registry import registry
from durable.management.subcommands.answer import Answer, Subcommand, WrongUsage, read_json
from durable.outcomes import StaffVerb

Definition = WorkflowDefinition[Any, Any] | ActivityDefinition[Any, Any]

_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the registered name of a workflow or an activity")
    parser.add_argument("--key", help="the business key")
    parser.add_argument(
        "--on-conflict",
        choices=["refuse", "existing"],
        default="refuse",
        help="what to do if a live workflow has the key: refuse (exit 1), or print the id of the existing one",
    )
    # Not `args`, which has another meaning in Django's commands.
    parser.add_argument("--args", dest="positional", default="[]", metavar="JSON-LIST", help="arguments by position")
    parser.add_argument("--kwargs", dest="named", default="{}", metavar="JSON-OBJECT", help="arguments by name")
    parser.add_argument("--actor", default="", help="who does it; becomes part of the audit")


def _run(options: dict[str, Any]) -> Answer:
    definition = _definition(options["name"])
    positional, named = read_json("--args", options["positional"]), read_json("--kwargs", options["named"])
    if not isinstance(positional, list):
        raise WrongUsage("--args has to be a JSON list, as in --args '[42, \"9.90\"]'.")
    if not isinstance(named, dict):
        raise WrongUsage("--kwargs has to be a JSON object, as in --kwargs '{\"order_id\": 42}'.")
    args, kwargs = _typed(definition, positional, named)
    chosen = {"key": options["key"], "on_conflict": options["on_conflict"]}

    def begin(connection: BaseDatabaseWrapper) -> str:
        if isinstance(definition, WorkflowDefinition):
            handle = start.start(definition, args, kwargs, StartOptions(**chosen))
        else:
            handle = start.enqueue(definition, args, kwargs, ActivityOptions(**chosen))
        auditing.record(connection, auditing.audit(StaffVerb.START, handle.id, actor=options["actor"] or None))
        return str(handle.id)

    begun = transaction.joined_steps(begin)
    return Answer({"id": begun}, [begun])


def _definition(name: str) -> Definition:
    try:
        return registry.workflow(name)
    except NotRegistered as unknown:
        try:
            return registry.activity(name)
        except NotRegistered:
            raise NotRegistered("workflow or activity", name, like=_like(name)) from unknown


def _like(name: str) -> list[str]:
    """Registered names that whoever has typed this may have meant: the same without the app, or nearly the same."""
    names = sorted(each.name for each in (*registry.workflows(), *registry.activities()))
    same = [known for known in names if known.rpartition(".")[2] == name]
    return same or difflib.get_close_matches(name, names)


def _typed(
    definition: Definition, positional: list[Any], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as the handler's hints say: `"9.90"` becomes the Decimal that a caller in Python would pass.

    By position as far as they go, so that a parameter may be called as one of the engine's own options.
    """
    try:
        bound = definition.signature.bind(*positional, **named)
    except TypeError as error:
        raise ArgumentsMismatch(definition.name, definition.plan.shown_signature, str(error)) from None
    stored = {}
    for name, value in bound.arguments.items():
        kind = definition.signature.parameters[name].kind
        stars = _STARS.get(kind, "")
        stored[stars + name] = list(value) if stars == "*" else value
    args, kwargs = definition.plan.decode(stored)
    typed = definition.signature.bind(*args, **kwargs)
    return typed.args, typed.kwargs


SUBCOMMAND = Subcommand("start a workflow, or enqueue a single activity, by its registered name", _add_arguments, _run)
