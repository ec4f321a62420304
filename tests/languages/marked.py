"""A language in which every translated text is written in full-width letters: a text in ordinary letters was not
translated. Data keeps its letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

from django.utils import translation
from django.utils.translation import trans_real

CODE = "xx"
FORMAT = "format of Django's date filter"
"""The context of texts that are no words."""

_SEPARATOR = "\x04"
_KEPT = re.compile(r"%\(\w+\)[sd]|%[sd%]|\{\w*\}|<[^>]*>|&\w+;")
_WIDE = {ord(letter): chr(ord(letter) + 0xFEE0) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"}


_NO_WORDS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [A-Z]+|[0-9a-f]{8}-[0-9a-f-]{27}|…[0-9a-f]{8}")
"""Moments to the microsecond, and ids."""


class Marked:
    """What `django.utils.translation` asks of a language."""

    def gettext(self, message: str) -> str:
        context, _separator, text = message.rpartition(_SEPARATOR)
        return text if context == FORMAT else wide(text)

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        return self.gettext(singular if number == 1 else plural)

    def to_language(self) -> str:
        return CODE

    def language(self) -> str:
        return CODE


def wide(text: str) -> str:
    """The text in full-width letters; placeholders and markup stay."""
    pieces, end = [], 0
    for kept in _KEPT.finditer(text):
        pieces += [text[end : kept.start()].translate(_WIDE), kept[0]]
        end = kept.end()
    return "".join([*pieces, text[end:].translate(_WIDE)])


@contextmanager
def marked() -> Iterator[None]:
    """Every text that is translated is marked here."""
    trans_real._translations[CODE] = Marked()  # type: ignore[attr-defined]
    try:
        with translation.override(CODE):
            yield
    finally:
        del trans_real._translations[CODE]  # type: ignore[attr-defined]


class Shown(HTMLParser):
    """The texts of a page that people read or hear, with those of its attributes. Payloads and tracebacks are data."""

    _HEARD = frozenset({"aria-label", "placeholder", "title", "alt", "data-label"})
    _LEFT_OUT = frozenset({"script", "style", "pre"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._within = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within += tag in self._LEFT_OUT
        values = dict(attrs)
        self.texts += [values[name] or "" for name in values if name in self._HEARD]
        if tag == "input" and values.get("type") in ("submit", "button", "reset"):
            self.texts.append(values.get("value") or "")

    def handle_endtag(self, tag: str) -> None:
        self._within -= tag in self._LEFT_OUT

    def handle_data(self, data: str) -> None:
        if not self._within:
            self.texts.append(data)


def unmarked(page: str, data: Any) -> list[str]:
    """The texts of a page with words that were not translated. `data` are words that nobody translates."""
    known = re.compile("|".join(re.escape(word) for word in sorted(data, key=len, reverse=True)))
    found = []
    for text in Shown(page).texts:
        left = known.sub(" ", _NO_WORDS.sub(" ", text))
        if re.search(r"[A-Za-z]{2,}", left):
            found.append(" ".join(text.split()))
    return found
