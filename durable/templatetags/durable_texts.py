"""Texts of others on our pages."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from durable.admin.words import wording

register = template.Library()


@register.filter
def isolated(value: object, limit: int = 4_000) -> object:
    """A text of somebody else's, at most so many characters of it, in its own direction; what makes no mark is an
    escape. Anything else, and what is HTML already, as it is.
    """
    if not isinstance(value, str) or isinstance(value, SafeString):
        return value
    return format_html("<bdi>{}</bdi>", wording.shortened(value, limit))
