"""What is installed elsewhere is complete."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.languages.catalogues import LANGUAGES

LEFT_OUT = {".pyc", ".swp"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy so that no `build/` of this run meets another one's."""
    import shutil

    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "durable", source / "durable", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            str(target),
            str(source),
        ],
        check=True,
        timeout=110,
        capture_output=True,
    )
    (built,) = target.glob("*.whl")
    assert built.name.startswith("durable_django-")
    return zipfile.ZipFile(built)


def test_the_wheel_carries_every_file_of_the_app(wheel: zipfile.ZipFile) -> None:
    """Templates, static files, translations, migrations and py.typed, and not only what happens to be Python."""
    there = set(wheel.namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "durable").rglob("*")
        if path.is_file() and path.suffix not in LEFT_OUT and "__pycache__" not in path.parts
    }
    assert "durable/py.typed" in wanted
    assert {f"durable/locale/{language}/LC_MESSAGES/django.mo" for language in LANGUAGES} <= wanted
    assert wanted - there == set()


def test_the_wheel_carries_nothing_else(wheel: zipfile.ZipFile) -> None:
    strangers = {Path(name).parts[0] for name in wheel.namelist()} - {"durable"}
    assert all(name.endswith(".dist-info") for name in strangers)


def test_the_wheel_needs_django_and_structlog_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    needs = [line for line in wheel.read(metadata).decode().splitlines() if line.startswith("Requires-Dist")]
    assert [need for need in needs if "extra ==" not in need] == [
        "Requires-Dist: Django>=5.2",
        "Requires-Dist: structlog>=24.1",
    ]
