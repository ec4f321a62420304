"""Keys of rows as they stand in addresses: text that anybody may have typed."""

from __future__ import annotations

from typing import Any

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
