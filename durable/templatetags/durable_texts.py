"""Other people's texts on our pages."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from durable.admin.words import wording

register = template.Library()


@register.filter
def isolated(value: object, limit: int = 4_000) -> object:
    """Another person's text, cut to a number of characters, isolated in its own direction, with invisible characters
    escaped. Other values, and HTML, are returned unchanged.
    """
    if not isinstance(value, str) or isinstance(value, SafeString):
        return value
    return format_html("<bdi>{}</bdi>", wording.shortened(value, limit))
