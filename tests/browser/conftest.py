"""A real Chromium, and people who use it.

Without Chromium these tests are skipped and say so; with `DURABLE_BROWSER=required` (as in `.ci/run`) they fail.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
REQUIRED = os.environ.get("DURABLE_BROWSER") == "required"
PATIENCE = 20
"""Seconds until an element that does not come fails the test."""

INDEX = ("Durable execution administration", "Needs attention")
"""What the app's own index shows."""

LOOK_EVERY = 0.2
"""Seconds between two looks; the driver's own half a second is longer than most pages take."""

SHOWS = """
if (!document.body) return false;
const plain = text => text.replace(/\\s+/g, ' ');
const shown = plain(document.body.innerText);
return [...arguments].some(text => shown.includes(plain(text)));
"""
"""Whether the page shows one of these texts. The driver's own way to read a page takes much longer."""

LOADS = 5
"""How often an address is typed until the site answers."""


@pytest.fixture(autouse=True)
def browser_is_there() -> None:
    """Skip, or fail where a browser is required."""
    need_a_browser()


def need_a_browser() -> None:
    """Skip the test that calls this, or fail it where a browser is required, if there is none."""
    if CHROMIUM and DRIVER:
        return
    told = "Chromium and its driver are not installed (Debian: apt-get install chromium chromium-driver)."
    if REQUIRED:
        pytest.fail(told)
    pytest.skip(told)


class Browser:
    """One Chromium for all tests of a process; each gets it as if it had just been started."""

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._driver: Any = None

    def fresh(self) -> Any:
        """Without cookies, storage, emulation and complaints of the test before; started anew if that one broke it."""
        from selenium.common.exceptions import WebDriverException

        if self._driver is not None:
            try:
                self._forget()
            except WebDriverException:
                self.quit()
        if self._driver is None:
            self._driver = self._started()
        return self._driver

    def quit(self) -> None:
        """End it, if it runs."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.quit()

    def _forget(self) -> None:
        driver, send = self._driver, self._driver.execute_cdp_cmd
        if (origin := driver.execute_script("return location.origin")).startswith("http"):
            send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        driver.get("about:blank")
        send("Network.clearBrowserCookies", {})
        send("Emulation.clearDeviceMetricsOverride", {})
        send("Emulation.setEmulatedMedia", {"features": []})
        driver.get_log("browser")

    def _started(self) -> Any:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for argument in (
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
            "--window-size=1280,900", "--lang=en", f"--user-data-dir={self._profile}",
        ):  # fmt: skip
            options.add_argument(argument)
        driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        driver.implicitly_wait(0)
        return driver


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium with a profile of its own, which talks to this machine only; started when a test asks for it."""
    made = Browser(tmp_path_factory.mktemp("chromium") / "profile")
    yield made
    made.quit()


@pytest.fixture
def chromium(browser: Browser, browser_is_there: None) -> Any:
    """The driver of a Chromium that knows nothing of other tests."""
    return browser.fresh()


