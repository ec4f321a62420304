"""What foreign projects write against stays as it was promised."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import durable
from tests.architecture.source import ROOT

AUTHORING = {
    "activity",
    "workflow",
    "Retry",
    "get_workflow",
    "activity_info",
    "now",
    "uuid4",
    "random",
    "rng",
    "sleep",
    "wait_for_signal",
    "patched",
    "workflow_info",
    "logger",
    "DurableError",
    "ActivityError",
    "WorkflowFailed",
    "WorkflowCancelled",
    "WorkflowTimedOut",
    "NonDeterminism",
    "PayloadError",
    "KeyTaken",
    "WorkflowClosed",
}
OPERATING = {"terminate", "unblock"}


def test_the_authoring_names_are_exported_and_listed() -> None:
    assert set(durable.__all__) >= AUTHORING
    assert [name for name in durable.__all__ if not hasattr(durable, name)] == []


def test_the_operating_names_are_exported_and_listed() -> None:
    operations = importlib.import_module("durable.operations")
    assert set(operations.__all__) >= OPERATING
    assert [name for name in operations.__all__ if not hasattr(operations, name)] == []


def test_every_error_is_listed_in_the_drawn_tree() -> None:
    """The tree at the top of `durable.errors` is what people read."""
    errors = importlib.import_module("durable.errors")
    drawn = errors.__doc__ or ""
    missing = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.DurableError) and name not in drawn
    ]
    assert missing == []


@pytest.mark.parametrize("statement", ["import durable", "from durable import activity, workflow, Retry"])
def test_authoring_names_can_be_imported_before_any_settings_exist(statement: str) -> None:
    """A module of workflows is importable in a plain interpreter: no settings, no apps, no database."""
    answer = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            f"{statement}\nimport django.conf\nassert not django.conf.settings.configured",
        ],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
