#!/usr/bin/env python3
"""Asks whether anything that is pinned has a known vulnerability: `.ci/audit.py [FILE]`, with each supported Python.

Exits 1 if something has. Where the package index cannot be asked, or says nothing of vulnerabilities, the check is left
out, and the last line says so; it is also written to FILE.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
PIP = ["install", "-q", "--disable-pip-version-check", "--require-hashes", "-r"]


def asked(folder: Path) -> tuple[list[dict[str, Any]], str]:
    """What is known of each package, and what went wrong instead."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    installed = subprocess.run(
        [folder / "bin" / "pip", *PIP, REQUIREMENTS / "tools.txt"], check=False, capture_output=True, text=True
    )
    if installed.returncode:
        return [], f"pip-audit could not be installed: {last_line(installed.stderr)}"
    done = subprocess.run(
        [
            folder / "bin" / "pip-audit", "--disable-pip", "--require-hashes", "-r", REQUIREMENTS / "development.txt",
            "--progress-spinner", "off", "-f", "json",
        ],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    try:
        return json.loads(done.stdout)["dependencies"], ""
    except (ValueError, LookupError):
        return [], last_line(done.stderr)


def last_line(text: str) -> str:
    """What a program said last."""
    return text.strip().rpartition("\n")[2][:300] or "it said nothing"


def verdict(dependencies: list[dict[str, Any]], trouble: str) -> tuple[str, int]:
    """One line about all of them, and the exit code."""
    known = [one for one in dependencies if "vulns" in one]
    unknown = [one["name"] for one in dependencies if "vulns" not in one]
    found = [f"{one['name']} {one['version']}: {vuln['id']}" for one in known for vuln in one["vulns"]]
    if found:
        return f"FAILED: {'; '.join(found)}", 1
    if not known:
        reason = trouble or f"the index says nothing of vulnerabilities ({len(unknown)} packages asked about)"
        return f"left out: {reason}", 0
    rest = f"; nothing is known of {', '.join(unknown)}" if unknown else ""
    return f"none in {len(known)} packages{rest}", 0


def main() -> int:
    """Ask, say it, and write it down."""
    with tempfile.TemporaryDirectory(prefix="durable-audit-") as folder:
        line, code = verdict(*asked(Path(folder)))
    title = f"known vulnerabilities, Python {platform.python_version()}"
    sys.stdout.write(f"{title}: {line}\n")
    for name in sys.argv[1:]:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(f"\n== {title}\n{line}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
