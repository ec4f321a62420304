"""Fixtures of the whole suite. Nothing here needs more of the product than its clock and its registry."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from asgiref.sync import SyncToAsync

from tests import plan, sessions
from tests.waiting import PATIENCE, Barrier, Gate, in_thread

ROOT = Path(__file__).resolve().parent.parent


class FrozenClock:
    """The engine's clock, held still by a test."""

    def __init__(self, at: datetime) -> None:
        from durable import clock

        self._clock = clock
        self._clock.freeze(at)

    @property
    def now(self) -> datetime:
        """The frozen moment."""
        return self._clock.host_now()

    def move(self, by: timedelta) -> datetime:
        """Move forward and answer the new moment."""
        return self._clock.move(by)


LONGEST_REPORT = 200_000
"""Characters of a report, and of each thing captured: some tests speak of texts of a hundred megabytes."""


def pytest_configure() -> None:
    """What `nohup` or a shell's `&` have this run ignore, the processes that tests start would ignore as well. Files of
    workers lie where TMPDIR says, not in folders of the session of whoever runs this.
    """
    for name in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"):
        os.environ.pop(name, None)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    if plan.is_once(item.nodeid):
        item.add_marker("once")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After pytest-randomly has shuffled them: what takes long comes first, where several workers share the tests."""
    if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
        items[:] = [items[index] for index in plan.shared_out([item.nodeid for item in items], workers)]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What all tests share stays to the end. A test that collects garbage looks through its own objects only: all of
    the suite's took half a second each time.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Reports travel from process to process as UTF-8, which has no place for the halves of characters that tests of
    hostile texts use: one such failure would end the whole run without a word of which.
    """
    report = yield
    report.sections = [(name, _sendable(text)) for name, text in report.sections]
    told = str(report.longrepr or "")
    if report.failed and _sendable(told) != told:
        report.longrepr = _sendable(told)
    return report


def _sendable(text: str) -> str:
    return text[-LONGEST_REPORT:].encode(errors="backslashreplace").decode()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """PostgreSQL removes no database that somebody is in. A session that a test has left is named, then ended."""
    yield
    with django_db_blocker.unblock():
        sessions.end_all()


@pytest.fixture
def frozen_clock() -> Iterator[FrozenClock]:
    """The engine's clock stands still at 2030-01-01 12:00 UTC until the test moves it, in this process only."""
    from durable import clock

    yield FrozenClock(datetime(2030, 1, 1, 12, tzinfo=UTC))
    clock.unfreeze()


@pytest.fixture
def isolated_registry() -> Iterator[Any]:
    """The registry, empty at the start of the test and as it was before afterwards."""
    from durable.kernel.definitions.registry import registry

    with registry.isolated():
        yield registry


@pytest.fixture
def barrier() -> Callable[[int], Barrier]:
    """`barrier(2)` makes a barrier for two threads; one that does not come fails the test loudly."""
    return Barrier


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A door for handlers under test; opened at the end whatever happens, so that no thread is left behind it."""
    door = Gate()
    yield door
    door.open()


@pytest.fixture
def second_connection(request: pytest.FixtureRequest) -> Iterator[Callable[..., Future[Any]]]:
    """`second_connection(call, *args)` runs in a thread with database connections of its own and answers a future.

    The test has to be `@pytest.mark.django_db(transaction=True)`. Threads that are still running when the test ends
    fail it.
    """
    futures: list[Future[Any]] = []

    def start(call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        futures.append(in_thread(call, *args, **kwargs))
        return futures[-1]

    yield start
    for future in futures:
        future.exception(timeout=PATIENCE)


@pytest.fixture
def subprocess_environment(transactional_db: None) -> dict[str, str]:
    """The environment in which `python manage.py …` or `python -c …` works on this test's own database.

    Use it with `cwd=tests.conftest.ROOT`.
    """
    from django.db import connection

    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DURABLE_TEST_NAME": str(connection.settings_dict["NAME"]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }


@pytest.fixture(autouse=True)
def lines_are_counted_anew() -> None:
    """What one test logs too often is not missing in the next, and a supervisor in this process has ended."""
    from durable.outbound import floods, road

    floods.reset()
    road._patience = None  # what one test has set holds for the whole process


@pytest.fixture(autouse=True)
def structlog_is_left_as_it_was() -> Iterator[None]:
    """`capture_logs` puts back what structlog did before, and leaves it configured: from then on each line would go
    through the defaults, which draw tracebacks with all local variables where `rich` is installed.
    """
    configured = structlog.is_configured()
    yield
    if not configured:
        structlog.reset_defaults()


@pytest.fixture(autouse=True)
def no_language_left_behind() -> Iterator[None]:
    """A request activates the reader's language for its thread, which is that of the next test."""
    from django.utils import translation

    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def no_thread_left_behind() -> Iterator[None]:
    """A test that leaves a (non-daemon) thread running fails itself, not a later one.

    The one thread on which asgiref runs what is thread-sensitive is the process's own: whichever test needs it first
    begins it, and it stays, but for its connections: a server removes no database that somebody is in.
    """
    from django.db import connections

    before = set(threading.enumerate())
    yield
    shared = SyncToAsync.single_thread_executor
    # Asgiref's executor keeps its threads until the end of the process.
    for thread in set(threading.enumerate()) - before - shared._threads:
        if not thread.daemon:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"The test left the thread {thread.name!r} running."
    if shared._threads:
        shared.submit(connections.close_all).result(PATIENCE)