class Person:
    """Somebody with a browser, who sees what a page shows and presses what it offers."""

    def __init__(self, driver: Any, site: str) -> None:
        self.driver = driver
        self.site = site

    def log_in(self, name: str) -> None:
        """By the login form; the password is the name."""
        self.go("/admin/login/?next=/admin/durable/")
        self.fill("username", name)
        self.fill("password", name)
        self.press("Log in")
        self.sees(*INDEX)

    def come_in(self, user: User) -> None:
        """With the cookie of a session, as after the login form."""
        client = Client()
        client.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        cookie = {"name": name, "value": client.cookies[name].value, "url": self.site}
        self.driver.execute_cdp_cmd("Network.setCookie", cookie)
        self.go("/admin/durable/")
        self.sees(*INDEX)

    def go(self, path: str) -> None:
        """Type an address. Again, where the browser shows a page of its own: a crowded machine can break a load off."""
        for _ in range(LOADS):
            self.driver.get(self.site + path)
            if self.driver.execute_script("return document.URL").startswith("http"):
                return

    @property
    def text(self) -> str:
        """What the page shows."""
        from selenium.webdriver.common.by import By

        return str(self.driver.find_element(By.TAG_NAME, "body").text)

    @property
    def messages(self) -> list[str]:
        """What was said after the last action."""
        from selenium.webdriver.common.by import By

        return [found.text for found in self.driver.find_elements(By.CSS_SELECTOR, ".messagelist li")]

    def sees(self, *texts: str) -> None:
        """Wait until the page shows one of these texts."""
        from selenium.common.exceptions import TimeoutException, WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        def shown(driver: Any) -> bool:
            try:
                return bool(driver.execute_script(SHOWS, *texts))
            except WebDriverException as error:
                if _of_a_page_that_was_left(error):
                    return False
                raise

        try:
            WebDriverWait(self.driver, PATIENCE, LOOK_EVERY).until(shown)
        except TimeoutException:
            pytest.fail(f"{texts} did not come. {self.driver.current_url} shows:\n{self.text[:3_000]}")

    def resize(self, width: int) -> None:
        """Have a window of this width, as on a phone where it is narrow."""
        from selenium.webdriver.support.ui import WebDriverWait

        metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        WebDriverWait(self.driver, PATIENCE, LOOK_EVERY).until(
            lambda driver: driver.execute_script("return document.documentElement.clientWidth") >= width - 20,
            f"the window did not become {width} wide",
        )

    def width(self, at_most: int) -> int:
        """How wide the page is, once it has the window's width; the browser lays it out anew after a change of that."""
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        widest = "return Math.max(document.documentElement.scrollWidth, window.innerWidth)"
        with contextlib.suppress(TimeoutException):
            WebDriverWait(self.driver, PATIENCE, LOOK_EVERY).until(
                lambda driver: driver.execute_script(widest) <= at_most
            )
        return int(self.driver.execute_script(widest))

    def follow(self, text: str) -> None:
        """Press a link."""
        self._press(f"//a[contains(normalize-space(.), {_quoted(text)})]")

    def press(self, text: str) -> None:
        """Press a button, or an input that looks like one."""
        named = _quoted(text)
        self._press(f"//button[contains(normalize-space(.), {named})] | //input[@type='submit' and @value={named}]")

    def fill(self, name: str, value: str) -> None:
        """Type into a field."""
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support import expected_conditions
        from selenium.webdriver.support.ui import WebDriverWait

        field = WebDriverWait(self.driver, PATIENCE, LOOK_EVERY).until(
            expected_conditions.presence_of_element_located((By.NAME, name)), f"no field: {name}"
        )
        field.clear()
        field.send_keys(value)

    def choose(self, name: str, text: str) -> None:
        """Choose from a list."""
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import Select

        Select(self.driver.find_element(By.NAME, name)).select_by_visible_text(text)

    def click(self, path: str) -> None:
        """Press something that stays on the page."""
        self._reach(path).click()

    def choose_by_name(self, css: str, text: str) -> None:
        """Choose from a list that a theme may have hidden behind one of its own."""
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import Select

        select = self.driver.find_element(By.CSS_SELECTOR, css)
        if select.is_displayed() and select.size["width"] > 1:
            Select(select).select_by_visible_text(text)
            return
        select.find_element(By.XPATH, "following-sibling::span[contains(@class, 'select2')]").click()
        self.click(f"//li[contains(@class, 'select2-results__option') and normalize-space(.)={_quoted(text)}]")

    def tick(self, key: int) -> None:
        """Tick a row of a list."""
        from selenium.webdriver.common.by import By

        self.driver.find_element(By.CSS_SELECTOR, f'input[name="_selected_action"][value="{key}"]').click()

    def offers(self, text: str) -> bool:
        """Whether there is a button or a link of this name."""
        from selenium.webdriver.common.by import By

        named = _quoted(text)
        found = f"//button[normalize-space(.)={named}] | //a[normalize-space(.)={named}]"
        return bool(self.driver.find_elements(By.XPATH, found))

    @contextlib.contextmanager
    def leaving(self) -> Iterator[None]:
        """What is done within leads to another page."""
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.ui import WebDriverWait

        before = self.driver.find_element(By.TAG_NAME, "html")
        yield
        WebDriverWait(self.driver, PATIENCE, LOOK_EVERY).until(lambda driver: _is_gone(before), "the page did not go")

    def _press(self, path: str) -> None:
        element = self._reach(path)
        with self.leaving():
            element.click()

    def _reach(self, path: str) -> Any:
        """The element, when it can be pressed, in the middle of the window: themes have bars that stay in its way."""
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support import expected_conditions
        from selenium.webdriver.support.ui import WebDriverWait

        element = WebDriverWait(self.driver, PATIENCE, LOOK_EVERY).until(
            expected_conditions.element_to_be_clickable((By.XPATH, path)), f"nothing to press: {path}"
        )
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        return element


def _is_gone(element: Any) -> bool:
    """Whether the page of this element was left."""
    from selenium.common.exceptions import WebDriverException

    try:
        element.is_enabled()
    except WebDriverException as error:
        if _of_a_page_that_was_left(error):
            return True
        raise
    return False


def _of_a_page_that_was_left(error: Exception) -> bool:
    """Asked in the very moment of leaving, the driver has another word for it than otherwise."""
    from selenium.common.exceptions import StaleElementReferenceException

    return isinstance(error, StaleElementReferenceException) or "does not belong to the document" in str(error)


def _quoted(text: str) -> str:
    return f'"{text}"'


@pytest.fixture
def person(chromium: Any, live_server: Any) -> Callable[..., Person]:
    """`person("redrive_deadletter")` has logged in, and may look at everything and do what is named."""

    def enter(*codenames: str, by_the_form: bool = False) -> Person:
        user = User.objects.create_user("anna", password="anna", is_staff=True)
        granted = Permission.objects.filter(content_type__app_label="durable")
        user.user_permissions.set(granted.filter(codename__startswith="view_"))
        user.user_permissions.add(*granted.filter(codename__in=codenames))
        someone = Person(chromium, live_server.url)
        if by_the_form:
            someone.log_in("anna")
        else:
            someone.come_in(user)
        return someone

    return enter
