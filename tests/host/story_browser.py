"""A browser holds the policy: no page of ours breaks it, and a redrive goes through."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import durable
from tests.browser.conftest import Person, browser, browser_is_there, chromium
from tests.host.crew import chief, collected, environment, site, stuck, until, worker
from tests.host.settings import JAM
from tests.host.story_pages import furnish, pages

__all__ = ["browser", "browser_is_there", "chief", "chromium", "collected", "environment", "site", "worker"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.filterwarnings("ignore::ResourceWarning")]

WATCH = """
window.broken = [];
document.addEventListener('securitypolicyviolation', event =>
  window.broken.push(event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sample));
window.addEventListener('error', event => window.broken.push('error ' + event.message), true);
"""


@pytest.fixture
def anna(chromium: Any, site: str, chief: Any) -> Iterator[Person]:
    """The superuser at a browser that writes down what breaks the policy."""
    watching = chromium.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    someone = Person(chromium, site)
    someone.go("/admin/login/?next=/admin/durable/")
    someone.fill("username", "anna")
    someone.fill("password", "anna")
    chromium.find_element("css selector", "input[type=submit]").click()
    until(lambda: "/login/" not in chromium.current_url)
    yield someone
    chromium.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": watching["identifier"]})


def broken(person: Person) -> list[str]:
    said = person.driver.execute_script("return window.broken")
    console = [entry["message"] for entry in person.driver.get_log("browser") if "favicon" not in entry["message"]]
    return [*said, *console]


def test_no_page_breaks_the_policy_or_lacks_a_file(anna: Person) -> None:
    """First the browser shows that it blocks what the policy forbids; else the rest would prove nothing."""
    anna.go("/admin/durable/")
    anna.driver.execute_script("document.body.setAttribute('style', 'color: red')")
    until(lambda: any("style-src" in line for line in anna.driver.execute_script("return window.broken")))
    broken(anna)
    furnish()
    wrong = {}
    for page in pages(rows_of_each=1):
        anna.go(page)
        until(lambda: anna.driver.execute_script("return document.styleSheets.length") > 0)
        if found := broken(anna):
            wrong[page] = found
    assert wrong == {}


def test_a_dead_letter_is_redriven_by_the_page(anna: Person, worker: subprocess.Popen[bytes]) -> None:
    letter = stuck(worker)
    Path(JAM).unlink()
    anna.go(f"/admin/durable/deadletter/{letter.pk}/change/")
    assert broken(anna) == []
    anna.go(f"/admin/durable/deadletter/{letter.pk}/redrive/")
    anna.fill("reason", "the printer is free")
    assert broken(anna) == []
    anna.driver.find_element("css selector", "form.durable-form [type=submit]").click()
    until(lambda: durable.get_workflow(letter.workflow_id).status().value == "completed")
    until(lambda: "/redrive/" not in anna.driver.current_url)
    assert broken(anna) == []
