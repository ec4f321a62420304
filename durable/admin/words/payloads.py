"""How payloads are shown: always escaped, always bounded, readable whatever they hold.

The total size of payloads and tracebacks on a page is limited, see `Space`; what exceeds it is cut, marked as cut, and
can be downloaded.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, InterfaceError
from django.db.models import TextField
from django.db.models.functions import Cast, Left, Length
from django.http import HttpRequest
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from durable.admin.words import sight
from durable.admin.words.sight import PayloadSight
from durable.admin.words.wording import NOTHING, number, read_json
from durable.client import hidden
from durable.conf import settings
from durable.errors.showing import visible
from durable.flow.audit import auditing
from durable.flow.operator.record_view import record_view
from durable.kernel.codec import JsonCodec
from durable.kernel.history.events import DIGEST_KEY
from durable.kernel.payloads.birthplace import NOWHERE, PAYLOAD_KEYS, Birthplace
from durable.logs import get_logger, words
from durable.outcomes import Through

logger = get_logger("durable.admin")

SHOWN_CHARACTERS = 20_000
"""More than this of one payload is not shown on a page: a browser could show it, but nobody would read it."""

LOADED_CHARACTERS = 100_000
"""More than this of one payload is not loaded for a page, and not taken apart."""

PAGE_BYTES = 256 * 1024
"""What all payloads, failures and tracebacks of a page take of its HTML, at most."""

_LONGEST = 6
"""Bytes of HTML that one character takes at most, as in `&quot;`."""

DIGEST = "digest"
"""A digest of arguments, only for users who may see these."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Whose payloads a page or a download shows: a workflow's, or of one of its activities. `what` names the page."""

    workflow_id: uuid.UUID
    what: str
    row_id: int | None = None
    ordinal: int | None = None


def record_look(request: HttpRequest, looked: Looked | None) -> None:
    """Records who looks at what, where `RECORD_VIEWS` asks for that and payloads are shown. To be called before they
    are shown: if it cannot be recorded, `sight` hides them for this request.
    """
    if looked is None or not settings.record_views or not sight.of_payloads(request).is_shown:
        return
    what = {"page": looked.what}
    if asked := request.GET.urlencode():
        what["address"] = asked[:200]
    try:
        with auditing.asked_through(Through.ADMIN):
            record_view(looked.workflow_id, actor=request.user, what=what, row_id=looked.row_id, ordinal=looked.ordinal)
    except (DatabaseError, InterfaceError) as error:
        sight.hide_payloads(request)
        logger.warning("admin.view_not_recorded", workflow=str(looked.workflow_id), error=words(error))


