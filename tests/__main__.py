"""`python -m tests [pytest's arguments]` runs the suite once on SQLite and once on PostgreSQL.

pytest's own summary appears once per database, and the names of what failed once more at the very end, since whoever
keeps an output keeps its end; with `DURABLE_TESTS_FAILED` in that file, too. Exits 0 only if both runs passed.

The second run leaves out what neither a database nor a version of Django changes (the marker `once`, `tests/plan.py`).
`-m` among pytest's arguments takes the place of that.

Both runs use the interpreter that runs this. `DURABLE_TESTS_SQLITE_PYTHON` and `DURABLE_TESTS_POSTGRESQL_PYTHON` name
another one for a database: an environment in which requirements.txt is installed, too. `.ci/run` gives PostgreSQL's run
one of Python 3.12 or newer in this way, so that one command runs Django 5.2 and Django 6.1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATABASES = ("sqlite", "postgresql")
LEFT_OUT: dict[str, list[str]] = {"sqlite": [], "postgresql": ["-m", "not once"]}
NO_TESTS = int(pytest.ExitCode.NO_TESTS_COLLECTED)


def workers() -> int:
    """Xdist workers: two for each core, since tests wait more than they compute; two at least and eight at most."""
    return max(2, min(2 * (os.cpu_count() or 1), 8))


VERSIONS = "import django, platform; print(f'Python {platform.python_version()}, Django {django.__version__}')"


def interpreter(database: str) -> str:
    """The interpreter for this database's run."""
    return os.environ.get(f"DURABLE_TESTS_{database.upper()}_PYTHON") or sys.executable


def versions(python: str) -> str:
    """What this interpreter is and has. Ends the whole if it does not run, or has no Django."""
    try:
        told = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"{python} cannot run the suite: {getattr(error, 'stderr', None) or error}") from error
    return told.stdout.strip()


def run(database: str, python: str, said: str, arguments: list[str], results: Path) -> int:
    """One run of pytest with this interpreter, its results in this file; returns its exit code."""
    print(f"\n===== the suite on {database}, {said} =====", flush=True)
    compile_sources(python)
    environment = with_byte_code() | {"DURABLE_TEST_DATABASE": database}
    command = [python, "-m", "pytest", "-n", str(workers()), "--dist", "worksteal", "--durations", "15"]
    return subprocess.run(
        [*command, f"--junitxml={results}", *LEFT_OUT[database], *arguments],
        cwd=ROOT, env=environment, check=False,
    ).returncode  # fmt: skip


def with_byte_code() -> dict[str, str]:
    """The environment, but for PYTHONDONTWRITEBYTECODE."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def compile_sources(python: str) -> None:
    """Write the byte code of the project, and of its tests as pytest rewrites them, also where
    PYTHONDONTWRITEBYTECODE is set. The tests start hundreds of processes, each of which would compile three hundred
    modules again, and each worker of xdist would rewrite the assertions of all tests. Where nobody may write, they do.
    """
    sources = ["durable", "project", "tests", "manage.py"]
    collecting = [python, "-m", "pytest", "-n0", "-qq", "--collect-only", "-p", "no:cacheprovider"]
    for command in ([python, "-m", "compileall", "-qq", *sources], collecting):
        environment = with_byte_code() | {"DURABLE_TEST_DATABASE": "sqlite"}
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)


def failures(database: str, results: Path) -> list[str]:
    """A line for each test that has failed: its database, its name, and how its error begins."""
    if not results.exists():
        return []
    lines = []
    for case in ET.parse(results).iter("testcase"):
        for problem in (*case.iter("failure"), *case.iter("error")):
            words = (problem.get("message") or "").split("\n")[0][:200]
            lines.append(f"  on {database}: {case.get('classname')}::{case.get('name')}: {words}")
    return lines


def main() -> int:
    pythons = {database: interpreter(database) for database in DATABASES}
    said = {database: versions(python) for database, python in pythons.items()}
    codes: dict[str, int] = {}
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for database in DATABASES:
            results = Path(folder) / f"{database}.xml"
            codes[database] = run(database, pythons[database], said[database], sys.argv[1:], results)
            failed += failures(database, results)
    if codes["sqlite"] == 0 and codes["postgresql"] == NO_TESTS:
        codes["postgresql"] = 0  # all that was asked for runs once
    told = ", ".join(f"{database} {'passed' if code == 0 else f'failed ({code})'}" for database, code in codes.items())
    print("\n".join(["", told, *failed]), flush=True)
    if kept := os.environ.get("DURABLE_TESTS_FAILED"):
        Path(kept).write_text("".join(f"{line}\n" for line in failed), encoding="utf-8")
    return 0 if not any(codes.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
