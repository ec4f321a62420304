"""Who may see payloads, and how they are shown: always escaped, always bounded, readable whatever they hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from durable.admin.wording import NOTHING, number, read_json
from durable.conf import settings
from durable.kernel.birthplace import NOWHERE, PAYLOAD_KEYS, Birthplace
from durable.kernel.events import DIGEST_KEY

SHOWN_CHARACTERS = 20_000
"""More than this of one payload is not put on a page; a browser can show it, a person does not read it."""

DIGEST = "digest"
"""Stands for arguments, and is for those who may see them."""


class Visibility(Enum):
    """Whether this reader sees payloads, and if not, why."""

    SHOWN = "shown"
    NO_PERMISSION = "no_permission"
    REDACTED = "redacted"

    @property
    def note(self) -> str:
        """What stands in the place of a hidden payload."""
        if self is Visibility.REDACTED:
            return _("Hidden: this site shows no payloads.")
        return _("Hidden: you need the permission to view payloads.")


def visibility(request: HttpRequest) -> Visibility:
    """What the setting and the reader's permission say."""
    if settings.redact_payloads:
        return Visibility.REDACTED
    if request.user.has_perm("durable.view_payload"):
        return Visibility.SHOWN
    return Visibility.NO_PERMISSION


def readable(text: str, born: Birthplace) -> str:
    """A stored payload for reading: unwrapped by the codec, and indented where it is JSON. Else as it is stored."""
    try:
        opened = settings.codec().unwrap(text, born)
    except BaseException:  # noqa: BLE001 - the codec is the project's code, and a page has to open without its help
        opened = text
    try:
        return json.dumps(json.loads(opened), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return opened if isinstance(opened, str) else text


def block(text: str) -> SafeString:
    """Text as it is, in a box of its own; cut where nobody reads on."""
    if len(text) <= SHOWN_CHARACTERS:
        return format_html('<pre class="durable-text">{}</pre>', text)
    note = _("Cut: these are the first %(shown)s of %(all)s characters.") % {
        "shown": number(SHOWN_CHARACTERS),
        "all": number(len(text)),
    }
    return format_html(
        '<pre class="durable-text">{}</pre><p class="durable-quiet">{}</p>', text[:SHOWN_CHARACTERS], note
    )


def payload(text: str | None, seen: Visibility, born: Birthplace) -> SafeString:
    """A payload column as HTML. Callers that may not show it do not select it either, and pass `None`."""
    if seen is not Visibility.SHOWN:
        return format_html('<span class="durable-quiet">{}</span>', seen.note)
    return NOTHING if text is None else block(readable(text, born))


def opened(data: Any, seen: Visibility, places: Mapping[str, Birthplace]) -> Any:
    """An event's data with each payload in it made readable, or replaced by the note, at any depth. `places` are the
    payloads' birthplaces, by key. The key of a run's digests is left out for everybody.
    """
    if isinstance(data, Mapping):
        return {key: _opened_value(key, value, seen, places) for key, value in data.items() if key != DIGEST_KEY}
    if isinstance(data, list):
        return [opened(value, seen, places) for value in data]
    return data


def _opened_value(key: str, value: Any, seen: Visibility, places: Mapping[str, Birthplace]) -> Any:
    if key in PAYLOAD_KEYS:
        return _opened_payload(value, seen, places.get(key, NOWHERE))
    if key == DIGEST and seen is not Visibility.SHOWN:
        return seen.note
    return opened(value, seen, places)


def envelope(text: str, seen: Visibility, place: Callable[[Mapping[str, Any]], Mapping[str, Birthplace]]) -> SafeString:
    """A message's data as HTML. `place` finds the birthplaces of the payloads in it."""
    if seen is not Visibility.SHOWN:
        return format_html('<span class="durable-quiet">{}</span>', seen.note)
    data = read_json(text)
    if not isinstance(data, dict):
        return block(text)
    return block(json.dumps(opened(data, seen, place(data)), indent=2, ensure_ascii=False))


def _opened_payload(value: Any, seen: Visibility, born: Birthplace) -> Any:
    if seen is not Visibility.SHOWN:
        return seen.note
    if not isinstance(value, str):
        return value
    text = readable(value, born)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
