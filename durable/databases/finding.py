"""Faults in the project's `DATABASES`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Weight(Enum):
    """What follows from a finding."""

    REFUSED = "nothing of durable can work"
    NO_WORKER = "no worker can work; tests in one process can, so no check tells it"
    WARNED = "it works, at a price"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault; `id` is that of the check which reports it."""

    weight: Weight
    id: str
    text: str
    cure: str


def refused(alias: str, text: str, cure: str) -> Finding:
    """A setting with which nothing works: `text` continues the name of the database, or of a part of its entry."""
    said = f"DATABASES[{alias!r}]{text}." if text.startswith("[") else f"The database {alias!r} {text}."
    return Finding(Weight.REFUSED, "durable.E009", said, cure)


def warned(id: str, text: str, cure: str) -> Finding:
    """A setting that costs speed or safety."""
    return Finding(Weight.WARNED, id, text, cure)
