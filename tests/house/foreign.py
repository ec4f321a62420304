"""A project of somebody else, made of what README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from django.db import connection

from tests.architecture.source import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


NAMED = re.compile(r"# (\S+\.py)\n(.*)", re.DOTALL)


class ForeignProject:
    """A project that `django-admin` made, which knows of `durable` only what the README says."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.database = database
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("DJANGO_", "PYTEST"))
        }
        self.environment |= {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}

    def make(self) -> None:
        """Make the project, with the database under test and an app called `shop`."""
        self.run("-m", "django", "startproject", "mysite", ".")
        self.run("manage.py", "startapp", "shop")
        if connection.vendor == "postgresql":
            self.append(
                "mysite/settings.py",
                f"DATABASES = {{'default': {{'ENGINE': 'django.db.backends.postgresql', 'NAME': {self.database!r}, "
                f"'USER': 'postgres', 'HOST': {connection.settings_dict['HOST']!r}}}}}\n",
            )

    def append(self, name: str, text: str) -> None:
        """Settings are added to; every other file of the README is new."""
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Run this interpreter in the project's folder; answers its output."""
        answer = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert answer.returncode == 0, f"{arguments}: {answer.stdout}\n{answer.stderr}"
        return answer.stdout
