#!/usr/bin/env python3
"""Keeps the output of a whole `.ci/full` as `docs/full-run.md`: `.ci/keep_full_run.py build/full.txt`.

Of two runs, one for each database, both files are given.
"""

from __future__ import annotations

import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "docs" / "full-run.md"
DATABASES = ("sqlite", "postgresql")

PAGE = """# The last full run

What `.ci/full` printed when it was last kept: every slow test at its full size, and the race tests at the counts of the
specification, on SQLite and on PostgreSQL. Below each test stands what it told: what it tried, how often, with which
seed (`DURABLE_TEST_SEED` repeats a run). Made by `.ci/keep_full_run.py`; not edited by hand.

{printed}
"""


def fault_of(printed: list[str]) -> str | None:
    """Why these can not be kept: one failed or was cut short, or a database is missing."""
    for one in printed:
        last = one.splitlines()[-1]
        if not last.startswith("== ") or " 0 failed" not in last or last.endswith("failed"):
            return f"Not the output of a whole run that passed: {last}"
    missing = [name for name in DATABASES if f"== on {name}" not in "\n".join(printed).splitlines()]
    return f"Nothing was run on {' and '.join(missing)}." if missing else None


def main() -> int:
    """Write the page, if there is no fault."""
    printed = [Path(name).read_text().strip() for name in sys.argv[1:]]
    if fault := fault_of(printed):
        sys.stderr.write(f"{fault}\n")
        return 1
    KEPT.write_text(PAGE.format(printed="\n\n".join(f"```text\n{one}\n```" for one in printed)))
    sys.stdout.write(f"{KEPT}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
