"""The engine on an alias of its own: a small suite in a run of its own, since settings can not be swapped."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.architecture.source import ROOT

OUR_RUN = ("DURABLE_TEST_NAME", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS")


def test_the_small_suite_passes_with_the_engine_on_a_second_alias() -> None:
    environment = {key: value for key, value in os.environ.items() if key not in OUR_RUN}
    # A folder or server of its own: the databases of this run would have the same names.
    environment.pop("DURABLE_TEST_DIR", None)
    environment.pop("DURABLE_TEST_PG_SOCKET", None)
    environment["DJANGO_SETTINGS_MODULE"] = "tests.second_alias.settings"
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/second_alias/in_its_own_run.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "4 passed" in answer.stdout
