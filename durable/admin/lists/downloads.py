"""Payloads as files, if they are too long for a page. Only for users who may see payloads, and
never whole in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Func, QuerySet, TextField
from django.db.models.functions import Cast, Coalesce, Length, Substr
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header

from durable.admin.words import payloads, sight
from durable.kernel.payloads import birthplace
from durable.kernel.payloads.birthplace import NOWHERE, PAYLOAD_KEYS, Birthplace

_NAMES = ("type", "name", "child")
"""Keys of an envelope that say where its payload was made."""

PIECE = 1_000_000
"""Characters that are read at once."""


class _Member(Func):
    """A text inside of stored JSON, by its key, taken out by the database."""

    output_field = TextField()
    arity = 1

    def __init__(self, column: str, key: str) -> None:
        super().__init__(column)
        self.key = key

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template=f"JSON_EXTRACT(%(expressions)s, '$.{self.key}')", **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template=f"((%(expressions)s)::json ->> '{self.key}')", **context)


def payload_within(column: str) -> Coalesce:
    """The payload in the envelope of an event or a message, which has one at most, as an expression."""
    return Coalesce(*(_Member(column, key) for key in sorted(PAYLOAD_KEYS)))


def birthplace_within(rows: QuerySet[Any], column: str, *, single: bool) -> Birthplace:
    """Where the payload of this row was made. `single` says whether its workflow is a single activity."""
    names = {f"{key}_within": _Member(column, key) for key in _NAMES}
    known = {f"{key}_is_there": Length(_Member(column, key)) for key in PAYLOAD_KEYS}
    row = rows.annotate(**names, **known).values("workflow_id", "ordinal", *names, *known).first()
    if row is None:
        return NOWHERE
    data = {key: row[f"{key}_within"] for key in _NAMES}
    data |= {key: "" for key in PAYLOAD_KEYS if row[f"{key}_is_there"] is not None}
    places = birthplace.within(data, row["workflow_id"], ordinal=row["ordinal"], single=single)
    return next(iter(places.values()), NOWHERE)


def payload_column(name: str) -> Cast:
    """A column that holds a payload, as an expression."""
    return Cast(name, TextField())


def only_for_viewers(request: HttpRequest) -> None:
    """Raises `PermissionDenied` unless this user may see payloads."""
    if request.method not in ("GET", "HEAD") or not sight.of_payloads(request).is_shown:
        raise PermissionDenied


def record(request: HttpRequest, looked: payloads.Looked | None) -> None:
    """Records who downloads what, where that is asked for. Raises `PermissionDenied` if that fails."""
    payloads.record_look(request, looked)
    only_for_viewers(request)


def answer(rows: QuerySet[Any], expression: Any, filename: str, born: Birthplace) -> StreamingHttpResponse | None:
    """The payload of one row as a file. None: there is no such row, or it has none.

    Read and sent in pieces. With a codec that changes the text it is read whole, since only the whole can be unwrapped:
    one payload, limited by `MAX_PAYLOAD_BYTES`.
    """
    pieces = _pieces(rows, expression)
    first = next(pieces, None)
    if first is None:
        return None
    content = _joined(first, pieces) if payloads.is_plain() else _unwrapped(first, pieces, born)
    response = StreamingHttpResponse(content, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, filename)
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _pieces(rows: QuerySet[Any], expression: Any) -> Iterator[str]:
    start = 1
    while True:
        pieces = rows.annotate(piece=Substr(expression, start, PIECE)).values_list("piece", flat=True)[:1]
        piece = next(iter(pieces), None)
        if piece is None or (not piece and start > 1):
            return
        yield piece
        if len(piece) < PIECE:
            return
        start += PIECE


def _joined(first: str, more: Iterator[str]) -> Iterator[bytes]:
    yield first.encode("utf-8", "replace")
    for piece in more:
        yield piece.encode("utf-8", "replace")


def _unwrapped(first: str, more: Iterator[str], born: Birthplace) -> Iterator[bytes]:
    text = payloads.unwrapped("".join([first, *more]), born)
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE].encode("utf-8", "replace")
