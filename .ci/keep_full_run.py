#!/usr/bin/env python3
"""Keeps the output of a whole `.ci/full` as `docs/full-run.md`: `.ci/keep_full_run.py build/full.txt`."""

from __future__ import annotations

import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "docs" / "full-run.md"

PAGE = """# The last full run

What `.ci/full` printed when it was last kept: every slow test at its full size, and the race tests at the counts of the
specification, on SQLite and on PostgreSQL. Below each test stands what it told: what it tried, how often, with which
seed (`DURABLE_TEST_SEED` repeats a run). Made by `.ci/keep_full_run.py build/full.txt`; not edited by hand.

```text
{printed}
```
"""


def main() -> int:
    """Write the page; refuse the output of a run that failed or was cut short."""
    printed = Path(sys.argv[1]).read_text().strip()
    last = printed.splitlines()[-1]
    if not last.startswith("== ") or " 0 failed" not in last or last.endswith("failed"):
        sys.stderr.write(f"{sys.argv[1]} is not the output of a whole run that passed: {last}\n")
        return 1
    KEPT.write_text(PAGE.format(printed=printed))
    sys.stdout.write(f"{KEPT}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
