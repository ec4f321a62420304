"""The suite's own tools do what the tests rely on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from tests import folders
from tests.conftest import ROOT, FrozenClock
from tests.ledger.models import Entry
from tests.waiting import PATIENCE, Barrier, Gate


def test_the_database_under_test_is_the_one_that_was_asked_for() -> None:
    assert connection.vendor == os.environ.get("DURABLE_TEST_DATABASE", "sqlite")


@pytest.mark.django_db(transaction=True)
def test_a_second_connection_sees_committed_rows_only(second_connection: Callable[..., Future[Any]]) -> None:
    Entry.objects.create(label="committed")
    with transaction.atomic():
        if connection.vendor == "postgresql":
            Entry.objects.create(label="open")
        seen = second_connection(lambda: list(Entry.objects.values_list("label", flat=True))).result(PATIENCE)
    assert seen == ["committed"]


@pytest.mark.django_db(transaction=True)
def test_sqlite_is_a_file_in_wal_mode_that_begins_immediate() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has neither.")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)
        cursor.execute("PRAGMA database_list")
        assert cursor.fetchone()[2].startswith(os.environ["DURABLE_TEST_DIR"])
    assert connection.settings_dict["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


@pytest.mark.django_db(transaction=True)
def test_a_process_that_a_test_starts_works_on_the_same_database(subprocess_environment: dict[str, str]) -> None:
    code = "from tests.ledger.models import Entry; Entry.objects.create(label='from another process')"
    subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", code],
        cwd=ROOT,
        env=subprocess_environment,
        check=True,
        timeout=60,
    )
    assert [entry.label for entry in Entry.objects.all()] == ["from another process"]


def test_the_frozen_clock_stands_still_until_it_is_moved(frozen_clock: FrozenClock) -> None:
    before = frozen_clock.now
    assert frozen_clock.now == before
    assert frozen_clock.move(timedelta(minutes=1)) == before + timedelta(minutes=1) == frozen_clock.now


def test_a_gate_tells_who_arrived_before_it_opens(gate: Gate, second_connection: Callable[..., Future[Any]]) -> None:
    done = second_connection(gate.pass_through)
    gate.wait_for_arrival()
    assert not done.done()
    gate.open()
    assert done.result(PATIENCE) is None


def test_a_barrier_that_somebody_misses_speaks_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.waiting.PATIENCE", 0.01)
    with pytest.raises(AssertionError, match="Not all 2 threads came to 'meeting'"):
        Barrier(2, "meeting").wait()


def test_the_folder_of_a_killed_owner_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from tests import folders;"
        "print(folders.own('kept', parent=pathlib.Path(sys.argv[1])), flush=True);"
        "sys.stdin.read(1) or os.kill(os.getpid(), 9)"
    )

    def owner() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    killed, orphan = owner()
    killed.communicate()
    assert killed.returncode == -9
    assert orphan.is_dir()
    living, kept = owner()
    assert not orphan.exists()
    folders.own("kept", parent=tmp_path)
    assert kept.is_dir()
    living.communicate("x")
    assert not kept.exists()


def test_locks_that_another_user_has_planted_stop_no_run(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can act as two users")
    (tmp_path / "durable-planted-0-link.lock").symlink_to(tmp_path / "elsewhere.lock")
    (tmp_path / "elsewhere.lock").touch()
    os.mkfifo(tmp_path / "durable-planted-0-pipe.lock")
    strangers = tmp_path / "durable-planted-0-file.lock"
    strangers.touch()
    os.chown(strangers, 65_533, 65_533)
    kept = [tmp_path / f"durable-planted-0-{name}" for name in ("link", "pipe", "file")]
    for folder in kept:
        folder.mkdir()
    assert folders.own("planted", parent=tmp_path).is_dir()
    assert all(folder.is_dir() for folder in kept), "what is not ours is not removed either"


def stand_in(folder: Path, name: str, ends: int = 0) -> str:
    """A program that takes the place of an interpreter: it says what it is asked to run, and ends so."""
    program = folder / name
    program.write_text(
        '#!/bin/sh\n[ "$1" = -c ] && exec echo "Python of ' + name + '"\necho "$*" >>"$0.asked"\n'
        f'echo "{name} runs $* on $DURABLE_TEST_DATABASE; byte code: ${{PYTHONDONTWRITEBYTECODE-kept}}"\nexit {ends}\n'
    )
    program.chmod(0o755)
    return str(program)


def suite(**environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m tests --some-option`, with these variables."""
    return subprocess.run(
        [sys.executable, "-m", "tests", "--some-option"],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_each_database_may_have_an_interpreter_of_its_own(tmp_path: Path) -> None:
    done = suite(
        DURABLE_TESTS_SQLITE_PYTHON=stand_in(tmp_path, "one"),
        DURABLE_TESTS_POSTGRESQL_PYTHON=stand_in(tmp_path, "two"),
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert done.returncode == 0, done.stderr
    assert "the suite on sqlite, Python of one" in done.stdout
    assert "the suite on postgresql, Python of two" in done.stdout
    options = r"-n \d --dist worksteal --durations \d+ --junitxml=\S+"
    assert re.search(rf"one runs -m pytest {options} --some-option on sqlite", done.stdout)
    assert re.search(rf"two runs -m pytest {options} -m not once --some-option on postgresql", done.stdout)
    assert done.stdout.count("; byte code: kept") == 2
    *compiled, tested = (tmp_path / "one.asked").read_text().splitlines()
    assert [line.split()[1] for line in compiled] == ["compileall", "pytest"], "the workers find it done"
    assert "--collect-only" in compiled[1]
    assert "--some-option" in tested
    assert "sqlite passed, postgresql passed" in done.stdout


def test_the_suite_has_failed_if_one_of_the_two_runs_has(tmp_path: Path) -> None:
    done = suite(
        DURABLE_TESTS_SQLITE_PYTHON=stand_in(tmp_path, "one"),
        DURABLE_TESTS_POSTGRESQL_PYTHON=stand_in(tmp_path, "two", ends=1),
    )
    assert done.returncode == 1
    assert "sqlite passed, postgresql failed (1)" in done.stdout


def test_what_has_failed_is_named_once_more_at_the_end(tmp_path: Path) -> None:
    """Whoever keeps a build's output keeps its end: a failure of the first run stands 30 minutes before it."""
    failing = tmp_path / "failing"
    failing.write_text(
        '#!/bin/sh\n[ "$1" = -c ] && exec echo "Python of failing"\n'
        'for each; do case "$each" in --junitxml=*) file="${each#--junitxml=}";; esac; done\n'
        "cat >\"$file\" <<'XML'\n"
        '<testsuites><testsuite><testcase classname="tests.a" name="test_good"/>'
        '<testcase classname="tests.a" name="test_bad[1]"><failure message="assert 1 == 2&#10;more">x</failure>'
        "</testcase>"
        "</testsuite></testsuites>\nXML\nexit 1\n"
    )
    failing.chmod(0o755)
    kept = tmp_path / "failed"
    done = suite(
        DURABLE_TESTS_SQLITE_PYTHON=str(failing),
        DURABLE_TESTS_POSTGRESQL_PYTHON=stand_in(tmp_path, "two"),
        DURABLE_TESTS_FAILED=str(kept),
    )
    assert done.returncode == 1
    line = "  on sqlite: tests.a::test_bad[1]: assert 1 == 2"
    assert done.stdout.endswith(f"sqlite failed (1), postgresql passed\n{line}\n")
    assert kept.read_text() == f"{line}\n"


def test_an_interpreter_that_does_not_run_is_named_before_anything_is_run(tmp_path: Path) -> None:
    nothing = str(tmp_path / "nothing")
    done = suite(DURABLE_TESTS_SQLITE_PYTHON=stand_in(tmp_path, "one"), DURABLE_TESTS_POSTGRESQL_PYTHON=nothing)
    assert done.returncode == 1
    assert f"{nothing} cannot run the suite" in done.stderr
    assert "runs" not in done.stdout


def test_a_machine_with_one_python_is_told_which_one_is_missing(tmp_path: Path) -> None:
    """The build runs both Djangos, or it has failed."""
    (tmp_path / "python3").symlink_to(sys.executable)
    (tmp_path / "sort").symlink_to(str(shutil.which("sort")))
    done = subprocess.run(
        ["/bin/bash", "-c", 'source .ci/pythons; two_environments "$0/second"', str(tmp_path)],
        cwd=ROOT, env={"PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    missing = (
        "No Python 3.12 or newer on this machine" if sys.version_info < (3, 12) else "no Python 3.11 for Django 5.2"
    )
    assert missing in done.stdout, done.stderr
