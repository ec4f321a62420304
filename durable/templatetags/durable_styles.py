"""The stylesheet of our pages, as the site's content security policy wants it."""

from __future__ import annotations

from typing import Any

import django
from django import forms, template
from django.utils.safestring import SafeString

OURS = forms.Media(css={"all": ["durable/admin.css"]})

register = template.Library()


@register.simple_tag(takes_context=True)
def durable_styles(context: dict[str, Any], media: forms.Media = OURS) -> SafeString:
    """Links to the stylesheets of `media`, with the nonce of Django's own policy where contexts of the site have it."""
    styles = media["css"]
    nonce = context.get("csp_nonce")
    if nonce is None or django.VERSION < (6, 1):
        return styles.render()
    rendered: SafeString = styles.render(attrs={"nonce": nonce})  # type: ignore[call-arg, unused-ignore]
    return rendered
