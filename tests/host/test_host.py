"""The host project's stories, each set in a process of its own: its users, its URLs and its log are not the suite's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.browser.conftest import CHROMIUM, DRIVER, REQUIRED
from tests.conftest import ROOT


def told(stories: str, **environment: str) -> None:
    """Run the stories of a file on the database under test. They fail here as they failed there."""
    given = {name: value for name, value in os.environ.items() if name not in ("DURABLE_TEST_NAME", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--ds", "tests.host.settings",
            "--tb", "short", "--show-capture", "no", "--timeout", "280", f"tests/host/{stories}.py",
        ],
        cwd=ROOT, env={**given, **environment}, capture_output=True, text=True, timeout=290, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("aware", ["1", "0"], ids=["aware", "naive"])
def test_requests_start_and_signal_and_a_worker_does_the_work(aware: str) -> None:
    told("story_requests", HOST_USE_TZ=aware)


@pytest.mark.parametrize("aware", ["1", "0"], ids=["aware", "naive"])
def test_every_admin_page_opens_under_a_policy_that_allows_nothing_inline(aware: str) -> None:
    told("story_pages", HOST_USE_TZ=aware)


def test_a_browser_that_holds_the_policy_sees_nothing_of_ours_break_it() -> None:
    if not (CHROMIUM and DRIVER) and not REQUIRED:
        pytest.skip("Chromium and its driver are not installed.")
    told("story_browser")
