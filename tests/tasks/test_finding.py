"""Which names lead to a task, and what is imported for them: nothing that a row alone could choose."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from durable.errors import NotRegistered
from durable.kernel.definitions.naming import labels
from durable.kernel.definitions.registry import registry
from durable.tasks import finding
from tests.tasks import jobs
from tests.tasks.conftest import TASKS
from tests.tasks.interface import PACKAGE, InvalidTask, task_backends

OF_A_TASK = f"""
from {PACKAGE} import task
import builtins
builtins.imported_for_a_row.append(__name__)

@task
def ring() -> str:
    return "ring"

def plain() -> None: ...

other = ring
"""

STRANGERS = ("stranger", "ledger_like", "ledger_likes", "broken")


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the strangers' modules that were imported, in order."""
    names: list[str] = []
    monkeypatch.setattr("builtins.imported_for_a_row", names, raising=False)
    return names


@pytest.fixture(autouse=True)
def made() -> None:
    """The backends of the settings are there, as in every process whose settings name them."""
    assert [task_backends[alias].alias for alias in TASKS] == ["default", "free"]


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: list[str]) -> Iterator[Path]:
    """A folder on the path with modules that belong to no app."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "stranger.py").write_text(OF_A_TASK)
    for name in ("ledger_like", "ledger_likes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tasks.py").write_text(OF_A_TASK)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in STRANGERS]:
        del sys.modules[name]


def found(path: str) -> Any:
    try:
        return registry.activity(path)
    except NotRegistered:
        return None


def test_a_task_is_found_by_its_path() -> None:
    activity = registry.activity("tests.tasks.jobs.answer")
    assert activity is registry.activity(jobs.answer.module_path)
    assert (activity.name, activity.is_async) == ("tests.tasks.jobs.answer", False)
    assert registry.activity("tests.tasks.jobs.answer_async").is_async


@pytest.mark.parametrize(
    "path",
    [
        "subprocess.check_output",
        "os.system",
        "tests.tasks.jobs.seen",
        "tests.tasks.jobs.Lost",
        "tests.tasks.jobs.nothing",
        "tests.tasks.jobs",
        "tests.tasks.jobs.answer.func",
        "tests.nothing.at_all",
        "nothing",
        "",
        ".",
        "..tasks.answer",
        "tests.tasks.jobs.",
    ],
)
def test_a_name_that_is_no_task_is_an_unknown_activity(path: str) -> None:
    assert found(path) is None


def test_a_task_under_another_name_than_its_functions_is_not_found(strangers: Path) -> None:
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": {"modules": ["stranger"]}}}):
        assert task_backends["default"]
        assert found("stranger.ring") is not None
        assert found("stranger.other") is None
        assert found("stranger.plain") is None


def test_a_module_of_no_app_is_not_imported_for_a_row(strangers: Path, imported: list[str]) -> None:
    """Whoever writes rows does not choose which code is imported."""
    assert found("stranger.ring") is None
    assert imported == []
    assert "stranger" not in sys.modules


def test_a_module_that_the_options_name_is_imported(strangers: Path, imported: list[str]) -> None:
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": {"modules": ["stranger"]}}}):
        assert task_backends["default"]
        assert found("stranger.ring").name == "stranger.ring"
    assert imported == ["stranger"]


def test_a_module_of_an_installed_app_is_imported_when_a_task_of_it_comes(
    strangers: Path, imported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.apps import AppConfig, apps

    class Config(AppConfig):
        name = label = "ledger_like"
        path = str(strangers / "ledger_like")

    config = Config("ledger_like", sys)
    monkeypatch.setattr(apps, "get_app_configs", lambda: [config])
    assert found("ledger_likes.tasks.ring") is None  # only begins like the app's name
    assert imported == []
    assert found("ledger_like.tasks.ring").name == "ledger_like.tasks.ring"
    assert found("ledger_like.tasks.ring") is found("ledger_like.tasks.ring")
    assert imported == ["ledger_like.tasks"]


@pytest.mark.parametrize("raised", ["RuntimeError('in the module')", "ImportError('of something else')"])
def test_a_module_that_cannot_be_imported_is_logged_and_its_tasks_are_unknown(
    strangers: Path, raised: str, caplog: pytest.LogCaptureFixture
) -> None:
    (strangers / "broken.py").write_text(f"raise {raised}\n")
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": {"modules": ["broken"]}}}):
        assert task_backends["default"]
        assert found("broken.ring") is None
    [line] = [record for record in caplog.records if record.name == "durable.tasks"]
    assert line.levelname == "ERROR"
    assert "tasks.module_not_imported" in line.getMessage()
    assert "broken" in line.getMessage()
    assert line.exc_info


def test_a_module_that_is_not_there_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert found("tests.tasks.no_such_module.ring") is None
    assert [record for record in caplog.records if record.name == "durable.tasks"] == []


def test_what_a_module_makes_up_when_it_is_asked_is_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's own `__getattr__` may import or compute; it is not asked."""
    asked: list[str] = []

    def __getattr__(name: str) -> Any:
        asked.append(name)
        return jobs.answer

    monkeypatch.setattr(jobs, "__getattr__", __getattr__, raising=False)
    assert found("tests.tasks.jobs.made_up") is None
    assert asked == []


def test_a_task_that_no_worker_would_import_is_refused_when_it_is_enqueued(strangers: Path) -> None:
    """It is imported here, and would not be in the worker."""
    stranger: Any = importlib.import_module("stranger")
    ring: Any = stranger.ring
    assert finding.task_at("stranger.ring") == ring
    with pytest.raises(InvalidTask, match=r"OPTIONS.*modules"):
        ring.enqueue()


def test_a_registered_activity_of_the_same_name_comes_first(isolated_registry: Any) -> None:
    from durable import activity

    @activity(name="tests.tasks.jobs.answer")
    def mine() -> None: ...

    assert registry.activity("tests.tasks.jobs.answer") is mine


def test_finding_a_task_changes_nothing_for_workflows() -> None:
    """Neither the version of the code, by which blocked workflows are tried again, nor any cache of names."""
    version, generation = registry.version(), labels.generation
    finding._found.clear()  # what a process has found, it does not look for again
    assert found("tests.tasks.jobs.answer")
    assert (registry.version(), labels.generation) == (version, generation)
