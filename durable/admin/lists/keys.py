"""Keys of rows in URLs: text that anybody may have typed."""

from __future__ import annotations

import re
from typing import Any
from unicodedata import normalize

from django.core.exceptions import ValidationError
from django.db.models import Model


def read_key(model: type[Model], text: str) -> Any:
    """The text as a value of the model's primary key, or `None` when no row of any database could have that key."""
    field: Any = model._meta.pk
    while field.is_relation:
        field = field.target_field
    if "\x00" in text:
        return None
    try:
        key = field.to_python(text)
        field.run_validators(key)
    except (ValidationError, ValueError):
        return None
    return key


_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])")


def spellings(term: str) -> list[str]:
    """The keys that a search term may mean: as it is, without the blanks around it, with the characters for which pages
    show escapes, and with accents as characters of their own or not.
    """
    plain = _ESCAPE.sub(_unescaped, term)
    candidates = [term, plain, term.strip(), plain.strip()]
    candidates += [normalize(form, text) for form in ("NFC", "NFD") for text in candidates]
    return [text for text in dict.fromkeys(candidates) if _is_storable(text)]


def _unescaped(escape: re.Match[str]) -> str:
    return escape[0].encode("ascii").decode("unicode_escape", "replace")


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
