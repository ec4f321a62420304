"""`python -m tests.screenshots`: the pictures of the documentation.

With `--language de`, `--dark` and `--width 390` other ones, of more pages, into the folder `--to`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.screenshots.pages import HEIGHTS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
IMAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "images"


def main() -> None:
    """Build the scene on a database of its own, serve it, and take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    parser.add_argument("--language", default="en")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--to", type=Path, default=IMAGES)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "DEMO_DATABASE": f"{folder}/scene.sqlite3",
            "DURABLE_SCREENSHOTS_LANGUAGE": asked.language,
            "DJANGO_SETTINGS_MODULE": "tests.screenshots.settings",
        }
        import django

        django.setup()
        _take(asked)


def _take(asked: argparse.Namespace) -> None:
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.core.management import call_command
    from django.test.testcases import LiveServerThread
    from django.utils import translation

    from tests.screenshots import pages, scene

    call_command("migrate", verbosity=0)
    translation.activate("en")
    shown = pages.addresses(scene.build())
    server = LiveServerThread("127.0.0.1", StaticFilesHandler)
    server.daemon = True
    server.start()
    server.is_ready.wait(30)
    browser = _browser(asked.width, dark=asked.dark)
    try:
        _log_in(browser, f"http://127.0.0.1:{server.port}")
        asked.to.mkdir(parents=True, exist_ok=True)
        for name, address in shown.items():
            if asked.to != IMAGES or name in HEIGHTS:
                _resize(browser, asked.width, 900)
                browser.get(f"http://127.0.0.1:{server.port}{address}")
                _picture(browser, asked, name)
    finally:
        browser.quit()
        server.terminate()


def _browser(width: int, *, dark: bool) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.binary_location = str(CHROMIUM)
    browser = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    return browser


def _resize(browser: Any, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def _log_in(browser: Any, site: str) -> None:
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.get(username="anna"))
    browser.get(f"{site}/static/durable/admin.css")
    browser.add_cookie(
        {"name": settings.SESSION_COOKIE_NAME, "value": client.cookies[settings.SESSION_COOKIE_NAME].value}
    )


def _picture(browser: Any, asked: argparse.Namespace, name: str) -> None:
    if name == "redrive-preview":
        browser.execute_script(
            "for (const box of document.querySelectorAll('input[name=_selected_action]')) box.checked = true;"
            "document.querySelector('select[name=action]').value = 'redrive';"
            "document.querySelector('.durable-actions button[name=index]').click();"
        )
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    if wide > asked.width:
        print(f"{name}: {wide - asked.width} pixels wider than the window")
    height = HEIGHTS.get(name) if asked.to == IMAGES else None
    height = height or browser.execute_script("return document.documentElement.scrollHeight")
    _resize(browser, asked.width, height)
    path = asked.to / f"admin-{name}.png"
    browser.save_screenshot(str(path))
    print(path)


if __name__ == "__main__":
    main()
