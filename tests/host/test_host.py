"""The host project's stories, each set in a process of its own: its users, its URLs and its log are not the suite's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.browser.conftest import need_a_browser
from tests.conftest import ROOT

pytestmark = pytest.mark.timeout(600)
OF_THIS_RUN = ("DURABLE_TEST_NAME", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")


def told(*stories: str, **environment: str) -> None:
    """Run the stories of these files on the database under test. They fail here as they failed there."""
    given = {name: value for name, value in os.environ.items() if name not in OF_THIS_RUN}
    given["HOST_PART"] = stories[0]
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--ds", "tests.host.settings",
            "--tb", "short", "--show-capture", "no", "--timeout", "280",
            *(f"tests/host/{story}.py" for story in stories),
        ],
        cwd=ROOT, env={**given, **environment}, capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("aware", ["1", "0"], ids=["aware", "naive"])
def test_requests_start_a_worker_does_the_work_and_every_admin_page_opens_under_a_policy(aware: str) -> None:
    """The policy allows nothing inline."""
    told("story_requests", "story_pages", HOST_USE_TZ=aware)


def test_a_browser_that_holds_the_policy_sees_nothing_of_ours_break_it() -> None:
    need_a_browser()
    told("story_browser")
