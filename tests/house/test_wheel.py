"""What is installed elsewhere is complete."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import durable
from tests.architecture.source import ROOT
from tests.languages.catalogues import LANGUAGES

LEFT_OUT = {".pyc", ".swp"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what `python -m build` makes: the source archive, and the wheel of that. Built from a copy, so
    that no `build/` of this run meets another one's.
    """
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "durable", source / "durable", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(source)],
        check=True,
        timeout=110,
        capture_output=True,
    )
    return target


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (found,) = built.glob("*.whl")
    assert found.name.startswith("durable_django-")
    return zipfile.ZipFile(found)


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


# --- what it says of itself ---


def test_the_metadata_say_what_an_index_shows(wheel: zipfile.ZipFile) -> None:
    """No address of a project is among them: nobody has given one, and an invented one would be somebody else's."""
    (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    told = message_from_string(wheel.read(name).decode())
    assert (told["Name"], told["License-Expression"], told["Requires-Python"]) == ("durable-django", "MIT", ">=3.11")
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", told["Version"])
    assert told["Version"] == durable.__version__
    assert told["Description-Content-Type"] == "text/markdown"
    assert "durable execution" in told["Keywords"]
    classified = told.get_all("Classifier") or []
    for django in ("5.2", "6.1"):
        assert f"Framework :: Django :: {django}" in classified
    for python in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {python}" in classified
    assert told.get_all("Project-URL") is None
    assert sorted(told.get_all("Provides-Extra") or []) == sorted(EXTRAS)


def test_every_dependency_has_its_line_on_the_page() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    named = {word for line in page.splitlines() if line.startswith("| `") for word in re.findall(r"`([\w-]+)`", line)}
    wanted = set()
    for name in ("run-time", "development", "docs", "tools"):
        lines = (ROOT / "requirements" / f"{name}.in").read_text().splitlines()
        wanted |= {re.split(r"[=\[]", line)[0] for line in lines if line and not line.startswith(("#", "-r"))}
    assert wanted - named == set()


# --- installed where nothing else is ---

EXTRAS = {
    "postgresql": "import psycopg",
    "django-q2": "import django_q",
    "django-structlog": "import django_structlog",
    "crypto": "from durable.crypto import EncryptingCodec",
    "tasks": "from durable.tasks import DurableBackend; assert DurableBackend.__mro__",
    "metrics": "from durable.metrics import counting, text; print(text.rendered(counting.begin().read())[1].decode())",
    "otel": "import opentelemetry.trace; assert durable.tracing.current() is None",
}
"""Each extra, and what works with it."""

STORY = """
import sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "durable"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:",
                           "OPTIONS": {"transaction_mode": "IMMEDIATE"}}},
    SECRET_KEY="x", USE_TZ=True,
)
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("check", fail_level="WARNING")
import durable, durable.tracing
from durable import testing

@durable.activity(name="add")
def add(one: int, two: int) -> int:
    return one + two

@durable.workflow(name="sum")
async def total(number: int) -> int:
    return await add.execute(number, 1)

assert testing.run(total, 41) == 42
assert "site-packages" in durable.__file__, durable.__file__
"""


def pins() -> str:
    """The versions of the suite, without their hashes: those of the wheel itself nobody knows."""
    texts = [(ROOT / "requirements" / name).read_text() for name in ("run-time.txt", "development.txt")]
    lines = {line.removesuffix(" \\") for text in texts for line in text.splitlines() if re.match(r"[A-Za-z]", line)}
    return "\n".join(sorted(re.sub(r"\[[^]]*\]", "", line) for line in lines)) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_the_wheel_runs_where_nothing_else_is_installed(built: Path, tmp_path: Path, extra: str) -> None:
    """In an environment of its own, from the package index, each extra by itself."""
    (tmp_path / "pins.txt").write_text(pins())
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    (found,) = built.glob("*.whl")
    wanted = f"durable-django[{extra}] @ {found.as_uri()}" if extra else str(found)
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "-c", str(tmp_path / "pins.txt")]
    done = subprocess.run([*install, wanted], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    story = f"{STORY}\n{EXTRAS.get(extra, '')}\nprint('it works')"
    run = subprocess.run(
        [python, "-I", "-c", story], capture_output=True, text=True, timeout=110, check=False, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.endswith("it works\n")


def test_the_extras_are_those_that_are_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(project["optional-dependencies"]) == sorted(EXTRAS)
