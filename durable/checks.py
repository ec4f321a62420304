"""System checks: stable ids, the fault in the message, the cure in the hint. `docs/checks.md` lists them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register  # noqa: A004 - Django's name
from django.db import DEFAULT_DB_ALIAS, connections, router

from durable.conf import problems, settings
from durable.databases import Finding, Weight, findings, pool_findings, server_findings
from durable.kernel.definitions import purity
from durable.kernel.definitions.definition import Definition
from durable.kernel.definitions.registry import registry
from durable.kernel.loop import asyncio_private
from durable.kernel.payloads.secrets import Field, without_meaning


def install() -> None:
    """Registers the checks with Django. Idempotent."""
    register(check_settings, "durable")
    register(check_registered, "durable")
    register(check_secrets, "durable")
    register(check_environment, Tags.async_support)
    register(check_python, Tags.async_support)
    register(check_alias, "durable")
    register(check_requests, "durable")
    register(check_server, Tags.database)
    register(check_admin_scope, "durable")
    register(check_deployed, "durable", deploy=True)


def check_settings(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E001 to E003: the project's `DURABLE` dict."""
    return [Error(problem.text, hint=problem.cure, id=problem.id) for problem in problems()]


def check_environment(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E006: Django's guard against ORM calls under a running event loop has to be on."""
    if not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"):
        return []
    return [
        Error(
            "DJANGO_ALLOW_ASYNC_UNSAFE is set: database calls in workflow code would not be refused, and would get "
            "another connection than the transaction that the workflow's turn is in.",
            hint="Take it out of the environment of all processes that import workflows.",
            id="durable.E006",
        )
    ]


def check_python(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E012: asyncio of this Python does otherwise than workflows need. No worker starts then."""
    return [
        Error(
            f"durable does not fit Python {sys.version.split()[0]}: {text}",
            hint="Use a version of Python that durable was tested with, or a later durable.",
            id="durable.E012",
        )
        for text in asyncio_private.misfits()
    ]


def check_registered(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E007 and W005: names that clash, and workflow code that a replay cannot repeat."""
    messages: list[CheckMessage] = [
        Error(
            f"{clash.first} and {clash.second} have the same {clash.kind} name, {clash.name!r}.",
            hint="Give one of them another name with `name=`.",
            id="durable.E007",
        )
        for clash in registry.clashes()
    ]
    for definition in registry.workflows():
        messages += [
            Warning(
                f"The workflow {definition.name} cannot be replayed safely: {finding.function}, line {finding.line} "
                f"of {finding.file}, calls {finding.call}.",
                hint=finding.advice,
                obj=definition,
                id="durable.W005",
            )
            for finding in purity.findings(definition.fn)
        ]
    return messages


def check_secrets(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """W011: annotations that may hold a mark that is lost at run time."""
    if problems():
        return []
    kinds: list[tuple[str, Definition]] = [("activity", activity) for activity in registry.activities()]
    kinds += [("workflow", workflow) for workflow in registry.workflows()]
    return [
        Warning(
            f"{_named(field)} of the {kind} {definition.name} is annotated as {field.hint.text!r}, which has no "
            "meaning at run time. If it is marked with durable.Secret, the mark is lost: its values are shown.",
            hint="Define or import what it names outside of `if TYPE_CHECKING:`, or mark it where the annotation stands"
            + ("." if field.name == "return" else f", or name {field.name!r} in DURABLE['HIDDEN_FIELDS']."),
            obj=definition,
            id="durable.W011",
        )
        for kind, definition in kinds
        for field in without_meaning(definition.hints)
        if field.name.casefold() not in {name.casefold() for name in settings.hidden_fields}
    ]


def _named(field: Field) -> str:
    if field.record:
        return f"The field {field.name!r} of {field.record} in a call"
    return "The result" if field.name == "return" else f"The parameter {field.name!r}"


def check_alias(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E004, E005, E008 to E010, W001 to W004, W006 to W009: the engine's database, as far as settings tell."""
    if problems():
        return []
    split = _split()
    if split:
        return split
    faults = (*findings(settings.database_alias), *pool_findings())
    return [_message(fault) for fault in faults if fault.weight is not Weight.NO_WORKER]


def check_server(app_configs: Any, *, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """E009, W004 and W007 to W009 again, for values that the server or the role sets."""
    if problems() or settings.database_alias not in (databases or ()):
        return []
    faults = [*findings(settings.database_alias), *pool_findings()]
    if any(fault.weight is not Weight.WARNED for fault in faults):
        return []  # E009 names it; connecting would raise the driver's or its pool's own error
    said = {(fault.id, fault.text) for fault in faults}
    connection = connections[settings.database_alias]
    return [_message(fault) for fault in server_findings(connection) if (fault.id, fault.text) not in said]


def _message(fault: Finding) -> CheckMessage:
    kind = Error if fault.weight is Weight.REFUSED else Warning
    return kind(fault.text, hint=fault.cure, id=fault.id)


def check_requests(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """W010: every request takes the write lock of the SQLite file."""
    if problems():
        return []
    connection = connections[settings.database_alias]
    if connection.vendor != "sqlite" or not connection.settings_dict["ATOMIC_REQUESTS"]:
        return []
    mode = str(connection.settings_dict["OPTIONS"].get("transaction_mode") or "").upper()
    if mode not in ("IMMEDIATE", "EXCLUSIVE"):
        return []
    place = f"DATABASES[{connection.alias!r}]"
    return [
        Warning(
            f"{place}['ATOMIC_REQUESTS'] is True and ['OPTIONS']['transaction_mode'] is {mode!r}: every request, even "
            "a GET, takes the write lock of the whole SQLite file when it begins, so requests and workers wait for "
            "each other.",
            hint="Set ATOMIC_REQUESTS to False and use transaction.atomic() in the views that write; or keep it, and "
            "put @transaction.non_atomic_requests on the views that only read.",
            id="durable.W010",
        )
    ]


def check_admin_scope(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """E011: the hook of `ADMIN_SCOPE` cannot be asked."""
    if problems():
        return []
    from durable import scope  # it sees the models, which need the registry of apps

    fault = scope.fault_of_setting()
    if not fault:
        return []
    return [
        Error(
            f"DURABLE['ADMIN_SCOPE'] is {settings.admin_scope!r}: {fault}. The admin shows no rows to anybody.",
            hint="Name a function that takes a user and a queryset, and returns that queryset narrowed.",
            id="durable.E011",
        )
    ]


def check_deployed(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """I001: SQLite is for a single machine."""
    if problems() or connections[settings.database_alias].vendor != "sqlite":
        return []
    return [
        Info(
            f"durable keeps its rows in the SQLite database {settings.database_alias!r}.",
            hint="Fine on one machine with a local disk. For workers on several machines, use PostgreSQL.",
            id="durable.I001",
        )
    ]


def _split() -> list[CheckMessage]:
    alias = settings.database_alias
    models = list(apps.get_app_config("durable").get_models())
    places = {model.__name__: {router.db_for_write(model), router.db_for_read(model)} for model in models}
    used = set().union(*places.values())
    refusing = [model.__name__ for model in models if not router.allow_migrate_model(alias, model)]
    # A router without an opinion returns "default", which the DATABASE setting overrules.
    if not refusing and (used == {alias} or (settings.database and used == {DEFAULT_DB_ALIAS})):
        return []
    routes = ", ".join(f"{name} on {' and '.join(sorted(where))}" for name, where in sorted(places.items()))
    if refusing:
        routes += f"; it allows no tables on {alias!r} for {', '.join(sorted(refusing))}"
    return [
        Error(
            f"The tables of durable have to be in one database, read and written there; the router says: {routes}.",
            hint="Route the whole app 'durable' to one alias, for reading, writing and migrating.",
            id="durable.E004",
        )
    ]
