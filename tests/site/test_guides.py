"""The guides' code runs: each page is a module, its tests are run, and its settings pass the checks."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from durable.kernel.definitions.registry import registry
from tests.architecture.source import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
IDS = [path.stem for path in GUIDES]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return [text for found, text in BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def of_settings(page: Path) -> str:
    """What a page puts into the settings."""
    return "\n".join(text for text in blocks(page, "python") if text.startswith("# mysite/settings.py\n"))


def of_the_module(page: Path) -> str:
    """All other Python of a page, one block below the other."""
    return "\n".join(text for text in blocks(page, "python") if not text.startswith("# mysite/settings.py\n"))


def examples_of(page: Path) -> list[str]:
    return re.findall(r"^def (test_\w+)", of_the_module(page), re.MULTILINE)


CASES = [pytest.param(page, name, id=f"{page.stem}-{name}") for page in GUIDES for name in examples_of(page)]


@pytest.fixture
def module(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The page as a module."""
    name = f"guide_{page.stem}_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(of_the_module(page), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with registry.isolated():
        yield importlib.import_module(name)
    del sys.modules[name]


@pytest.mark.django_db
@pytest.mark.parametrize(("page", "name"), CASES)
def test_an_example_of_a_guide_holds(page: Path, name: str, module: ModuleType) -> None:
    example: Callable[[], None] = getattr(module, name)
    example()


@pytest.mark.parametrize("page", GUIDES, ids=IDS)
def test_a_guide_that_has_code_has_tests_of_it(page: Path) -> None:
    assert examples_of(page) or not of_the_module(page)


@pytest.mark.parametrize("page", [page for page in GUIDES if of_settings(page)], ids=lambda page: page.stem)
def test_the_settings_of_a_guide_pass_the_checks(page: Path) -> None:
    namespace: dict[str, Any] = {"INSTALLED_APPS": []}
    exec(of_settings(page), namespace)
    names = {name: namespace[name] for name in ("DURABLE", "TASKS") if name in namespace}
    assert names
    with registry.isolated(), override_settings(**names):
        call_command("check", "--fail-level", "WARNING", "--tag", "durable")


@pytest.mark.parametrize("page", GUIDES, ids=IDS)
def test_code_for_other_systems_is_python_at_least(page: Path) -> None:
    for text in blocks(page, "py"):
        ast.parse(text)