@dataclass(slots=True)
class Space:
    """The room that a page has left for payloads, failures and tracebacks. One for each page, used in its order."""

    left: int = PAGE_BYTES
    is_full: bool = False

    def fit(self, text: str) -> tuple[SafeString, bool]:
        """The beginning of a text as HTML, as far as it is shown, and whether that is all of it."""
        shown = visible(text[: SHOWN_CHARACTERS + 1], lines=True)
        kept = shown[:SHOWN_CHARACTERS]
        html = escape(kept)
        size = len(html.encode("utf-8", "replace"))
        if size > self.left:
            self.is_full = True
            kept = kept[: self.left // _LONGEST]
            html = escape(kept)
            size = len(html.encode("utf-8", "replace"))
        self.left -= size
        return html, len(kept) == len(shown)

    @property
    def said(self) -> str:
        """What the page says of itself once something found no room on it."""
        if not self.is_full:
            return ""
        return _(
            "There is more than this page can show. Texts that were cut are marked, and can be opened or "
            "downloaded in full."
        )


@dataclass(frozen=True, slots=True)
class Stored:
    """A payload as it is stored: its beginning, how many characters there are, and where it was made.

    `address` is where all of it can be downloaded.
    """

    text: str = field(repr=False)
    characters: int
    born: Birthplace
    address: str

    @property
    def is_whole(self) -> bool:
        """Whether all of it was loaded."""
        return len(self.text) >= self.characters


def columns(*names: str) -> dict[str, Any]:
    """Annotations for a query of rows whose payloads are shown: see `stored`."""
    annotations: dict[str, Any] = {}
    for name in names:
        annotations |= of_expression(name, Cast(name, TextField()))
    return annotations


def of_expression(name: str, expression: Any) -> dict[str, Any]:
    """The same for one payload that is no column."""
    return {f"{name}_beginning": Left(expression, LOADED_CHARACTERS), f"{name}_characters": Length(expression)}


def stored(row: Any, name: str, born: Birthplace, address: str) -> Stored | None:
    """A payload of a row that was read with `columns`. None: there is none, or it was not read."""
    text = getattr(row, f"{name}_beginning", None)
    return None if text is None else Stored(text, getattr(row, f"{name}_characters"), born, address)


def is_plain() -> bool:
    """Whether payloads are stored unchanged, so that a part of one can be read."""
    return type(settings.codec()).unwrap is JsonCodec.unwrap and not hidden.names()


def unwrapped(text: str, born: Birthplace) -> str:
    """A stored payload unwrapped by its codec, or as it is stored if that fails; secret fields are hidden."""
    try:
        opened = settings.codec().unwrap(text, born)
    except BaseException:  # noqa: BLE001 - the codec is the project's code, and a page has to open without its help
        opened = text
    return hidden.of_text(opened if isinstance(opened, str) else text, born)


def readable(text: str, born: Birthplace) -> str:
    """A stored payload for reading: unwrapped by the codec, and indented where it is JSON, as far as a page shows it.
    Else as it is stored.
    """
    opened = unwrapped(text, born)
    if len(opened) > LOADED_CHARACTERS:
        return opened
    try:
        return indented(json.loads(opened))
    except (ValueError, RecursionError):
        return opened


def indented(data: Any) -> str:
    """JSON for reading, no more of it than a page shows: indentation makes a deep payload a thousand times longer.
    Raises `RecursionError` for what is nested too deeply.
    """
    pieces: list[str] = []
    size = 0
    for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(data):
        pieces.append(piece)
        size += len(piece)
        if size > SHOWN_CHARACTERS:
            break
    return "".join(pieces)


def block(text: str, space: Space, *, whole: Stored | None = None) -> SafeString:
    """Text as it is, in a box; cut at the limit, and when the page has no more room. `whole` is the payload from which
    the text is read, if it is one.
    """
    html, is_all = space.fit(text)
    box = format_html('<pre class="durable-text" dir="ltr">{}</pre>', html) if html or is_all else SafeString("")
    if is_all and (whole is None or whole.is_whole):
        return box
    characters = number(len(text) if whole is None else whole.characters)
    remark = _("Cut: only the beginning of %(all)s characters is shown.") % {"all": characters}
    if not html:
        remark = _("Cut: the page has no room for these %(all)s characters.") % {"all": characters}
    return format_html('{}<p class="durable-quiet">{}{}</p>', box, remark, _way_to(whole))


def payload(stored_text: Stored | None, seen: PayloadSight, space: Space) -> SafeString:
    """A payload as HTML. Callers that may not show it do not select it either, and pass `None`."""
    if not seen.is_shown:
        return format_html('<span class="durable-quiet">{}</span>', seen.placeholder)
    if stored_text is None:
        return NOTHING
    if stored_text.is_whole:
        return block(readable(stored_text.text, stored_text.born), space, whole=stored_text)
    return _part(stored_text, space)


def _part(stored_text: Stored, space: Space) -> SafeString:
    """The beginning of a payload that is too long to load, if a part can be read."""
    if is_plain() and DIGEST_KEY not in stored_text.text:
        return block(stored_text.text, space, whole=stored_text)
    return _unshown(stored_text)


def _unshown(stored_text: Stored) -> SafeString:
    remark = _("Not shown: it has %(all)s characters.") % {"all": number(stored_text.characters)}
    return format_html('<p class="durable-quiet">{}{}</p>', remark, _way_to(stored_text))


def _way_to(whole: Stored | None) -> SafeString:
    if whole is None or not whole.address:
        return SafeString("")
    return format_html(' <a href="{}">{}</a>', whole.address, _("Download all"))


def opened(data: Any, seen: PayloadSight, places: Mapping[str, Birthplace]) -> Any:
    """An event's data with each payload in it made readable, or replaced by the note, at any depth. `places` are the
    payloads' birthplaces, by key. The key of a run's digests is left out for everybody.
    """
    if isinstance(data, Mapping):
        return {key: _opened_value(key, value, seen, places) for key, value in data.items() if key != DIGEST_KEY}
    if isinstance(data, list):
        return [opened(value, seen, places) for value in data]
    return data


def _opened_value(key: str, value: Any, seen: PayloadSight, places: Mapping[str, Birthplace]) -> Any:
    if key in PAYLOAD_KEYS:
        return _opened_payload(value, seen, places.get(key, NOWHERE))
    if key == DIGEST and not seen.is_shown:
        return seen.placeholder
    return opened(value, seen, places)


def envelope(
    stored_text: Stored | None,
    seen: PayloadSight,
    space: Space,
    place: Callable[[Mapping[str, Any]], Mapping[str, Birthplace]],
) -> SafeString:
    """A message's data as HTML. `place` finds the birthplaces of the payloads in it."""
    if not seen.is_shown or stored_text is None:
        return payload(stored_text, seen, space)
    if not stored_text.is_whole:  # it cannot be parsed, and may contain hidden data
        return _unshown(stored_text)
    data = read_json(stored_text.text)
    try:
        text = indented(opened(data, seen, place(data))) if isinstance(data, dict) else ""
    except RecursionError:
        text = ""
    text = text or hidden.of_text(stored_text.text, NOWHERE)
    return block(text, space, whole=stored_text)


def _opened_payload(value: Any, seen: PayloadSight, born: Birthplace) -> Any:
    if not seen.is_shown:
        return seen.placeholder
    if not isinstance(value, str):
        return value
    text = unwrapped(value, born)
    if len(text) > LOADED_CHARACTERS:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
