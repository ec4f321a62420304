"""`python -m tests [pytest's arguments]` runs the suite once on SQLite and once on PostgreSQL.

pytest's own summary appears once per database. Exits 0 only if both runs passed.

Both runs use the interpreter that runs this. `DURABLE_TESTS_SQLITE_PYTHON` and `DURABLE_TESTS_POSTGRESQL_PYTHON` name
another one for a database: an environment in which requirements.txt is installed, too. `.ci/run` gives PostgreSQL's run
one of Python 3.12 or newer in this way, so that one command runs Django 5.2 and Django 6.1.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATABASES = ("sqlite", "postgresql")


def workers() -> int:
    """Xdist workers: one more than there are cores, since tests wait a lot; two at least and eight at most."""
    return max(2, min((os.cpu_count() or 1) + 1, 8))


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


def run(database: str, python: str, said: str, arguments: list[str]) -> int:
    """One run of pytest with this interpreter; returns its exit code."""
    print(f"\n===== the suite on {database}, {said} =====", flush=True)
    return subprocess.run(
        [python, "-m", "pytest", "-n", str(workers()), "--durations", "15", *arguments],
        cwd=ROOT,
        env=os.environ | {"DURABLE_TEST_DATABASE": database},
        check=False,
    ).returncode


def main() -> int:
    pythons = {database: interpreter(database) for database in DATABASES}
    said = {database: versions(python) for database, python in pythons.items()}
    codes = {database: run(database, pythons[database], said[database], sys.argv[1:]) for database in DATABASES}
    told = ", ".join(f"{database} {'passed' if code == 0 else f'failed ({code})'}" for database, code in codes.items())
    print(f"\n{told}", flush=True)
    return 0 if not any(codes.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
