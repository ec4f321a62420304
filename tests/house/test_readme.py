"""The README's quick start, done word for word in a foreign project, on the database under test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.db import connection

from tests.architecture.source import ROOT
from tests.house.foreign import BLOCK, NAMED, ForeignProject


def blocks() -> list[tuple[str, str]]:
    """The fenced blocks below "Use it in your project", as (language, text)."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    quick_start = text.split("## Use it in your project")[1].split("\n## ")[0]
    return BLOCK.findall(quick_start)


@pytest.fixture
def foreign_project(tmp_path: Path, transactional_db: None) -> ForeignProject:
    """The project, and on PostgreSQL a database of its own beside the suite's."""
    name = f"foreign_{os.getpid()}"
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"CREATE DATABASE {name}")
    project = ForeignProject(tmp_path, name)
    project.make()
    return project


def test_the_quick_start_works_word_for_word(foreign_project: ForeignProject) -> None:
    """J1, and the newcomer's path: install, settings, write, migrate, start, run, ask."""
    output = ""
    for language, text in blocks():
        if language == "python":
            named = NAMED.fullmatch(text)
            assert named, f"A block of the quick start does not say which file it is: {text[:80]}"
            foreign_project.append(named[1], named[2])
        else:
            for line in text.splitlines():
                output += follow(foreign_project, line)
    assert "running" in output
    assert "charging 9.90" in output
    answer = foreign_project.run("manage.py", "shell", stdin=(foreign_project.folder / "ask.py").read_text())
    assert answer.strip().endswith("R-42 approved by Ada")


@pytest.mark.parametrize("own", ["PRAGMA cache_size=-4321", "PRAGMA cache_size=-4321;", None])
def test_the_settings_of_the_quick_start_keep_what_the_host_has(
    foreign_project: ForeignProject, own: str | None
) -> None:
    """A project that lists its apps in a tuple, and has options for its database already."""
    foreign_project.append(
        "mysite/settings.py",
        f"INSTALLED_APPS = tuple(INSTALLED_APPS)\n"
        f"if DATABASES['default']['ENGINE'].endswith('sqlite3'):\n"
        f"    DATABASES['default']['OPTIONS'] = {{'init_command': {own!r}, 'timeout': 33}}\n",
    )
    for language, text in blocks():
        if language == "python" and (named := NAMED.fullmatch(text)):
            foreign_project.append(named[1], named[2])
    said = foreign_project.run("manage.py", "check", "--fail-level", "WARNING", "--database", "default")
    assert "no issues" in said
    if connection.vendor == "sqlite":
        asked = "".join(
            f"c.execute('PRAGMA {name}'); print('{name}', c.fetchone()[0])\n"
            for name in ("cache_size", "journal_mode", "busy_timeout")
        )
        told = foreign_project.run(
            "manage.py", "shell", stdin=f"from django.db import connection\nc = connection.cursor()\n{asked}"
        )
        assert "journal_mode wal" in told
        assert "busy_timeout 33000" in told
        assert ("cache_size -4321" in told) is (own is not None)


def follow(project: ForeignProject, line: str) -> str:
    """Do what a line of the README's shell blocks says. Installing is what this environment already did."""
    if line.startswith("pip install"):
        return ""
    command, _, source = line.removeprefix("python ").partition(" < ")
    return project.run(*command.split(), stdin=(project.folder / source).read_text() if source else "")


def test_the_checks_find_nothing_wrong_in_the_quick_start(foreign_project: ForeignProject) -> None:
    for language, text in blocks():
        if language == "python" and (named := NAMED.fullmatch(text)):
            foreign_project.append(named[1], named[2])
    said = foreign_project.run("manage.py", "check", "--fail-level", "WARNING", "--database", "default")
    assert "no issues" in said
