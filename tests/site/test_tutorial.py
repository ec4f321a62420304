"""The tutorial, done word for word in an empty folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.house.foreign import ForeignProject

PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# (\S+\.py)\n(.*)", re.DOTALL)
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")

BEFORE = ("mkdir", "python -m venv", "pip install", "django-admin", "python manage.py startapp")
"""What this environment has done already: the folder, the packages, the project."""


class Reader:
    """Somebody who does what the page says, line by line."""

    def __init__(self, project: ForeignProject) -> None:
        self.project = project
        self.said = ""
        self.workflow_id = ""

    def write(self, text: str) -> None:
        """Put a block into the file that it names."""
        named = NAMED.fullmatch(text)
        assert named, f"A block does not say which file it is: {text[:80]}"
        self.project.append(named[1], named[2])

    def do(self, line: str) -> None:
        """Run a line of the shell, and remember what it says."""
        if line.startswith(BEFORE):
            return
        if "createsuperuser" in line:
            line += " --noinput"
        command, _, source = line.partition(" < ")
        arguments = [self.workflow_id if word == "ID" else word for word in shlex.split(command)]
        assert arguments.pop(0) == "python", line
        stdin = (self.project.folder / source).read_text(encoding="utf-8") if source else ""
        self.said = self.project.run(*arguments, stdin=stdin)
        if (found := ID.search(self.said)) and not self.workflow_id:
            self.workflow_id = found[0]


@pytest.fixture
def project(tmp_path: Path) -> ForeignProject:
    """A project on SQLite, as the page has it."""
    made = ForeignProject(tmp_path, "")
    made.run("-m", "django", "startproject", "mysite", ".")
    made.run("manage.py", "startapp", "shop")
    return made


@pytest.mark.slow
def test_the_tutorial_works_word_for_word(project: ForeignProject) -> None:
    reader, outputs = Reader(project), 0
    for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        match language:
            case "python":
                reader.write(text)
            case "bash":
                for line in text.splitlines():
                    reader.do(line)
            case "text":
                outputs += 1
                missing = [line for line in text.splitlines() if line not in reader.said]
                assert missing == [], reader.said
            case _:
                raise AssertionError(f"A block of {language}: who does what with it?")
    assert outputs == 6
