"""Long words of other languages fit into the pages, on a desk and on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.screenshots import pages, scene

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=False),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

CUT = """
return [...document.querySelectorAll('.button, .durable-badge, h1, h2, .durable-card, label')].filter(
    (element) => !element.matches('.visually-hidden') && element.scrollWidth > element.clientWidth + 1
        && getComputedStyle(element).display !== 'inline'
).map((element) => element.innerText);
"""
"""The texts of buttons, labels and headings that are wider than their box."""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("language", ["de", "fr"])
def test_no_page_is_wider_than_the_window(
    language: str, width: int, chromium: Any, live_server: Any, settings: Any
) -> None:
    settings.LANGUAGE_CODE = language
    addresses = pages.addresses(scene.build())
    client = Client()
    client.force_login(User.objects.get(username="anna"))
    cookie = {"name": settings.SESSION_COOKIE_NAME, "value": client.cookies[settings.SESSION_COOKIE_NAME].value}
    chromium.execute_cdp_cmd("Network.setCookie", {**cookie, "url": live_server.url})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wide, cut = {}, {}
    for name, address in addresses.items():
        chromium.get(live_server.url + address)
        assert chromium.execute_script("return document.documentElement.lang") == language
        shown = chromium.execute_script("return document.documentElement.scrollWidth")
        if shown > width:
            wide[name] = shown - width
        if texts := chromium.execute_script(CUT):
            cut[name] = texts
    assert (wide, cut) == ({}, {})
