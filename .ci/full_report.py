"""What `.ci/full` writes down: each test with what it told about itself (counts, seeds), its result and its seconds.

As a plugin of pytest (`-p full_report`) it appends to `DURABLE_FULL_FILE` while the tests run, so that a run which is
cut short leaves what it found, and shows the same on the terminal. `full_report.py head` prints the head of that file,
`full_report.py tail FILE CODE` appends the sums.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

RESULT = re.compile(r"^(ok|FAILED) +[\d.]+ s  ")
WHOLE = ("tests/chaos/", "tests/crashpoints/", "tests/machine/")
DATE, MOMENT = "date      ", "%Y-%m-%d %H:%M UTC"


@dataclass
class Told:
    """What is known of one test."""

    seconds: float = 0.0
    outcome: str = "ok"
    lines: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)


class Report:
    """Writes a paragraph for each test."""

    def __init__(self, file: Path, terminal: pytest.TerminalReporter) -> None:
        self._file = file
        self._terminal = terminal
        self._told: dict[str, Told] = {}
        self._left_out: Counter[str] = Counter()

    def pytest_sessionstart(self) -> None:
        """The heading of a part."""
        self._write(["", f"== {os.environ['DURABLE_FULL_PART']}", ""])

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No dots: there are the paragraphs."""
        if report.when == "call" or not report.passed:
            return report.outcome, "", ""
        return "", "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended."""
        told = self._told.setdefault(report.nodeid, Told())
        told.seconds += report.duration
        if report.when == "call":
            told.lines += [line for line in report.capstdout.splitlines() if line.strip()]
        if report.failed:
            told.outcome = "FAILED"
            told.trouble += report.longreprtext.splitlines() + report.capstdout.splitlines()[-60:]
        elif report.skipped:
            told.outcome = "left out"
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected to fail"
            told.lines.append(str(reason).removeprefix("Skipped: "))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test has ended."""
        told = self._told.pop(nodeid)
        if told.outcome == "left out":
            self._left_out[told.lines[-1]] += 1
            return
        self._write(
            [f"{told.outcome:<6} {told.seconds:8.1f} s  {nodeid}"]
            + [f"{'':20}{line}" for line in told.lines]
            + [f"{'':4}| {line}" for line in told.trouble]
        )

    def pytest_sessionfinish(self) -> None:
        """What had no place on this database."""
        self._write([f"left out here: {count} ({reason})" for reason, count in sorted(self._left_out.items())])

    def _write(self, lines: list[str]) -> None:
        with self._file.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        for line in lines:
            self._terminal.write_line(line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the whole suite: what is slow, what races, and all that is in the folders that exist for this."""
    chosen = [item for item in items if item.nodeid.startswith(WHOLE) or {"slow", "races"} & set(item.keywords)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take the place of pytest's own progress."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    config.pluginmanager.register(Report(Path(os.environ["DURABLE_FULL_FILE"]), terminal))


def head() -> list[str]:
    """When, where, and what of."""
    return [
        f"{DATE}{datetime.now(UTC):{MOMENT}}",
        f"commit    {_commit()}",
        f"machine   {os.cpu_count()} cores, {_memory()}, {platform.system()} {platform.release()}",
        f"python    {platform.python_version()}, SQLite {_sqlite()}, Django {_django()}",
        "sizes     full (DURABLE_TEST_FULL=1)",
    ]


def tail(file: Path, code: str) -> list[str]:
    """How many ended how, how long it took, and whether every part came to its end."""
    lines = file.read_text().splitlines()
    results = Counter(found[1] for line in lines if (found := RESULT.match(line)))
    began = datetime.strptime(f"{lines[0].removeprefix(DATE)} +0000", f"{MOMENT} %z")
    minutes = (datetime.now(UTC) - began).total_seconds() / 60
    told = f"== {results['ok']} passed, {results['FAILED']} failed, in {minutes:.0f} minutes"
    return ["", told if code == "0" or results["FAILED"] else f"{told}; a part did not come to its end: failed"]


def _commit() -> str:
    def git(*arguments: str) -> str:
        told = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607
        return told.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("log", "-1", "--format=%h of %cs") + (", with changes that are not committed" if changed else "")


def _memory() -> str:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{pages / 2**30:.0f} GiB"


def _sqlite() -> str:
    import sqlite3

    return sqlite3.sqlite_version


def _django() -> str:
    import django

    return django.__version__


if __name__ == "__main__":
    if sys.argv[1] == "head":
        lines = head()
    else:
        lines = tail(Path(sys.argv[2]), sys.argv[3])
        with Path(sys.argv[2]).open("a") as opened:
            opened.writelines(f"{line}\n" for line in lines)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
