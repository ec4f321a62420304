"""Which fields of payloads are shown to nobody, in this project."""

from __future__ import annotations

from typing import Any

from django.apps import apps

from durable.conf import settings
from durable.errors import DurableError
from durable.kernel.definitions.registry import registry
from durable.kernel.payloads import secrets
from durable.kernel.payloads.birthplace import Birthplace, PayloadKind


def names() -> frozenset[str]:
    """`HIDDEN_FIELDS`, and the fields marked as `Secret` in the annotations of registered functions; in lower case."""
    marked: set[str] = set(settings.hidden_fields)
    for definition in (*registry.activities(), *registry.workflows()):
        made: frozenset[str] | None = definition.__dict__.get("_secret_names")
        if made is None:
            made = definition.__dict__["_secret_names"] = secrets.names_of(definition.hints)
        marked |= made
    return frozenset(name.casefold() for name in marked)


def names_for_errors() -> frozenset[str]:
    """The same for errors. They may come while functions are still being defined, whose annotations cannot be read yet,
    and because the settings are wrong; nothing has been stored then.
    """
    if not apps.ready:
        return frozenset()
    try:
        named = frozenset(name.casefold() for name in settings.hidden_fields)
    except DurableError:
        return frozenset()
    try:
        return names()
    except DurableError:  # one function cannot be read; what the settings name is hidden all the same
        return named


def of_text(text: str, born: Birthplace) -> str:
    """A payload's plain text as anybody may see it."""
    known = names()
    if born.kind is PayloadKind.RESULT and secrets.WHOLE_RESULT in known:
        return f'"{secrets.HIDDEN}"'
    return secrets.hidden_text(text, known - {secrets.WHOLE_RESULT})


def of_data(data: Any, born: Birthplace) -> Any:
    """The same of JSON natives."""
    known = names()
    if born.kind is PayloadKind.RESULT and secrets.WHOLE_RESULT in known:
        return secrets.HIDDEN
    return secrets.hidden(data, known - {secrets.WHOLE_RESULT})
