"""`python -m tests [pytest's arguments]` runs the suite once on SQLite and once on PostgreSQL.

pytest's own summary appears once per database. Exits 0 only if both runs passed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATABASES = ("sqlite", "postgresql")


def workers() -> int:
    """Xdist workers: as many as there are cores, but two at least (tests wait a lot) and eight at most."""
    return max(2, min(os.cpu_count() or 2, 8))


def run(database: str, arguments: list[str]) -> int:
    """One run of pytest; answers its exit code."""
    print(f"\n===== the suite on {database} =====", flush=True)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-n", str(workers()), *arguments],
        cwd=ROOT,
        env=os.environ | {"DURABLE_TEST_DATABASE": database},
        check=False,
    ).returncode


def main() -> int:
    codes = {database: run(database, sys.argv[1:]) for database in DATABASES}
    told = ", ".join(f"{database} {'passed' if code == 0 else f'failed ({code})'}" for database, code in codes.items())
    print(f"\n{told}", flush=True)
    return 0 if not any(codes.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
