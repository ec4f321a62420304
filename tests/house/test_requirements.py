"""Everything that is installed is pinned, with hashes; what an installation needs is apart from the rest."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source import ROOT

FOLDER = ROOT / "requirements"
NAMES = ["run-time", "development", "docs", "tools"]
PYTHONS = ["3.11", "3.12", "3.13"]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def wanted(name: str) -> list[Requirement]:
    """What stands in an .in file, and in what it includes."""
    found = []
    for line in (FOLDER / f"{name}.in").read_text().splitlines():
        if line.startswith("-r "):
            found += wanted(line.removeprefix("-r ").removesuffix(".in"))
        elif line and not line.startswith("#"):
            found.append(Requirement(line))
    return found


def locked(name: str) -> list[tuple[Requirement, list[str]]]:
    """What stands in a .txt file, with its hashes."""
    text = (FOLDER / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(Requirement(line.split("--hash")[0]), HASH.findall(line)) for line in lines]


def pins(name: str, python: str) -> dict[str, str]:
    """What a Python on Linux gets, by name."""
    on = {
        "python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux", "os_name": "posix",
        "implementation_name": "cpython", "platform_python_implementation": "CPython",
    }  # fmt: skip
    return {
        canonicalize_name(one.name): str(one.specifier)
        for one, _ in locked(name)
        if one.marker is None or one.marker.evaluate(on)
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_requirement_is_exact(name: str) -> None:
    every = wanted(name) + [one for one, _ in locked(name)]
    assert [str(one) for one in every if not re.fullmatch(r"==[\w.]+", str(one.specifier))] == []


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_is_installed_has_hashes(name: str) -> None:
    assert [str(one) for one, hashes in locked(name) if not hashes] == []


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", NAMES)
def test_the_locks_hold_what_the_lists_want(name: str, python: str) -> None:
    """Else somebody has changed an .in file and not run `.ci/lock`."""
    held = pins(name, python)
    for one in wanted(name):
        if one.marker is None or one.marker.evaluate({"python_version": python}):
            assert held.get(canonicalize_name(one.name)) == str(one.specifier), f"{one}: run .ci/lock"


@pytest.mark.parametrize("python", PYTHONS)
def test_tests_run_with_the_versions_that_an_installation_gets(python: str) -> None:
    assert pins("run-time", python).items() <= pins("development", python).items()


def test_this_environment_has_what_the_lock_says() -> None:
    """As far as it is installed here: an extra may be missing where somebody has not installed anew."""
    from importlib.metadata import PackageNotFoundError, version

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name in ("django", "structlog", "pytest", "setuptools"):
        try:
            assert f"=={version(name)}" == pins("development", python)[name]
        except PackageNotFoundError:
            pytest.fail(f"{name} is not installed")


def test_the_top_file_includes_the_lock_and_nothing_beside_it() -> None:
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ["-r requirements/development.txt"]


def test_what_the_app_declares_is_in_the_list_of_the_run_time() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = [Requirement(one) for one in project["project"]["dependencies"]]
    listed = {canonicalize_name(one.name): one for one in wanted("run-time")}
    for one in declared:
        assert canonicalize_name(one.name) in listed
    assert not {"pytest", "selenium", "ruff", "django-q2"} & set(pins("run-time", "3.13"))


def test_the_build_back_end_is_the_pinned_one() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert required == [f"setuptools{pins('development', '3.13')['setuptools']}"]


def test_the_build_asks_for_hashes_wherever_it_installs() -> None:
    """The README's line does by itself: pip checks them as soon as one requirement has some."""
    readmes = "pip install -q -r requirements.txt && .venv/bin/python -m tests"
    for path in (ROOT / ".ci").iterdir():
        if path.suffix == ".py" or not path.is_file():
            continue
        for line in path.read_text().splitlines():
            if "pip" in line and " install " in line and not line.lstrip().startswith("#") and readmes not in line:
                assert "--require-hashes" in line, f"{path.name}: {line}"


# --- the audit ---


def audit() -> Any:
    """The module `.ci/audit.py`."""
    spec = importlib.util.spec_from_file_location("durable_ci_audit", ROOT / ".ci" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CLEAN = {"name": "django", "version": "6.1.3", "vulns": []}
HURT = {"name": "django", "version": "6.1.3", "vulns": [{"id": "PYSEC-1"}]}
NOBODY_KNOWS = {"name": "trio", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("dependencies", "trouble", "line", "code"),
    [
        ([CLEAN], "", "none in 1 packages", 0),
        ([CLEAN, NOBODY_KNOWS], "", "none in 1 packages; nothing is known of trio", 0),
        ([HURT, NOBODY_KNOWS], "", "FAILED: django 6.1.3: PYSEC-1", 1),
        ([NOBODY_KNOWS], "", "left out: the index says nothing of vulnerabilities (1 packages asked about)", 0),
        ([], "no route to host", "left out: no route to host", 0),
    ],
)
def test_an_audit_that_was_left_out_says_so(dependencies: list[Any], trouble: str, line: str, code: int) -> None:
    """An index that knows of no vulnerabilities makes pip-audit exit 0."""
    assert audit().verdict(dependencies, trouble) == (line, code)


def test_an_audit_writes_what_it_found_to_the_file_of_the_full_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = audit()
    monkeypatch.setattr(module, "asked", lambda folder: ([HURT], ""))
    monkeypatch.setattr(sys, "argv", ["audit.py", str(tmp_path / "full.txt")])
    assert module.main() == 1
    assert "== known vulnerabilities, Python 3." in (tmp_path / "full.txt").read_text()
    assert "PYSEC-1" in (tmp_path / "full.txt").read_text()


@pytest.mark.parametrize("script", ["lock", "run", "full", "pythons"])
def test_the_scripts_of_the_build_are_shell(script: str) -> None:
    done = subprocess.run(["/bin/bash", "-n", ROOT / ".ci" / script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
