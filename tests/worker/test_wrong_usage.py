"""Arguments that `manage.py runworker` refuses."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from durable.kernel.loop import asyncio_private
from tests.conftest import ROOT
from tests.waiting import PATIENCE

WRONG = [
    (["--concurrency", "0"], "--concurrency is 0"),
    (["--processes", "-1"], "--processes is -1"),
    (["--health", "nowhere"], "not ADDRESS:PORT"),
    (["--queue", ""], "--queue '': it is empty"),
    (["--queue", "q" * 101], "101 characters are more than the limit of 100"),
    (["--name", "w" * 181], "181 characters are more than the limit of 180"),
    (["--unheard-of"], "unrecognized arguments"),
]
EACH = f"""
import sys

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from durable.kernel.loop import asyncio_private
from django.core.management import execute_from_command_line
for arguments in {[arguments for arguments, _ in WRONG]!r}:
    try:
        execute_from_command_line(["manage.py", "runworker", *arguments])
    except SystemExit as end:
        print(f"exit {{end.code}}", file=sys.stderr, flush=True)
"""


def test_wrong_usage_exits_2_and_says_why() -> None:
    """One after the other in one process: each ends before anything is begun."""
    done = subprocess.run(
        [sys.executable, "-c", EACH],
        cwd=ROOT, env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.worker.plant_settings"},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    *said, rest = done.stderr.split("exit 2\n")
    assert (len(said), rest) == (len(WRONG), ""), done.stderr
    for (arguments, why), text in zip(WRONG, said, strict=True):
        assert why in text, arguments


def test_no_worker_starts_on_a_python_whose_asyncio_does_otherwise(monkeypatch) -> None:
    """Whoever calls the command from code skips the system checks, which say so too."""
    monkeypatch.setattr(asyncio_private, "number_gathering", lambda asking, number: None)
    with pytest.raises(CommandError, match=r"durable does not fit Python .* asyncio\.gather cannot") as refused:
        call_command("runworker", "--burst", skip_checks=True)
    assert refused.value.returncode == 2
