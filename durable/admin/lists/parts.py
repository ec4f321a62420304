"""The parts of a read-only page: facts, tables and texts. The template renders them; there is no HTML here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """One labelled value."""

    label: str
    value: object


@dataclass(frozen=True, slots=True)
class Facts:
    """A titled list of labelled values."""

    title: str
    facts: Sequence[Fact]
    kind: str = "facts"


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. `empty` is said when there are no rows, `footnote` below the rows when there is more to say."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    empty: str
    footnote: object = ""
    kind: str = "table"

    def labelled_rows(self) -> Iterator[list[tuple[str, object]]]:
        """Each row as (heading, cell) pairs; on a phone a row becomes a card with its headings beside the cells."""
        for row in self.rows:
            yield list(zip(self.headings, row, strict=True))


@dataclass(frozen=True, slots=True)
class Text:
    """A titled body: a payload, a traceback."""

    title: str
    body: object
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Button:
    """An action: a link to its confirmation page. `refused` says why it cannot be done now."""

    label: object
    address: str
    tone: str = ""
    refused: str = ""


Part = Facts | Table | Text
