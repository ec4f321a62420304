"""The demo's edges; its story itself is told by `.ci/run` and by the slow test below."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from project.demo.children import PortTaken, take_port
from tests.architecture.source import ROOT


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a shell in an empty folder would have."""
    ours = ("DURABLE_", "DJANGO_", "PYTEST")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return kept | {"DEMO_DATABASE": str(tmp_path / "demo.sqlite3"), "PYTHONUNBUFFERED": "1"}


def test_a_taken_port_is_named(taken_port: int) -> None:
    with pytest.raises(PortTaken, match=rf"Port {taken_port} is taken .* --port"):
        take_port(taken_port)


def test_a_taken_port_is_said_and_not_crashed_on(taken_port: int, environment: dict[str, str]) -> None:
    answer = subprocess.run(
        [sys.executable, "manage.py", "demo", "--port", str(taken_port)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert answer.returncode == 1
    assert f"Port {taken_port} is taken" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_open_shop_shows_itself_and_leaves_no_process_behind(
    environment: dict[str, str], number: signal.Signals
) -> None:
    shop = subprocess.Popen(
        [sys.executable, "manage.py", "demo", "--port", str(take_port(0))],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell that runs the suite in the background has told everybody to ignore Ctrl-C.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert shop.stdout is not None
    try:
        said = listen(shop.stdout, until="placed")
        address = re.search(r"http://\S+", said)
        worker = re.search(r"The worker: process (\d+)", said)
        assert address, said
        assert worker, said
        assert "password" in said
        assert f"{address[0]}admin/durable/deadletter/" in said
        assert f"{address[0]}admin/shop/service/" in said
        with urllib.request.urlopen(address[0], timeout=120) as page:
            assert b"What would you like?" in page.read()
        os.kill(int(worker[1]), signal.SIGKILL)
        again = re.search(r"process (\d+) takes over", listen(shop.stdout, until="takes over"))
        assert again
    finally:
        shop.send_signal(number)
        last, _ = shop.communicate(timeout=180)
    assert shop.returncode == 0, last
    assert "The shop is closed." in last
    with pytest.raises(ProcessLookupError):
        os.kill(int(again[1]), 0)


def listen(lines: IO[str], *, until: str) -> str:
    """Read lines up to the one that holds `until`; answers all of them."""
    said = ""
    for line in lines:
        said += line
        if until in line:
            return said
    raise AssertionError(f"{until!r} was never said, but:\n{said}")


@pytest.mark.slow
def test_the_story_ends_as_told(environment: dict[str, str]) -> None:
    answer = subprocess.run(
        [sys.executable, "manage.py", "demo", "--once"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=115,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    *acts, last = answer.stdout.splitlines()
    assert [act.split(".")[0] for act in acts if not act.startswith(" ")] == [str(act) for act in range(1, 15)]
    assert re.findall(r"refused, (\w+)$", answer.stdout, re.MULTILINE) == [
        "history_records_outcome",
        "not_dead_lettered",
        "row_not_found",
        "workflow_terminal",
    ]
    assert "[warning" not in answer.stdout + answer.stderr
    assert last == (
        "12 orders: 7 delivered, 2 refunded, 1 refused, 1 sold out, 1 cancelled; "
        "1 worker killed, 9 payments, none twice."
    )
