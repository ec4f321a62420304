"""What the stories of the host project use: collected files, processes for a worker and a site, and staff."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.conftest import ROOT
from tests.host.settings import JAM
from tests.waiting import PATIENCE

Until = Callable[[Callable[[], object]], None]


@pytest.fixture(scope="session", autouse=True)
def collected() -> None:
    """Static files under the names that the manifest gives them."""
    call_command("collectstatic", interactive=False, verbosity=0)


@pytest.fixture(scope="session")
def environment(django_db_setup: None) -> dict[str, str]:
    """Of processes on the tests' database."""
    from django.db import connection

    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.host.settings",
        "DURABLE_TEST_NAME": str(connection.settings_dict["NAME"]),
        "PYTHONPATH": str(ROOT),
    }


@contextmanager
def process(environment: dict[str, str], said: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`manage.py` with these arguments, ended with the block."""
    with said.open("ab") as file:
        started = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        yield started
    finally:
        if started.poll() is None:
            started.terminate()
        try:
            started.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait(PATIENCE)


@pytest.fixture
def worker(transactional_db: None, environment: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`manage.py runworker --processes 1`: what kills its child is replaced."""
    Path(JAM).unlink(missing_ok=True)
    said = tmp_path / "worker"
    with process(environment, said, "runworker", "--processes", "1") as started:
        yield started
    assert started.returncode == 0, said.read_text(errors="replace")[-4000:]


@pytest.fixture(scope="session")
def site(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A site as a process of its own, with ATOMIC_REQUESTS and all middleware, for all stories. Its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with process(environment, tmp_path_factory.mktemp("site") / "said", "runserver", "--noreload", address):
        until(lambda: _serves(address))
        yield f"http://{address}"


def _serves(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/admin/login/", timeout=PATIENCE) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def chief(transactional_db: None) -> Any:
    """A superuser."""
    from tests.host.desk.models import User

    return User.objects.create_superuser("anna", password="anna")


@pytest.fixture
def staff(chief: Any) -> Client:
    """The superuser, logged in."""
    client = Client()
    client.force_login(chief)
    return client


def until(condition: Callable[[], object]) -> None:
    """Look again and again until it holds; fails loudly when it never does."""
    import threading

    pause = threading.Event()
    for _ in range(int(PATIENCE * 20)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("It never came to pass.")


def opened(title: str) -> tuple[int, uuid.UUID]:
    """A ticket that a request has opened; its number and its workflow."""
    response = Client().post("/tickets/", {"title": title})
    assert response.status_code == 200, response.content
    answer = json.loads(response.content)
    return answer["number"], uuid.UUID(answer["workflow"])


def approved(number: int) -> None:
    """A request has approved it."""
    assert Client().post(f"/tickets/{number}/approve/", {"who": "Jörg"}).status_code == 200


def stuck(worker: subprocess.Popen[bytes]) -> Any:
    """A dead letter: the printer was jammed, and each delivery has killed its worker."""
    from durable.models import DeadLetter

    Path(JAM).touch()
    number, _ = opened("stuck")
    approved(number)
    until(lambda: DeadLetter.objects.dead_letters().exists())
    return DeadLetter.objects.dead_letters().get()
