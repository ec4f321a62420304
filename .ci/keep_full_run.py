#!/usr/bin/env python3
"""Keeps the output of a whole `.ci/full` as `docs/full-run.md`: `.ci/keep_full_run.py build/full.txt`.

Of two runs, one for each database, both files are given, and behind them the file of a part that was run again: what
had failed must have passed there. The page shows both.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "docs" / "full-run.md"
PARTS = ("== on sqlite", "== on postgresql")
RESULT = re.compile(r"^(ok|FAILED) +[\d.]+ s  (\S+)")

PAGE = """# The last full run

What `.ci/full` printed when it was last kept: every slow test at its full size, and the race tests at the counts of the
specification, on SQLite and on PostgreSQL. Below each test stands what it told: what it tried, how often, with which
seed (`DURABLE_TEST_SEED` repeats a run). Made by `.ci/keep_full_run.py`; not edited by hand.

{printed}
"""


def fault_of(printed: list[str]) -> str | None:
    """Why these can not be kept: one was cut short, a test failed when it was last run, or a database is missing."""
    last_results: dict[tuple[str, str], str] = {}
    part = ""
    for one in printed:
        lines = one.splitlines()
        if not lines[-1].startswith("== ") or lines[-1].endswith("failed"):
            return f"Not the output of a whole run: {lines[-1]}"
        for line in lines:
            part = line if line in PARTS else part
            if found := RESULT.match(line):
                last_results[part, found[2]] = found[1]
    if failed := [f"{test} {part}" for (part, test), result in last_results.items() if result == "FAILED"]:
        return f"Failed, and not run again: {failed[0]}"
    missing = [part for part in PARTS if part not in {part for part, _ in last_results}]
    return f"Nothing was run {' and '.join(missing)}." if missing else None


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
