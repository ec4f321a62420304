"""The types of the public names, as mypy sees them from a foreign project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

FILE = Path(__file__).with_name("follows.py")


def checked(file: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    configuration = tmp_path / "mypy.ini"
    configuration.write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    cache = ROOT / ".mypy_cache" / "typing"
    command = [sys.executable, "-m", "mypy", "--config-file", str(configuration), "--cache-dir", str(cache), str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_type_checker_follows_calls_and_refuses_exactly_the_wrong_ones(tmp_path):
    """An ignore whose error does not come is an error itself (`strict`)."""
    answer = checked(FILE, tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_without_its_ignores_every_wrong_call_is_an_error(tmp_path):
    wrong = FILE.read_text().count("# type: ignore[")
    bare = tmp_path / "bare.py"
    bare.write_text(FILE.read_text().replace("# type: ignore[", "# was ["))
    answer = checked(bare, tmp_path)
    assert f"Found {wrong} errors" in answer.stdout


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "durable" / "py.typed").is_file()
